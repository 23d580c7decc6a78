// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// Strips held in registers, and rows besides: one launch for both axes, and no wait for rows.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @both(%x: tensor<?x7168xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x7168xf8E4M3FNUZ, #col>, tensor<?x7168xf8E4M3FNUZ>, tensor<8x7168xf32>, tensor<?xf32>) {
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0, 1] rounding pow2
        : tensor<?x7168xbf16> -> tensor<?x7168xf8E4M3FNUZ, #col>, tensor<?x7168xf8E4M3FNUZ>, tensor<8x7168xf32>, tensor<?xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<?x7168xf8E4M3FNUZ, #col>, tensor<?x7168xf8E4M3FNUZ>, tensor<8x7168xf32>, tensor<?xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_resident_both_axes_0
// CHECK-SAME:    known_block_size = array<i32: 256, 1, 1>
// CHECK-SAME:    rocdl.waves_per_eu = 2 : i32
// Rows behind the last group are pieces, too.
// CHECK:         %[[IS_REMAINDER:.*]] = arith.cmpi eq, %{{.*}}, %c8_i64
// CHECK:         arith.select %[[IS_REMAINDER]]
// Eight tiles of four chunks.
// CHECK-COUNT-32: llvm.load %{{.*}} invariant {alignment = 2 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:         llvm.store %{{.*}} atomic syncscope("agent") monotonic
// CHECK-COUNT-8: llvm.store %{{.*}} {alignment = 1 : i64} : vector<4xi32>, !llvm.ptr<1>
// A share is rows over strips, a multiple of the four that the block's teams take at once.
// CHECK:         arith.{{.*}}div{{.*}} %c112_i32
// A row: seven chunks of 16 elements of a thread, all on their way before the first is used.
// CHECK:         scf.for
// CHECK-COUNT-14: llvm.load %{{.*}} invariant {alignment = 2 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT:     atomic
// CHECK-COUNT-7: llvm.store %{{.*}} {alignment = 1 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT:     vector<4xi32>{{.*}}invariant
// CHECK:         gpu.return

// CHECK-LABEL: fp8moe_plan.program @both
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@clear_words_1
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_resident_both_axes_0
// CHECK-SAME:      cooperative
// CHECK-SAME:      when(%[[APPLIES:[^)]*]])
// CHECK:         %[[LEFT:.*]] = arith.xori %[[APPLIES]]
// Groups that are too large for it are rescaled, if they can be counted; nothing else stands behind that.
// CHECK:         arith.andi %{{.*}}, %[[LEFT]]
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_rescaled_lines_
// CHECK-SAME:      when(%[[RESCALES:[^)]*]])
// CHECK:         %[[RESCALED:.*]] = arith.xori %[[RESCALES]]
// CHECK:         %[[REST:.*]] = arith.andi %[[LEFT]], %[[RESCALED]]
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_two_pass_outer_transposing_
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_register_resident_
// CHECK-SAME:      when(%[[REST]])

// -----

// Of groups that are one piece nobody waits, and everything is known: one launch and nothing behind it.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  func.func @short(%x: tensor<1000x2048xbf16>, %ends: tensor<1xi32>)
      -> (tensor<1000x2048xf8E4M3FN, #col>, tensor<1000x2048xf8E4M3FN>, tensor<1x2048xf32>, tensor<1000xf32>) {
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<1xi32>) along [0, 1] rounding pow2
        tiles [#fp8moe.resident_both_axes<columns = 64, tiles = 8, blocks = 2, row_threads = 16, row_chunks = 8>,
               #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                                 #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 256>]>]>]
        : tensor<1000x2048xbf16> -> tensor<1000x2048xf8E4M3FN, #col>, tensor<1000x2048xf8E4M3FN>, tensor<1x2048xf32>, tensor<1000xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<1000x2048xf8E4M3FN, #col>, tensor<1000x2048xf8E4M3FN>, tensor<1x2048xf32>, tensor<1000xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_resident_both_axes_0
// CHECK-NOT:     atomic
// CHECK-LABEL: fp8moe_plan.program @short
// CHECK-NOT:     cooperative
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_resident_both_axes_0
// CHECK-NOT:     fp8moe_plan.launch
