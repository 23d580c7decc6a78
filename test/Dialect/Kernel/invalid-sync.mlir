// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

func.func @part(%shared: !llvm.ptr<3>) {
  // expected-error@+1 {{names 'full' of a ring without a stage; add '[%stage]'}}
  %0 = fp8moe_kernel.shared_part full "ring" at %shared : !llvm.ptr<3>
  return
}

// -----

func.func @part(%shared: !llvm.ptr<3>, %stage: i32) {
  // expected-error@+1 {{has a stage, but 'memory' is no part of a ring; expected 'stage', 'full' or 'empty'}}
  %0 = fp8moe_kernel.shared_part memory "result"[%stage] at %shared : !llvm.ptr<3>
  return
}

// -----

func.func @init(%shared: !llvm.ptr<3>) {
  // expected-error@+1 {{asks for 0 arrivals; expected 1 to 1048575}}
  fp8moe_kernel.mbarrier_init %shared, 0
  return
}

// -----

func.func @barrier() {
  %id = arith.constant 16 : i32
  // expected-error@+1 {{names barrier 16; a block has 0 to 15}}
  fp8moe_kernel.named_barrier %id, 128
  return
}

// -----

func.func @barrier(%id: i32) {
  // expected-error@+1 {{is for 40 threads; expected a positive multiple of 32 up to 1024}}
  fp8moe_kernel.named_barrier_arrive %id, 40
  return
}

// -----

func.func @registers() {
  // expected-error@+1 {{asks for 100 registers; expected a multiple of 8 from 24 to 256}}
  fp8moe_kernel.set_registers increase 100
  return
}

// -----

func.func @wait() {
  // expected-error@+1 {{leaves more under way than can be counted; expected at most 63 loads and 15 accesses to shared memory}}
  fp8moe_kernel.wait_accesses loads 64 shared 0
  return
}

// -----

func.func @wait() {
  // expected-error@+1 {{leaves more under way than can be counted}}
  fp8moe_kernel.wait_accesses shared 16
  return
}

// -----

func.func @priority() {
  // expected-error@+1 {{has priority 4; expected 0 to 3}}
  fp8moe_kernel.set_priority 4
  return
}

// -----

func.func @coordinates(%shared: !llvm.ptr<3>, %map: !llvm.ptr) {
  // expected-error@+1 {{has 0 coordinates; a tensor map has 1 to 5 dimensions}}
  fp8moe_kernel.tensor_load %shared from %map[] signals %shared
  return
}

// -----

func.func @coordinates(%shared: !llvm.ptr<3>, %map: !llvm.ptr, %i: i32) {
  // expected-error@+1 {{has 6 coordinates}}
  fp8moe_kernel.tensor_store %shared to %map[%i, %i, %i, %i, %i, %i]
  return
}

// -----

func.func @coordinates(%shared: !llvm.ptr<3>, %map: !llvm.ptr) {
  // expected-error@+1 {{has 0 coordinates}}
  fp8moe_kernel.tensor_add %shared to %map[]
  return
}

// -----

func.func @coordinates(%map: !llvm.ptr) {
  // expected-error@+1 {{has 0 coordinates}}
  fp8moe_kernel.tensor_prefetch %map[]
  return
}

// -----

func.func @add(%global: !llvm.ptr<1>, %x: f32) {
  // expected-error@+1 {{has 2 values; expected 4}}
  fp8moe_kernel.add_floats %global, %x, %x
  return
}

// -----

func.func @store(%shared: !llvm.ptr<3>, %word: i32) {
  // expected-error@+1 {{has 3 values; expected 4}}
  fp8moe_kernel.store_matrices %shared, %word, %word, %word
  return
}

// -----

func.func @wgmma(%a: i64, %sums: !llvm.struct<(f32, f32, f32)>, %flag: i32) {
  // expected-error@+1 {{has accumulators '!llvm.struct<(f32, f32, f32)>'; expected a struct of N / 2 f32, where N is a multiple of 8 up to 256}}
  %0 = fp8moe_kernel.wgmma %a, %a, %sums if %flag : bf16, bf16, !llvm.struct<(f32, f32, f32)>
  return
}

// -----

func.func @wgmma(%a: i64, %sums: !llvm.struct<(f32, f32, f32, f32)>, %flag: i32) {
  // expected-error@+1 {{multiplies 'bf16' by 'f8E5M2'; expected two of f8E4M3FN and f8E5M2, or bf16 twice}}
  %0 = fp8moe_kernel.wgmma %a, %a, %sums if %flag : bf16, f8E5M2, !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @wgmma(%a: i64, %sums: !llvm.struct<(f32, f32, f32, f32)>, %flag: i32) {
  // expected-error@+1 {{has an MN-major operand of FP8; only operands of bf16 may be MN-major}}
  %0 = fp8moe_kernel.wgmma %a, %a, %sums if %flag mn_major_b
      : f8E5M2, f8E5M2, !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

// expected-note@+1 {{prior use here}}
func.func @space(%global: !llvm.ptr<1>) {
  // expected-error@+1 {{use of value '%global' expects different type than prior uses}}
  fp8moe_kernel.arrive %global
  return
}

// -----

func.func @mfma(%a: i64, %sums: vector<8xf32>) {
  // expected-error@+1 {{has accumulators 'vector<8xf32>'; expected vector<16xf32> or vector<4xf32>}}
  %0 = fp8moe_kernel.mfma %a, %a, %sums : f8E5M2, f8E5M2, i64, vector<8xf32>
  return
}

// -----

func.func @mfma(%a: i64, %sums: vector<16xf32>) {
  // expected-error@+1 {{multiplies 'bf16' by 'f8E5M2'; expected FP8 twice, or bf16 twice}}
  %0 = fp8moe_kernel.mfma %a, %a, %sums : bf16, f8E5M2, i64, vector<16xf32>
  return
}

// -----

func.func @mfma(%a: i64, %sums: vector<4xf32>) {
  // expected-error@+1 {{has operands of 'i64'; expected 'vector<8xi32>'}}
  %0 = fp8moe_kernel.mfma %a, %a, %sums : f8E5M2, f8E5M2, i64, vector<4xf32>
  return
}

// -----

func.func @mfma(%a: i64, %sums: vector<16xf32>, %scale: i32) {
  // expected-error@+1 {{has 2 scales; expected two of FP8 with vector<4xf32>, or none}}
  %0 = fp8moe_kernel.mfma %a, %a, %sums scales %scale, %scale : f8E5M2, f8E5M2, i64, vector<16xf32>
  return
}

// -----

func.func @pair(%a: f32) {
  // expected-error@+1 {{converts 'bf16'}}
  %0 = fp8moe_kernel.pack_fp8_pair %a, %a : bf16
  return
}
