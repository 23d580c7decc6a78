// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// Strips held in registers: the input is read once, and blocks that share a strip tell each other magnitudes.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @jagged(%x: tensor<?x2048xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x2048xf8E4M3FNUZ, #col>, tensor<8x2048xf32>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
        tiles [#fp8moe.resident_strips<columns = 64, tiles = 4, blocks = 3>, #fp8moe.two_pass<columns = 64, threads = 256>]
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FNUZ, #col>, tensor<8x2048xf32>
    return %q, %s : tensor<?x2048xf8E4M3FNUZ, #col>, tensor<8x2048xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_resident_strips_0
// CHECK-SAME:    known_block_size = array<i32: 256, 1, 1>
// CHECK-SAME:    rocdl.waves_per_eu = 3 : i32
// Four tiles of four chunks, and nothing more of the input.
// CHECK-COUNT-16: llvm.load %{{.*}} invariant {alignment = 2 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT:      vector<4xi32>{{.*}}invariant
// The sign says that a word was posted; nothing else orders what blocks tell each other.
// CHECK:         %[[WORD:.*]] = arith.ori %{{.*}}, %{{.*}} : i32
// CHECK:         llvm.store %[[WORD]], %{{.*}} atomic syncscope("agent") monotonic {alignment = 4 : i64} : i32, !llvm.ptr<1>
// CHECK:         scf.while
// CHECK-COUNT-4: llvm.load %{{.*}} atomic syncscope("agent") monotonic
// CHECK:         llvm.intr.trap
// CHECK:         rocdl.s.sleep
// CHECK-NOT:     llvm.fence syncscope("agent")
// CHECK-COUNT-4: llvm.store %{{.*}} {alignment = 1 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-LABEL: gpu.func @clear_words_1

// CHECK-LABEL: fp8moe_plan.program @jagged
// CHECK-DAG:     %[[HELD:.*]] = arith.constant 512 : index
// CHECK-DAG:     %[[BLOCKS:.*]] = arith.constant 3 : index
// CHECK-DAG:     %[[ROWS:.*]] = fp8moe_plan.dim
// All blocks are resident, and the pieces of a strip are as many at most.
// CHECK:         %[[MULTIPROCESSORS:.*]] = fp8moe_plan.device_attr multiprocessors
// CHECK:         %[[RESIDENT:.*]] = arith.muli %[[MULTIPROCESSORS]], %[[BLOCKS]]
// CHECK:         %[[FITS:.*]] = arith.cmpi sle, %{{.*}}, %[[RESIDENT]]
// CHECK:         %[[APPLIES:.*]] = arith.andi %{{.*}}, %[[FITS]]
// CHECK:         %[[DIVIDED:.*]] = arith.cmpi sgt, %[[ROWS]], %[[HELD]]
// CHECK:         %[[CLEARS:.*]] = arith.andi %[[APPLIES]], %[[DIVIDED]]
// CHECK:         %[[SLOTS:.*]] = fp8moe_plan.workspace
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@clear_words_1
// CHECK-SAME:      when(%[[CLEARS]]) args(%[[SLOTS]]
// CHECK:         %[[GRID:.*]] = arith.minsi %{{.*}}, %[[RESIDENT]]
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_resident_strips_0 grid(%[[GRID]]
// CHECK-SAME:      cooperative
// CHECK-SAME:      when(%[[APPLIES]])
// CHECK:         %[[LEFT:.*]] = arith.xori %[[APPLIES]]
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_two_pass_outer_transposing_2
// CHECK-SAME:      when(%[[LEFT]])

// -----

// A block holds every strip: nobody waits, nothing is cleared, and nothing stands behind it.

#across = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  func.func @weights(%x: tensor<4x512x2048xf32>) -> (tensor<4x512x2048xf8E5M2, #across>, tensor<4x2048xf32>) {
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
        tiles [#fp8moe.resident_strips<columns = 64, tiles = 4, blocks = 2>, #fp8moe.two_pass<columns = 64, threads = 256>]
        : tensor<4x512x2048xf32> -> tensor<4x512x2048xf8E5M2, #across>, tensor<4x2048xf32>
    return %q, %s : tensor<4x512x2048xf8E5M2, #across>, tensor<4x2048xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_resident_strips_0
// CHECK-NOT:     atomic
// CHECK-LABEL: fp8moe_plan.program @weights
// CHECK-NOT:     workspace
// CHECK-NOT:     cooperative
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_resident_strips_0
// CHECK-NOT:     fp8moe_plan.launch
