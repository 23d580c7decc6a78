// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// Whole columns: pieces come by bulk copies, warps with roles measure, scale and convert them.

#col = #fp8moe.strided<[1, 0], align = 16>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @columns(%x: tensor<?x2048xbf16, #col>, %ends: tensor<8xi32>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<8x2048xf32>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
        rounding pow2 tiles [#fp8moe.single_pass_inner<groups = 8>]
        : tensor<?x2048xbf16, #col> -> tensor<?x2048xf8E4M3FN, #col>, tensor<8x2048xf32>
    return %q, %s : tensor<?x2048xf8E4M3FN, #col>, tensor<8x2048xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_single_pass_inner_0
// CHECK-SAME:    known_block_size = array<i32: 832, 1, 1>
// The first pieces are asked for before offsets are read.
// CHECK:         nvvm.mbarrier.init
// CHECK:         nvvm.fence.mbarrier.init
// CHECK:         nvvm.cp.async.bulk.shared.cluster.global
// CHECK:         llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// The producer.
// CHECK:         nvvm.mbarrier.try_wait
// CHECK:         nvvm.mbarrier.arrive.expect_tx
// CHECK:         nvvm.cp.async.bulk.shared.cluster.global
// Scales.
// CHECK:         llvm.store %{{.*}} : f32, !llvm.ptr<1>
// Magnitudes: the input is only read from shared memory.
// CHECK-NOT:     vector<4xi32>, !llvm.ptr<1>
// CHECK:         nvvm.redux.sync umax
// CHECK:         llvm.atomicrmw umax %{{.*}} syncscope("block") monotonic : !llvm.ptr<3>, i32
// In runs, each lane sends its own.
// CHECK:         scf.while
// CHECK:           scf.for
// CHECK-NOT:     nvvm.redux
// CHECK:         llvm.atomicrmw umax %{{.*}} syncscope("block") monotonic : !llvm.ptr<3>, i32
// CHECK:         nvvm.mbarrier.arrive
// Conversion. The loads of a stage are fenced before it is released.
// CHECK:         llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
// CHECK:         nvvm.fence.proxy
// CHECK-NEXT:    nvvm.bar.warp.sync
// CHECK:         nvvm.mbarrier.arrive
// CHECK-NOT:     nvvm.cluster
// CHECK:         gpu.return

// A column that is too long for one block: magnitudes go to all blocks of the cluster, which
// meet before the first and after the last one.

// CHECK-LABEL: gpu.func @quantize_single_pass_inner_1
// CHECK:         nvvm.cluster.arrive
// CHECK-NEXT:    nvvm.cluster.wait
// CHECK:         nvvm.mbarrier.try_wait {{.*}} {scope = #nvvm.mem_scope<cluster>}
// CHECK:         nvvm.mapa
// CHECK-NEXT:    llvm.atomicrmw umax %{{.*}} syncscope("cluster") monotonic : !llvm.ptr<7>, i32
// CHECK:         nvvm.mbarrier.arrive %{{.*}} {scope = #nvvm.mem_scope<cluster>} : !llvm.ptr<7>
// CHECK:         nvvm.cluster.arrive
// CHECK-NEXT:    nvvm.cluster.wait
// CHECK-NEXT:    gpu.return

// CHECK-LABEL: fp8moe_plan.program @columns
// CHECK:         launch @fp8moe_kernels::@quantize_single_pass_inner_0 {{.*}} block(832, 1, 1) {{.*}} when(
// CHECK:         launch @fp8moe_kernels::@quantize_single_pass_inner_1 {{.*}} cluster(2, 1, 1) when(
// Longer and unaligned columns.
// CHECK:         launch @fp8moe_kernels::@quantize_register_resident_

// -----

// Neither for rows that are known not to be whole chunks nor for padded groups.

#col = #fp8moe.strided<[1, 0]>
#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @held(%x: tensor<5001x2048xbf16, #col>, %y: tensor<?x2048xbf16, #col>, %ends: tensor<8xi32>)
      -> (tensor<5001x2048xf8E4M3FN, #col>, tensor<8x2048xf32>,
          tensor<?x2048xf8E4M3FN, #padded>, tensor<8x2048xf32>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
        rounding pow2 : tensor<5001x2048xbf16, #col> -> tensor<5001x2048xf8E4M3FN, #col>, tensor<8x2048xf32>
    %p, %t = fp8moe.jagged_dynamic_quantize %y groups(%ends : tensor<8xi32>) along [0]
        rounding pow2 : tensor<?x2048xbf16, #col> -> tensor<?x2048xf8E4M3FN, #padded>, tensor<8x2048xf32>
    return %q, %s, %p, %t : tensor<5001x2048xf8E4M3FN, #col>, tensor<8x2048xf32>,
        tensor<?x2048xf8E4M3FN, #padded>, tensor<8x2048xf32>
  }
}

// CHECK-LABEL: fp8moe_plan.program @held
// CHECK-NOT:     columns
