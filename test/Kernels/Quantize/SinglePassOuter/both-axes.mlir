// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// Columns of jagged groups and rows from one launch: the single-pass outer kernel with warps of rows, and
// the conditions under which a launch for each axis is taken instead.

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

// Warpgroups trade registers: measure, convert.
// CHECK:         fp8moe_kernel.set_registers decrease 72
// CHECK:         fp8moe_kernel.set_registers increase 112

// Rows: one thread says how far rows are, waits while they are ahead of tiles, and loads a whole
// row. Words by which warps of a block signal each other about it are atomic.
// CHECK:         fp8moe_kernel.set_registers decrease 72
// CHECK:         llvm.atomicrmw max %{{.*}} syncscope("block") monotonic
// CHECK:         scf.while
// CHECK:         llvm.load %{{.*}} atomic syncscope("device") monotonic
// CHECK:         fp8moe_kernel.bound_wait cycles
// CHECK:         fp8moe_kernel.arrive_expect_tx %{{.*}}, %c2048_i32
// CHECK:         llvm.atomicrmw max %{{.*}} syncscope("block") monotonic
// CHECK:         fp8moe_kernel.bulk_load
// A row is waited for, first until it is what the stage is loaded with.
// CHECK:         llvm.load %{{.*}} atomic syncscope("device") monotonic {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// CHECK:         fp8moe_kernel.wait_parity
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         gpu.subgroup_reduce maxui
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         arith.mulf %{{.*}} : vector<8xbf16>
// CHECK:         fp8moe_kernel.pack_fp8
// CHECK:         llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
// The stage is loaded again after it was read.
// CHECK:         fp8moe_kernel.async_proxy_fence
// CHECK-NEXT:    fp8moe_kernel.subgroup_barrier
// CHECK:         fp8moe_kernel.bulk_load

// Scale and produce: tiles wait for rows, too.
// CHECK:         fp8moe_kernel.set_registers increase 112
// CHECK:         fp8moe_kernel.tensor_load

// CHECK-LABEL: gpu.func @quantize_single_pass_outer_
// CHECK-NOT:     fp8moe_kernel.bulk_load
// CHECK-LABEL: gpu.func @quantize_two_pass_outer_transposing_
// CHECK-LABEL: gpu.func @quantize_register_resident_

// CHECK-LABEL: fp8moe_plan.program @both
// CHECK-DAG:     fp8moe_plan.aligned %{{.*}}, 16
// Rows of the output are stored 8 bytes at a time; a group has at most half as many bytes as
// the L2 cache of the card on average: 15360 rows on an H200.
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

// Rows of 24 KiB leave seven stages for tiles. Units that would take all of them are folded, and have
// other columns than those of the segment before: so the sector that two segments share goes to
// the second one only where its panels have less than 6 * 128 rows for each block, or 4 * 128 where
// columns begin anywhere: two stages are room for rows above tiles and for shifting columns then.

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
