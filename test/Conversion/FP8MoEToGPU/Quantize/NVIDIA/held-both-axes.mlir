// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// Both forms of the weights of experts that shared memory holds: every element is read once, and columns are made of the
// rows in FP8 that the block has kept.

#across = #fp8moe.strided<[0, 2, 1]>
#gaps = #fp8moe.strided<[0, 1, 2], strides = [?, 2048, 1]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @weights(%w: tensor<64x1408x2048xbf16>)
      -> (tensor<64x1408x2048xf8E4M3FN, #across>, tensor<64x1408x2048xf8E4M3FN>, tensor<64x2048xf32>, tensor<64x1408xf32>) {
    %q:2, %s:2 = fp8moe.dynamic_quantize %w along [1, 2] rounding pow2
        : tensor<64x1408x2048xbf16>
        -> tensor<64x1408x2048xf8E4M3FN, #across>, tensor<64x1408x2048xf8E4M3FN>, tensor<64x2048xf32>, tensor<64x1408xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<64x1408x2048xf8E4M3FN, #across>, tensor<64x1408x2048xf8E4M3FN>, tensor<64x2048xf32>, tensor<64x1408xf32>
  }

  func.func @gaps(%w: tensor<64x1408x2048xbf16, #gaps>)
      -> (tensor<64x1408x2048xf8E4M3FN, #across>, tensor<64x1408x2048xf8E4M3FN>, tensor<64x2048xf32>, tensor<64x1408xf32>) {
    %q:2, %s:2 = fp8moe.dynamic_quantize %w along [1, 2] rounding pow2
        : tensor<64x1408x2048xbf16, #gaps>
        -> tensor<64x1408x2048xf8E4M3FN, #across>, tensor<64x1408x2048xf8E4M3FN>, tensor<64x2048xf32>, tensor<64x1408xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<64x1408x2048xf8E4M3FN, #across>, tensor<64x1408x2048xf8E4M3FN>, tensor<64x2048xf32>, tensor<64x1408xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_held_both_axes_1
// Two teams of four warps quantize lines, which come from a ring.
// CHECK:         nvvm.setmaxregister  decrease 56
// CHECK:         nvvm.mbarrier.try_wait
// CHECK:         nvvm.barrier id = %{{.*}} number_of_threads = %{{.*}}
// A line goes to memory, and to the tile that the block holds.
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// Magnitudes of columns meet in shared memory, then in that of the device. The tile counts once they are there.
// CHECK:         llvm.atomicrmw umax %{{.*}} syncscope("block") monotonic
// CHECK:         nvvm.setmaxregister  decrease 72
// CHECK:         llvm.atomicrmw umax %{{.*}} syncscope("device") monotonic
// CHECK:         llvm.fence syncscope("device") acq_rel
// CHECK:         llvm.atomicrmw add %{{.*}} syncscope("device") monotonic
// Once all tiles of the expert do, there are scales.
// CHECK:         llvm.load %{{.*}} atomic syncscope("device") acquire
// CHECK:         nvvm.mbarrier.arrive
// Columns: a word of sixteen lines each, of which some may have to be quantized from the input.
// CHECK:         nvvm.setmaxregister  increase 104
// CHECK-COUNT-16: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// CHECK:         llvm.intr.cttz
// CHECK:         nvvm.setmaxregister  decrease 40
// CHECK:         nvvm.cp.async.bulk.shared.cluster.global

// The kernel asks for aligned addresses, and that there are as many blocks as an expert has tiles; what takes everything
// stands behind it. All blocks are there at once.
// CHECK-LABEL: fp8moe_plan.program @weights
// CHECK:         fp8moe_plan.aligned %{{.*}}, 16
// CHECK:         %[[WORDS:.*]] = fp8moe_plan.workspace align 256 : memref<131136xi32>
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@clear_words_0
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_held_both_axes_1
// CHECK-SAME:      block(768, 1, 1)
// CHECK-SAME:      cooperative
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_single_pass_outer_

// Experts that lie apart must do so by whole chunks, and columns of the result do.
// CHECK-LABEL: fp8moe_plan.program @gaps
// CHECK:         %[[STRIDE:.*]] = fp8moe_plan.stride %{{.*}}, 0
// CHECK:         %[[REST:.*]] = arith.remsi %[[STRIDE]], %c8 : index
// CHECK:         %[[ARE_WHOLE:.*]] = arith.cmpi eq, %[[REST]], %c0 : index
// CHECK:         arith.andi %{{.*}}, %[[ARE_WHOLE]] : i1
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_held_both_axes_
