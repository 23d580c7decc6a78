// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

func.func @pack(%a: f32) {
  // expected-error@+1 {{packs 5 values; expected a positive multiple of 4}}
  %0 = fp8moe_kernel.pack_fp8 %a, %a, %a, %a, %a : f8E4M3FN
  return
}

// -----

func.func @pack(%a: f32) {
  // expected-error@+1 {{has 2 scales for 4 values; expected none or one for each value}}
  %0 = fp8moe_kernel.pack_fp8 %a, %a, %a, %a times %a, %a : f8E4M3FN
  return
}

// -----

func.func @pack(%a: f32) {
  // expected-error@+1 {{bounds products, but has no scales; add 'times', or leave out 'products'}}
  %0 = fp8moe_kernel.pack_fp8 %a, %a, %a, %a products own_scale : f8E4M3FN
  return
}

// -----

func.func @pack(%a: f32) {
  // expected-error@+1 {{converts 'bf16'; expected f8E4M3FN, f8E5M2, f8E4M3FNUZ or f8E5M2FNUZ}}
  %0 = fp8moe_kernel.pack_fp8 %a, %a, %a, %a : bf16
  return
}

// -----

func.func @unpack(%word: i32) {
  // expected-error@+1 {{converts 'f8E8M0FNU'}}
  %0:4 = fp8moe_kernel.unpack_fp8 %word : f8E8M0FNU
  return
}

// -----

func.func @ballot(%condition: i1) {
  // expected-error@+1 {{result #0 must be 32-bit signless integer or 64-bit signless integer}}
  %0 = fp8moe_kernel.ballot %condition : i16
  return
}

// -----

func.func @exchange(%word: i32) {
  // expected-error@+1 {{has mask 3; expected a power of two from 1 to 32}}
  %0, %1 = fp8moe_kernel.exchange %word, 3
  return
}

// -----

// expected-error@+1 {{has the unknown attribute 'fp8moe_kernel.blocks'; this dialect knows 'fp8moe_kernel.resident_blocks'}}
func.func @attribute() attributes {fp8moe_kernel.blocks = 1 : i32} {
  return
}

// -----

gpu.module @kernels {
  // expected-error@+1 {{has 'fp8moe_kernel.resident_blocks = 0 : i32'; expected a positive i32 on a gpu.func}}
  gpu.func @k() kernel attributes {fp8moe_kernel.resident_blocks = 0 : i32} {
    gpu.return
  }
}

// -----

// expected-error@+1 {{expected a positive i32 on a gpu.func}}
func.func @function() attributes {fp8moe_kernel.resident_blocks = 1 : i32} {
  return
}
