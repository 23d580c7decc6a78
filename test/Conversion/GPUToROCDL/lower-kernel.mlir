// RUN: fp8moe-opt %s \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-rocdl{chip=gfx942})))" \
// RUN:   | FileCheck %s --check-prefixes=CHECK,GFX942
// RUN: sed 's/M3FNUZ/M3FN/; s/M2FNUZ/M2/' %s | fp8moe-opt \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-rocdl{chip=gfx950})))" \
// RUN:   | FileCheck %s --check-prefixes=CHECK,GFX950

gpu.module @kernels {
  // 3 resident blocks of 4 waves on 4 SIMDs are 3 waves per SIMD.
  // CHECK: gpu.func @blocks() kernel attributes {known_block_size = {{.*}}, rocdl.waves_per_eu = 3 : i32}
  gpu.func @blocks() kernel attributes {fp8moe_kernel.resident_blocks = 3 : i32,
      known_block_size = array<i32: 256, 1, 1>} {
    gpu.return
  }
  // waves_per_eu is at least 1 (one wave on four SIMDs) and at most 8, which is all that a SIMD
  // holds.
  // CHECK: gpu.func @few() kernel attributes {known_block_size = {{.*}}, rocdl.waves_per_eu = 1 : i32}
  gpu.func @few() kernel attributes {fp8moe_kernel.resident_blocks = 1 : i32,
      known_block_size = array<i32: 64, 1, 1>} {
    gpu.return
  }
  // CHECK: gpu.func @many() kernel attributes {known_block_size = {{.*}}, rocdl.waves_per_eu = 8 : i32}
  gpu.func @many() kernel attributes {fp8moe_kernel.resident_blocks = 3 : i32,
      known_block_size = array<i32: 256, 4, 1>} {
    gpu.return
  }
  // CHECK: gpu.func @default() kernel {
  gpu.func @default() kernel {
    gpu.return
  }

  // CHECK-LABEL: gpu.func @pack_fp8
  // CHECK-SAME: (%[[A:.*]]: f32, %[[B:.*]]: f32)
  gpu.func @pack_fp8(%a: f32, %b: f32) -> i32 {
    // The conversion instruction does not saturate, so fmed3 clamps. fmed3 loses NaN, so a select
    // restores it.
    // CHECK: rocdl.fmed3 %[[A]]
    // CHECK: arith.cmpf uno, %[[A]], %[[A]]
    // CHECK: %[[CLAMPED:.*]] = arith.select
    // CHECK: %[[POISON:.*]] = llvm.mlir.poison : i32
    // CHECK: %[[LOW:.*]] = rocdl.cvt.pk.fp8.f32 %[[CLAMPED]], %{{.*}} -> %[[POISON]][false] : i32
    // CHECK: rocdl.cvt.pk.fp8.f32 {{.*}} -> %[[LOW]][true] : i32
    %word = fp8moe_kernel.pack_fp8 %a, %b, %b, %b : f8E4M3FNUZ
    gpu.return %word : i32
  }

  // CHECK-LABEL: gpu.func @pack_own_scale
  gpu.func @pack_own_scale(%a: f32, %s: f32) -> i32 {
    // A product of a value and its own scale cannot be NaN unless the scale is. One comparison per
    // scale therefore replaces one per value.
    // CHECK-COUNT-2: arith.mulf {{.*}} : vector<2xf32>
    // CHECK: arith.cmpf one
    // CHECK: arith.select
    // CHECK: rocdl.fmed3
    // CHECK-NOT: arith.cmpf uno
    // CHECK: rocdl.cvt.pk.bf8.f32
    %word = fp8moe_kernel.pack_fp8 %a, %a, %a, %a times %s, %s, %s, %s
        products own_scale : f8E5M2FNUZ
    gpu.return %word : i32
  }

  // CHECK-LABEL: gpu.func @pack_own_power_of_two
  gpu.func @pack_own_power_of_two(%a: f32, %s: f32) -> i32 {
    // CHECK-COUNT-2: arith.mulf {{.*}} : vector<2xf32>
    // CHECK-NOT: rocdl.fmed3
    // CHECK: rocdl.cvt.pk.fp8.f32
    %word = fp8moe_kernel.pack_fp8 %a, %a, %a, %a times %s, %s, %s, %s
        products own_power_of_two : f8E4M3FNUZ
    gpu.return %word : i32
  }

  // CHECK-LABEL: gpu.func @pack_fp8_pair
  // CHECK-SAME: (%[[A:.*]]: f32, %[[B:.*]]: f32)
  gpu.func @pack_fp8_pair(%a: f32, %b: f32) -> i16 {
    // CHECK: rocdl.fmed3 %[[A]]
    // CHECK: rocdl.fmed3 %[[B]]
    // CHECK: %[[WORD:.*]] = rocdl.cvt.pk.fp8.f32
    // CHECK: arith.trunci %[[WORD]] : i32 to i16
    %pair = fp8moe_kernel.pack_fp8_pair %a, %b : f8E4M3FNUZ
    gpu.return %pair : i16
  }

  // CHECK-LABEL: gpu.func @unpack_fp8
  gpu.func @unpack_fp8(%word: i32) -> f32 {
    // CHECK: rocdl.cvt.pk.f32.fp8 %{{.*}}[false]
    // CHECK: rocdl.cvt.pk.f32.fp8 %{{.*}}[true]
    %values:4 = fp8moe_kernel.unpack_fp8 %word : f8E4M3FNUZ
    // CHECK: rocdl.cvt.pk.f32.bf8 %{{.*}}[false]
    // CHECK: rocdl.cvt.pk.f32.bf8 %{{.*}}[true]
    %others:4 = fp8moe_kernel.unpack_fp8 %word : f8E5M2FNUZ
    %sum = arith.addf %values#0, %others#3 : f32
    gpu.return %sum : f32
  }

  // CHECK-LABEL: gpu.func @permute_bytes
  // CHECK-SAME: (%[[LOW:.*]]: i32, %[[HIGH:.*]]: i32, %[[SELECTOR:.*]]: i32)
  gpu.func @permute_bytes(%low: i32, %high: i32, %selector: i32) -> i32 {
    // Each 4-bit selector of permute_bytes becomes a byte of AMD's v_perm selector.
    // CHECK: arith.shli %[[SELECTOR]], %c8
    // CHECK: arith.shli %{{.*}}, %c4
    // CHECK: %[[BYTES:.*]] = arith.andi
    // CHECK: llvm.call_intrinsic "llvm.amdgcn.perm"(%[[HIGH]], %[[LOW]], %[[BYTES]])
    %word = fp8moe_kernel.permute_bytes %low, %high, %selector
    gpu.return %word : i32
  }

  // CHECK-LABEL: gpu.func @packed_max
  gpu.func @packed_max(%lhs: vector<8xi16>, %rhs: vector<8xi16>) -> vector<8xi16> {
    // AMD has packed maxima of two i16, so a vector is split into pairs.
    // CHECK-COUNT-4: arith.maxui {{.*}} : vector<2xi16>
    // CHECK-NOT: arith.maxui {{.*}} : vector<8xi16>
    %larger = arith.maxui %lhs, %rhs : vector<8xi16>
    gpu.return %larger : vector<8xi16>
  }

  // CHECK-LABEL: gpu.func @lanes
  // CHECK-SAME: (%[[WORD:.*]]: i32, %[[CONDITION:.*]]: i1)
  gpu.func @lanes(%word: i32, %condition: i1) -> (i32, i64, i1) {
    // CHECK: rocdl.readfirstlane %[[WORD]]
    %uniform = fp8moe_kernel.uniform %word
    // CHECK: rocdl.ballot %[[CONDITION]] : i64
    %lanes = fp8moe_kernel.ballot %condition : i64
    // CHECK: %[[ANY:.*]] = rocdl.ballot %[[CONDITION]] : i64
    // CHECK: arith.cmpi ne, %[[ANY]], %c0
    %any = fp8moe_kernel.vote_any %condition
    gpu.return %uniform, %lanes, %any : i32, i64, i1
  }

  // CHECK-LABEL: gpu.func @exchange
  gpu.func @exchange(%word: i32) -> (i32, i32) {
    // CHECK: gpu.shuffle xor %{{.*}}, %c8{{.*}}, %c64
    %0, %1 = fp8moe_kernel.exchange %word, 8
    // gfx950 has instructions that swap rows of 16 or 32 lanes; gfx942 shuffles.
    // GFX942: gpu.shuffle xor %{{.*}}, %c16{{.*}}, %c64
    // GFX942: gpu.shuffle xor %{{.*}}, %c32{{.*}}, %c64
    // GFX950: rocdl.permlane16.swap
    // GFX950: rocdl.permlane32.swap
    %2, %3 = fp8moe_kernel.exchange %1, 16
    %4, %5 = fp8moe_kernel.exchange %3, 32
    gpu.return %4, %5 : i32, i32
  }

  // CHECK-LABEL: gpu.func @subgroup_max
  gpu.func @subgroup_max(%word: i32) -> i32 {
    // The maximum of 64 lanes is a tree of six steps.
    // GFX942-COUNT-6: arith.maxui
    // GFX950-COUNT-4: gpu.shuffle
    // GFX950: rocdl.permlane16.swap
    // GFX950: rocdl.permlane32.swap
    %largest = gpu.subgroup_reduce maxui %word uniform : (i32) -> i32
    gpu.return %largest : i32
  }

  // CHECK-LABEL: gpu.func @waits
  gpu.func @waits() {
    // CHECK: llvm.fence syncscope("wavefront") release
    // CHECK: llvm.call_intrinsic "llvm.amdgcn.wave.barrier"
    // CHECK: llvm.fence syncscope("wavefront") acquire
    fp8moe_kernel.subgroup_barrier
    gpu.return
  }

  // CHECK-LABEL: gpu.func @opaque
  // CHECK-SAME: (%[[WORD:.*]]: i32)
  gpu.func @opaque(%word: i32) -> i32 {
    // CHECK: llvm.inline_asm has_side_effects asm_dialect = att "", "=s,0" %[[WORD]]
    %0 = fp8moe_kernel.opaque uniform %word : i32
    // CHECK: llvm.inline_asm has_side_effects asm_dialect = att "", "=v,0"
    %1 = fp8moe_kernel.opaque %0 : i32
    gpu.return %1 : i32
  }

  // CHECK-LABEL: gpu.func @read_lane
  // CHECK-SAME: (%[[WORD:.*]]: i32, %[[LANE:.*]]: i32)
  gpu.func @read_lane(%word: i32, %lane: i32) -> i32 {
    // CHECK: rocdl.readlane %[[WORD]], %[[LANE]]
    %0 = fp8moe_kernel.read_lane %word, %lane
    gpu.return %0 : i32
  }

  // An s_waitcnt immediate has counters for loads (bits 3:0 and 15:14), shared memory (11:8) and
  // exports (6:4). Exports are never waited for.
  // CHECK-LABEL: gpu.func @wait_accesses
  gpu.func @wait_accesses() {
    // CHECK: rocdl.s.waitcnt 112
    fp8moe_kernel.wait_accesses loads 0 shared 0
    // CHECK: rocdl.s.waitcnt 17265
    fp8moe_kernel.wait_accesses loads 17 shared 3
    // CHECK: rocdl.s.waitcnt 49279
    fp8moe_kernel.wait_accesses shared 0
    gpu.return
  }

  // CHECK-LABEL: gpu.func @barriers
  gpu.func @barriers() {
    // CHECK: rocdl.sched.barrier 0
    // CHECK: llvm.fence syncscope("singlethread") acq_rel
    fp8moe_kernel.scheduling_fence
    // CHECK: rocdl.sched.barrier 0
    // CHECK: llvm.fence syncscope("singlethread") acq_rel
    // CHECK: rocdl.s.barrier
    // CHECK: rocdl.sched.barrier 0
    // CHECK: llvm.fence syncscope("singlethread") acq_rel
    fp8moe_kernel.execution_barrier
    // CHECK: rocdl.s.setprio 1
    fp8moe_kernel.set_priority 1
    gpu.return
  }
}
