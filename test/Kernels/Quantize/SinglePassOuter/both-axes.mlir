// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// Columns of jagged groups and rows are quantized in one launch: the single-pass kernel with
// additional warps for rows. If its conditions do not hold, each axis has a launch.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @both(%x: tensor<?x1024xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x1024xf8E4M3FN, #col>, tensor<?x1024xf8E4M3FN>, tensor<8x1024xf32>,
          tensor<?xf32>) {
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0, 1]
        rounding pow2
        tiles [#fp8moe.single_pass_both_axes<columns = 64, stages = 9, row_bytes = 2048, row_stages = 16>]
        : tensor<?x1024xbf16>
        -> tensor<?x1024xf8E4M3FN, #col>, tensor<?x1024xf8E4M3FN>, tensor<8x1024xf32>,
           tensor<?xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<?x1024xf8E4M3FN, #col>, tensor<?x1024xf8E4M3FN>, tensor<8x1024xf32>,
          tensor<?xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_single_pass_both_axes_0
// CHECK-SAME:    known_block_size = array<i32: 640, 1, 1>
// CHECK-NOT:     volatile

// The measure and convert roles set their register counts.
// CHECK:         fp8moe_kernel.set_registers decrease 72
// CHECK:         fp8moe_kernel.set_registers increase 112

// Role "rows": one thread publishes how far rows are, waits while they are ahead of the tiles and
// loads whole rows. Words that signal within the block are atomic.
// CHECK:         fp8moe_kernel.set_registers decrease 72
// CHECK:         llvm.atomicrmw max %{{.*}} syncscope("block") monotonic
// CHECK:         scf.while
// CHECK:         llvm.load %{{.*}} atomic syncscope("device") monotonic
// CHECK:         fp8moe_kernel.bound_wait cycles
// CHECK:         fp8moe_kernel.arrive_expect_tx %{{.*}}, %c2048_i32
// CHECK:         llvm.atomicrmw max %{{.*}} syncscope("block") monotonic
// CHECK:         fp8moe_kernel.bulk_load
// A warp waits until the stage is assigned to its row, then until the row has arrived.
// CHECK:         llvm.load %{{.*}} atomic syncscope("device") monotonic {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// CHECK:         fp8moe_kernel.wait_parity
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         gpu.subgroup_reduce maxui
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         arith.mulf %{{.*}} : vector<8xbf16>
// CHECK:         fp8moe_kernel.pack_fp8
// CHECK:         llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
// The stage is loaded again only after all lanes have read it.
// CHECK:         fp8moe_kernel.async_proxy_fence
// CHECK-NEXT:    fp8moe_kernel.subgroup_barrier
// CHECK:         fp8moe_kernel.bulk_load

// Roles "scale" and "produce": tiles wait for rows, too.
// CHECK:         fp8moe_kernel.set_registers increase 112
// CHECK:         fp8moe_kernel.tensor_load

// CHECK-LABEL: gpu.func @quantize_single_pass_outer_
// CHECK-NOT:     fp8moe_kernel.bulk_load
// CHECK-LABEL: gpu.func @quantize_two_pass_outer_transposing_
// CHECK-LABEL: gpu.func @quantize_register_resident_

// CHECK-LABEL: fp8moe_plan.program @both
// CHECK-DAG:     fp8moe_plan.aligned %{{.*}}, 16
// Rows of the output are stored 8 bytes at a time. The mean group may have half of the L2 cache's
// bytes, 15360 rows on an H200.
// CHECK-DAG:     fp8moe_plan.aligned %{{.*}}, 8
// CHECK-DAG:     %[[L2:.*]] = fp8moe_plan.device_attr l2_bytes : index
// CHECK-DAG:     %[[TIMES:.*]] = arith.muli %[[L2]], %c50
// CHECK-DAG:     %[[HALF:.*]] = arith.divsi %[[TIMES]], %c100
// CHECK-DAG:     %[[MOST:.*]] = arith.divsi %[[HALF]], %c2048
// CHECK-DAG:     arith.cmpi sle, %{{.*}}, %[[MOST]]
// CHECK:         fp8moe_plan.launch @{{.*}}::@quantize_single_pass_both_axes_0 {{.*}} block(640, 1, 1) {{.*}} cooperative programmatic when(%[[APPLIES:.*]]) args
// CHECK:         fp8moe_plan.launch @{{.*}}::@quantize_single_pass_outer_{{.*}} cooperative programmatic when
// CHECK:         fp8moe_plan.launch @{{.*}}::@quantize_two_pass_outer_transposing_{{.*}} when
// CHECK:         fp8moe_plan.launch @{{.*}}::@quantize_register_resident_{{.*}} when

// -----

// Rows of 24 KiB leave seven stages for tiles, or five if columns begin at any address. Two
// segments may share a 32-byte sector. The second segment writes it if its panels have fewer than
// (stages - 1) * 128 rows per block.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @long_rows(%x: tensor<?x12288xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x12288xf8E4M3FN, #col>, tensor<?x12288xf8E4M3FN>, tensor<8x12288xf32>,
          tensor<?xf32>) {
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0, 1]
        rounding pow2
        tiles [#fp8moe.single_pass_both_axes<columns = 64, stages = 7, row_bytes = 24576, row_stages = 4>]
        : tensor<?x12288xbf16>
        -> tensor<?x12288xf8E4M3FN, #col>, tensor<?x12288xf8E4M3FN>, tensor<8x12288xf32>,
           tensor<?xf32>
    return %q#0, %q#1, %s#0, %s#1
        : tensor<?x12288xf8E4M3FN, #col>, tensor<?x12288xf8E4M3FN>, tensor<8x12288xf32>,
          tensor<?xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_single_pass_both_axes_0
// CHECK:         %[[STAGES:.*]] = arith.select %{{.*}}, %c7_i32, %c5_i32
// CHECK:         %[[GRID:.*]] = gpu.grid_dim x
// CHECK:         %[[BLOCKS:.*]] = arith.index_cast %[[GRID]] : index to i32
// CHECK:         %[[LESS:.*]] = arith.subi %[[STAGES]], %c1_i32
// CHECK:         %[[ROWS:.*]] = arith.muli %[[LESS]], %c128_i32
// CHECK:         %[[MOST:.*]] = arith.muli %[[BLOCKS]], %[[ROWS]]
// CHECK-NEXT:    arith.cmpi slt, %{{.*}}, %[[MOST]]
