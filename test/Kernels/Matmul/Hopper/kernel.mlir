// The kernel of a grouped matmul and its launch. Each warp role is recognized by operations that
// only this role has.

// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize)" -o %t
// RUN: FileCheck %s --input-file=%t "--implicit-check-not=nvvm."
// RUN: FileCheck %s --input-file=%t --check-prefix=PLAN

#expert_columns = #fp8moe.strided<[0, 2, 1]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @forward(%a: tensor<?x2048xf8E4M3FN>, %sa: tensor<?xf32>,
      %b: tensor<8x2048x1408xf8E4M3FN, #expert_columns>, %sb: tensor<8x1408xf32>,
      %ends: tensor<8xi32>) -> tensor<?x1408xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<?xf32>, tensor<8x1408xf32>)
        direction dequantize accumulation fast
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<?x2048xf8E4M3FN>, tensor<8x2048x1408xf8E4M3FN, #expert_columns>
        -> tensor<?x1408xbf16>
    return %o : tensor<?x1408xbf16>
  }
}

// CHECK-LABEL: gpu.func @grouped_matmul_0
// CHECK-SAME: %[[A:.*]]: !llvm.ptr {fp8moe_plan.tensor_map}, %[[B:.*]]: !llvm.ptr {fp8moe_plan.tensor_map}, %[[C:.*]]: !llvm.ptr {fp8moe_plan.tensor_map}

// Each of six stages has an mbarrier 'full' and an mbarrier 'empty'. 'full' expects the producer's
// arrival, 'empty' those of four warps.
// CHECK-DAG: %[[ONE:c1_i32.*]] = arith.constant 1 : i32
// CHECK-DAG: %[[WARPS:c4_i32.*]] = arith.constant 4 : i32
// CHECK-COUNT-12: fp8moe_kernel.mbarrier_init %
// CHECK-NOT: fp8moe_kernel.mbarrier_init %
// CHECK: fp8moe_kernel.mbarrier_init_fence
// CHECK: gpu.barrier

// The producer is one elected thread of one warp.
// CHECK: fp8moe_kernel.set_registers decrease 24
// CHECK: fp8moe_kernel.elect
// The end of a group is clamped to the end of the group before and to the number of rows.
// CHECK: scf.while
// CHECK: llvm.load {{.*}} invariant
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: scf.for
// CHECK: fp8moe_kernel.wait_parity
// The copies of both operands signal the same mbarrier.
// CHECK: fp8moe_kernel.arrive_expect_tx %[[FULL:.*]], %c32768_i32
// CHECK: fp8moe_kernel.tensor_load {{.*}} from %[[A]][{{.*}}] signals %[[FULL]]
// CHECK: fp8moe_kernel.tensor_load {{.*}} from %[[B]][{{.*}}] signals %[[FULL]]

// A consumer loads scales, waits for its turn, multiplies the stages, passes the turn on and writes
// the result.
// CHECK: fp8moe_kernel.set_registers increase 240
// CHECK: fp8moe_kernel.named_barrier_arrive {{.*}}, 256
// CHECK: fp8moe_kernel.named_barrier {{.*}}, 256
// CHECK: scf.for
// CHECK: fp8moe_kernel.wait_parity
// CHECK: fp8moe_kernel.wgmma_fence
// CHECK-COUNT-8: fp8moe_kernel.wgmma {{.*}} : f8E4M3FN, f8E4M3FN
// CHECK-NOT: fp8moe_kernel.wgmma %
// CHECK: fp8moe_kernel.wgmma_commit
// The previous stage is released while this one is multiplied.
// CHECK: fp8moe_kernel.wgmma_wait 1
// CHECK: fp8moe_kernel.arrive %
// CHECK: fp8moe_kernel.named_barrier_arrive {{.*}}, 256
// CHECK: fp8moe_kernel.wgmma_wait 0
// The accumulators pass through empty inline assembly, so that LLVM moves no use before the wait.
// CHECK: fp8moe_kernel.wgmma_results

// Each warp stores four boxes of 16 rows and 64 columns without waiting for other warps. Two
// buffers alternate: one is free when at most one store is still reading.
// CHECK: fp8moe_kernel.named_barrier {{.*}}, 128
// CHECK: fp8moe_kernel.wait_stores_read 1
// CHECK-NOT: fp8moe_kernel.named_barrier
// CHECK: fp8moe_kernel.subgroup_barrier
// CHECK: fp8moe_kernel.store_matrices
// CHECK: fp8moe_kernel.async_proxy_fence
// CHECK-NOT: fp8moe_kernel.named_barrier
// CHECK: fp8moe_kernel.subgroup_barrier
// CHECK-COUNT-4: fp8moe_kernel.tensor_store {{.*}} to %[[C]]
// CHECK-NOT: fp8moe_kernel.tensor_store
// CHECK: fp8moe_kernel.wait_stores_read 0

// PLAN-LABEL: fp8moe_plan.program @forward
// PLAN: %[[M:.*]] = fp8moe_plan.dim
// PLAN: %[[SMS:.*]] = fp8moe_plan.device_attr multiprocessors
// PLAN: %[[ANY:.*]] = arith.cmpi sge, %[[M]], %c1
// PLAN: %[[MA:.*]] = fp8moe_plan.tensor_map %{{.*}} sizes(%c2048, %[[M]]) strides(%c2048) box(128, 128) swizzle 128 promotion 256
// PLAN: %[[MB:.*]] = fp8moe_plan.tensor_map %{{.*}} sizes(%c2048, %c1408, %c8) strides(%c2048, %c2883584) box(128, 128, 1) swizzle 128 promotion 256
// PLAN: %[[MC:.*]] = fp8moe_plan.tensor_map %{{.*}} sizes(%c1408, %[[M]]) strides(%c1408) box(64, 16) swizzle 128 :
// PLAN: fp8moe_plan.launch @fp8moe_kernels::@grouped_matmul_0 grid(%[[SMS]], %c1, %c1) block(384, 1, 1) shared 231520 when(%[[ANY]]) args(%[[MA]], %[[MB]], %[[MC]],

// -----

// A K-grouped matmul: no tile has rows of two groups, and padded groups need no masks. The program
// requires alignments that the types leave open.

#padded_rows = #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>
#padded_columns = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @gradient(%a: tensor<1408x?xf8E4M3FN, #padded_rows>, %sa: tensor<8x1408xf32>,
      %b: tensor<?x2048xf8E4M3FN, #padded_columns>, %sb: tensor<8x2048xf32>,
      %ends: tensor<8xi32>) -> tensor<8x1408x2048xf32> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<8x1408xf32>, tensor<8x2048xf32>)
        direction quantize accumulation fast
        tiles [#fp8moe.wgmma<rows = 128, columns = 160, stages = 5, schedule = ping_pong>]
        : tensor<1408x?xf8E4M3FN, #padded_rows>, tensor<?x2048xf8E4M3FN, #padded_columns>
        -> tensor<8x1408x2048xf32>
    return %o : tensor<8x1408x2048xf32>
  }
}

// CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_0
// Groups begin at multiples of 128.
// CHECK: arith.muli {{.*}}, %c128_i32
// Producers synchronize with those of other blocks. They wait two stages after their arrival.
// CHECK: arith.cmpi eq, %{{.*}}, %c2_i32
// Producers may load two tiles ahead. They wait for the release of the stage that is this far
// behind.
// CHECK: %[[TILES:.*]] = arith.muli %{{.*}}, %c2_i32 : i32
// CHECK: %[[AHEAD:.*]] = arith.minsi %[[TILES]], %c5_i32
// CHECK: arith.subi %{{.*}}, %[[AHEAD]]
// CHECK: fp8moe_kernel.wait_parity
// CHECK: fp8moe_kernel.set_registers increase 240
// K is dynamic and may be too long for fast accumulation. Parts of 384 stages are summed in f32:
// the first is stored to a workspace, later ones are added.
// CHECK: arith.divui {{.*}}, %c384_i32
// CHECK: scf.for
// CHECK: scf.for {{.*}} to %c384_i32
// CHECK-COUNT-8: fp8moe_kernel.wgmma %
// CHECK: fp8moe_kernel.wgmma_wait 0
// CHECK: scf.if
// CHECK-COUNT-40: llvm.store {{.*}} : vector<4xi32>, !llvm.ptr<1>
// CHECK: else
// CHECK-COUNT-40: fp8moe_kernel.add_floats
// Whole stages come first. A loop over single instructions follows for the rest of the last stage.
// CHECK-COUNT-8: fp8moe_kernel.wgmma %
// CHECK: fp8moe_kernel.wgmma_wait 1
// CHECK-NOT: fp8moe_kernel.async_proxy_fence
// CHECK: scf.for
// CHECK: fp8moe_kernel.wgmma_fence
// CHECK-COUNT-2: fp8moe_kernel.wgmma %
// CHECK-NOT: fp8moe_kernel.wgmma %
// The turn is passed on before the last instructions end, which may be few.
// CHECK: fp8moe_kernel.wgmma_commit
// CHECK-NEXT: {{.*}} = arith.subi
// CHECK-NEXT: fp8moe_kernel.named_barrier_arrive {{.*}}, 256
// CHECK-NEXT: fp8moe_kernel.wgmma_wait 1
// During these instructions, the consumer finds its next tile and copies scales to shared memory.
// `direction quantize` takes their reciprocals.
// CHECK: scf.while
// CHECK: arith.divf %cst{{.*}}, {{.*}} : f32
// CHECK: fp8moe_kernel.wgmma_wait 0
// CHECK: scf.if
// CHECK-COUNT-40: llvm.load {{.*}} -> vector<4xi32>
// Stores of the result use L2::evict_first, as nothing reads it soon.
// CHECK: fp8moe_kernel.tensor_store {{.*}} evict_first

// PLAN-LABEL: fp8moe_plan.program @gradient
// PLAN: fp8moe_plan.require {{.*}}, "the matmul kernel needs strides of the first operand that are multiples of 16 elements"
// PLAN: %[[SMS:.*]] = fp8moe_plan.device_attr multiprocessors
// PLAN: %[[LONG:.*]] = arith.cmpi sgt, %{{.*}}, %c49152
// PLAN: %[[ALL:.*]] = arith.muli %[[SMS]], %c40960
// PLAN: %[[WORDS:.*]] = arith.select %[[LONG]], %[[ALL]], %c0
// PLAN: fp8moe_plan.workspace sizes(%[[WORDS]]) align 128 : memref<?xf32>
// PLAN: fp8moe_plan.tensor_map {{.*}} box(128, 128) swizzle 128 promotion 256
// PLAN: fp8moe_plan.tensor_map {{.*}} box(128, 160) swizzle 128 promotion 256
// PLAN: fp8moe_plan.tensor_map {{.*}} sizes(%c2048, %c1408, %c8) strides(%c2048, %c2883584) box(32, 16, 1) swizzle 128 :

// -----

// A K of 49152 is the longest that is summed at once.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @short(%a: tensor<?x49152xf8E4M3FN>, %sa: tensor<?xf32>,
      %b: tensor<2x49152x256xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, %sb: tensor<2x256xf32>,
      %ends: tensor<2xi32>) -> tensor<?x256xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        scales(%sa, %sb : tensor<?xf32>, tensor<2x256xf32>)
        direction dequantize accumulation fast
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<?x49152xf8E4M3FN>, tensor<2x49152x256xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>
        -> tensor<?x256xbf16>
    return %o : tensor<?x256xbf16>
  }
}

// CHECK-LABEL: gpu.func @grouped_matmul_0
// CHECK-COUNT-8: fp8moe_kernel.wgmma %
// CHECK-NOT: fp8moe_kernel.wgmma %
// CHECK-NOT: red.relaxed

// PLAN-LABEL: fp8moe_plan.program @short
// PLAN-NOT: fp8moe_plan.workspace

// -----

// Cooperative consumers share B. Each warpgroup masks half of its rows, and both wait until both
// halves are masked.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @cooperative(%a: tensor<256x4096xf8E4M3FN>, %sa: tensor<2x256xf32>,
      %b: tensor<4096x256xf8E4M3FN, #fp8moe.strided<[1, 0]>>, %sb: tensor<2x256xf32>,
      %ends: tensor<2xi32>) -> tensor<2x256x256xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        scales(%sa, %sb : tensor<2x256xf32>, tensor<2x256xf32>)
        direction dequantize accumulation fast
        tiles [#fp8moe.wgmma<rows = 128, columns = 256, stages = 4, schedule = cooperative>]
        : tensor<256x4096xf8E4M3FN>, tensor<4096x256xf8E4M3FN, #fp8moe.strided<[1, 0]>>
        -> tensor<2x256x256xbf16>
    return %o : tensor<2x256x256xbf16>
  }
}

// CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_0
// CHECK: fp8moe_kernel.set_registers increase 240
// CHECK: fp8moe_kernel.wait_parity
// CHECK: scf.for {{.*}} to %c64_i32
// CHECK: %[[END:.*]] = arith.addi %{{.*}}, %c128_i32
// CHECK: scf.for {{.*}} to %[[END]]
// CHECK: fp8moe_kernel.async_proxy_fence
// CHECK: fp8moe_kernel.named_barrier %c3_i32, 256
// CHECK: fp8moe_kernel.wgmma %

// -----

// Unpadded groups: both operands are masked in shared memory, and proxy fences make that visible to
// wgmma. Promoted accumulation adds 128 elements of K at a time in f32. Warpgroups take turns.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @unpadded(%a: tensor<1408x4096xf8E5M2>, %sa: tensor<8x1408xf32>,
      %b: tensor<4096x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>, %sb: tensor<8x2048xf32>,
      %c: tensor<8x1408x2048xbf16>, %ends: tensor<8xi32>) -> tensor<8x1408x2048xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<8x1408xf32>, tensor<8x2048xf32>)
        direction dequantize accumulation promoted accumulate(%c : tensor<8x1408x2048xbf16>)
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 3, schedule = ping_pong>]
        : tensor<1408x4096xf8E5M2>, tensor<4096x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>
        -> tensor<8x1408x2048xbf16>
    return %o : tensor<8x1408x2048xbf16>
  }
}

// CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_0
// CHECK: fp8moe_kernel.set_registers increase 240
// CHECK-NOT: number_of_threads = %c256_i32
// CHECK: fp8moe_kernel.async_proxy_fence
// CHECK: fp8moe_kernel.named_barrier {{.*}}, 128
// CHECK: fp8moe_kernel.async_proxy_fence
// CHECK-COUNT-4: fp8moe_kernel.wgmma {{.*}} : f8E5M2, f8E4M3FN
// CHECK: fp8moe_kernel.wgmma_wait 0
// CHECK-COUNT-64: arith.addf
// CHECK-COUNT-4: fp8moe_kernel.wgmma {{.*}} : f8E5M2, f8E4M3FN
// CHECK: fp8moe_kernel.wgmma_wait 0
// The addend is loaded when the result is written.
// CHECK: arith.mulf
// CHECK: llvm.load %{{[0-9]+}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK: arith.addf
// CHECK: arith.truncf {{.*}} : vector<2xf32> to vector<2xbf16>
// CHECK: fp8moe_kernel.store_matrices

// -----

// bf16 matmuls use the same kernel without scales.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @bf16(%a: tensor<?x2048xbf16>, %b: tensor<8x2048x1408xbf16, #fp8moe.strided<[0, 2, 1]>>,
      %ends: tensor<8xi32>) -> tensor<?x1408xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        : tensor<?x2048xbf16>, tensor<8x2048x1408xbf16, #fp8moe.strided<[0, 2, 1]>>
        -> tensor<?x1408xbf16>
    return %o : tensor<?x1408xbf16>
  }
}

// CHECK-LABEL: gpu.func @grouped_matmul_0
// CHECK: fp8moe_kernel.wgmma {{.*}} : bf16, bf16
// CHECK-NOT: arith.mulf

// PLAN-LABEL: fp8moe_plan.program @bf16
// PLAN: fp8moe_plan.tensor_map {{.*}} box(64, 128) swizzle 128 promotion 256 : memref<?x2048xbf16>
