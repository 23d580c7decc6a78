// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-nvvm)))" | FileCheck %s

gpu.module @kernels {
  // CHECK: gpu.func @blocks() kernel attributes {nvvm.minctasm = 3 : i32}
  gpu.func @blocks() kernel attributes {fp8moe_kernel.resident_blocks = 3 : i32} {
    gpu.return
  }
  // CHECK: gpu.func @default() kernel attributes {nvvm.minctasm = 1 : i32}
  gpu.func @default() kernel {
    gpu.return
  }
  // CHECK: gpu.func @helper() {
  gpu.func @helper() {
    gpu.return
  }

  // CHECK-LABEL: gpu.func @pack_fp8
  // CHECK-SAME: (%[[A:.*]]: f32, %[[B:.*]]: f32, %[[C:.*]]: f32, %[[D:.*]]: f32)
  gpu.func @pack_fp8(%a: f32, %b: f32, %c: f32, %d: f32) -> i32 {
    // The PTX conversion puts its second operand into the lower byte, so the operands are swapped.
    // CHECK: %[[LOW:.*]] = nvvm.convert.f32x2.to.f8x2 %[[B]], %[[A]] {{.*}}satfinite{{.*}} : i16(f8E4M3FN)
    // CHECK: %[[LOW32:.*]] = arith.extui %[[LOW]]
    // CHECK: %[[HIGH:.*]] = nvvm.convert.f32x2.to.f8x2 %[[D]], %[[C]]
    // CHECK: %[[HIGH32:.*]] = arith.extui %[[HIGH]]
    // CHECK: %[[SHIFTED:.*]] = arith.shli %[[HIGH32]], %c16
    // CHECK: arith.ori %[[LOW32]], %[[SHIFTED]]
    %word = fp8moe_kernel.pack_fp8 %a, %b, %c, %d : f8E4M3FN
    gpu.return %word : i32
  }

  // CHECK-LABEL: gpu.func @pack_products
  gpu.func @pack_products(%a: f32, %s: f32) -> (i32, i32) {
    // CHECK-COUNT-8: arith.mulf
    // CHECK-COUNT-4: nvvm.convert.f32x2.to.f8x2 {{.*}}(f8E5M2)
    %words:2 = fp8moe_kernel.pack_fp8 %a, %a, %a, %a, %a, %a, %a, %a
        times %s, %s, %s, %s, %s, %s, %s, %s products own_power_of_two : f8E5M2
    gpu.return %words#0, %words#1 : i32, i32
  }

  // CHECK-LABEL: gpu.func @pack_fp8_pair
  // CHECK-SAME: (%[[A:.*]]: f32, %[[B:.*]]: f32)
  gpu.func @pack_fp8_pair(%a: f32, %b: f32) -> i16 {
    // CHECK: nvvm.convert.f32x2.to.f8x2 %[[B]], %[[A]] {{.*}}satfinite{{.*}} : i16(f8E4M3FN)
    %pair = fp8moe_kernel.pack_fp8_pair %a, %b : f8E4M3FN
    gpu.return %pair : i16
  }

  // CHECK-LABEL: gpu.func @unpack_fp8
  gpu.func @unpack_fp8(%word: i32) -> f32 {
    // Every e5m2 and e4m3 value is exact in f16, so unpacking goes through f16.
    // CHECK: nvvm.convert.f8x2.to.f16x2 {{.*}}(f8E5M2)
    // CHECK-COUNT-2: arith.extf {{.*}} f16 to f32
    // CHECK: nvvm.convert.f8x2.to.f16x2
    // CHECK-COUNT-2: arith.extf
    %values:4 = fp8moe_kernel.unpack_fp8 %word : f8E5M2
    gpu.return %values#0 : f32
  }

  // CHECK-LABEL: gpu.func @pack_bf16
  // CHECK-SAME: (%[[LOW:.*]]: f32, %[[HIGH:.*]]: f32)
  gpu.func @pack_bf16(%low: f32, %high: f32) -> vector<2xbf16> {
    // CHECK: nvvm.convert.f32x2.to.bf16x2 %[[HIGH]], %[[LOW]]
    %pair = vector.from_elements %low, %high : vector<2xf32>
    %rounded = arith.truncf %pair : vector<2xf32> to vector<2xbf16>
    gpu.return %rounded : vector<2xbf16>
  }

  // CHECK-LABEL: gpu.func @permute_bytes
  // CHECK-SAME: (%[[LOW:.*]]: i32, %[[HIGH:.*]]: i32, %[[SELECTOR:.*]]: i32)
  gpu.func @permute_bytes(%low: i32, %high: i32, %selector: i32) -> i32 {
    // CHECK: nvvm.prmt <default> %[[SELECTOR]], %[[LOW]], %[[HIGH]]
    %word = fp8moe_kernel.permute_bytes %low, %high, %selector
    gpu.return %word : i32
  }

  // CHECK-LABEL: gpu.func @lanes
  // CHECK-SAME: (%[[WORD:.*]]: i32, %[[CONDITION:.*]]: i1)
  gpu.func @lanes(%word: i32, %condition: i1) -> (i32, i32, i1, i32, i32, i32) {
    // CHECK: %[[LANES:.*]] = nvvm.vote.sync ballot %c-1{{.*}}, %[[CONDITION]] -> i32
    %lanes = fp8moe_kernel.ballot %condition : i32
    // CHECK: %[[ANY:.*]] = nvvm.vote.sync any %c-1{{.*}}, %[[CONDITION]] -> i1
    %any = fp8moe_kernel.vote_any %condition
    // CHECK: %[[OTHER:.*]], %{{.*}} = gpu.shuffle xor %[[WORD]], %c16{{.*}}, %c32
    %one, %other = fp8moe_kernel.exchange %word, 16
    // CHECK: %[[LARGEST:.*]] = nvvm.redux.sync umax %[[WORD]], %c-1
    %largest = gpu.subgroup_reduce maxui %word uniform : (i32) -> i32
    // CHECK: %[[READ:.*]], %{{.*}} = gpu.shuffle idx %[[WORD]], %[[LARGEST]], %c32
    %read = fp8moe_kernel.read_lane %word, %largest
    %uniform = fp8moe_kernel.uniform %read
    // CHECK: gpu.return %[[READ]], %[[LANES]], %[[ANY]], %[[WORD]], %[[OTHER]], %[[LARGEST]]
    gpu.return %uniform, %lanes, %any, %one, %other, %largest : i32, i32, i1, i32, i32, i32
  }

  // CHECK-LABEL: gpu.func @waits
  gpu.func @waits() {
    // CHECK: nvvm.bar.warp.sync %c-1
    fp8moe_kernel.subgroup_barrier
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @wave(%condition: i1) -> i64 {
    // expected-error@+1 {{'fp8moe_kernel.ballot' op has a result of 'i64'; subgroups of NVIDIA's GPUs have 32 lanes, so it is an i32}}
    %lanes = fp8moe_kernel.ballot %condition : i64
    gpu.return %lanes : i64
  }
}

// -----

gpu.module @kernels {
  gpu.func @sum(%word: i32) -> i32 {
    // expected-error@+1 {{'gpu.subgroup_reduce' op is a reduction without a lowering; kernels have 'maxui' of an i32 in the whole subgroup}}
    %sum = gpu.subgroup_reduce add %word : (i32) -> i32
    gpu.return %sum : i32
  }
}

// -----

gpu.module @kernels {
  gpu.func @partner(%word: i32) -> i32 {
    // expected-error@+1 {{'fp8moe_kernel.exchange' op has the mask 32; subgroups of NVIDIA's GPUs have 32 lanes, so it is less}}
    %one, %other = fp8moe_kernel.exchange %word, 32
    gpu.return %other : i32
  }
}

// -----

gpu.module @kernels {
  gpu.func @flavour(%word: i32) -> f32 {
    // expected-error@+1 {{'fp8moe_kernel.unpack_fp8' op has numbers of 'f8E4M3FNUZ', but the target's instructions are for 'f8E4M3FN'; use that type}}
    %values:4 = fp8moe_kernel.unpack_fp8 %word : f8E4M3FNUZ
    gpu.return %values#0 : f32
  }
}
