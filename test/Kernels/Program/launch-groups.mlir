// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu)" | FileCheck %s

// Two operations with one launch group are one kernel. Its first blocks run the first
// operation, the others the second one as if they were the first; both use the same
// shared memory.

// CHECK-COUNT-3: llvm.mlir.global internal
// CHECK-NOT:     llvm.mlir.global
// CHECK:         gpu.func @[[MERGED:launch_group_[0-9]+]](
// CHECK-SAME:      %[[BLOCKS:[^ ]*]]: i64, %{{[^ ]*}}: !llvm.ptr, %{{[^ ]*}}: !llvm.ptr, %{{[^ ]*}}: !llvm.ptr, %{{[^ ]*}}: !llvm.ptr, %{{[^ ]*}}: i64, %{{[^ ]*}}: i64, %{{[^ ]*}}: i64) kernel attributes {known_block_size = array<i32: 256, 1, 1>
// CHECK:           %[[BLOCK:.*]] = gpu.block_id x
// CHECK:           %[[NUM:.*]] = arith.index_cast %[[BLOCKS]] : i64 to index
// CHECK:           %[[FIRST:.*]] = arith.cmpi ult, %[[BLOCK]], %[[NUM]]
// CHECK:           %[[REST:.*]] = arith.subi %[[BLOCK]], %[[NUM]]
// CHECK:           scf.if %[[FIRST]] {
// CHECK:             arith.index_cast %[[BLOCK]] : index to i64
// CHECK:           } else {
// CHECK:             arith.index_cast %[[REST]] : index to i64
// CHECK-NOT:     gpu.func

// CHECK-LABEL: fp8moe_plan.program @together
// CHECK:         %[[A:.*]] = arith.constant 288 : index
// CHECK:         %[[B:.*]] = arith.constant 198 : index
// CHECK:         %[[GRID:.*]] = arith.addi %[[A]], %[[B]] : index
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@[[MERGED]] grid(%[[GRID]],
// CHECK-SAME:      %[[A]], {{.*}}%[[B]])
// CHECK-NOT:     fp8moe_plan.launch
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @together(%x: tensor<?x2048xbf16>, %g: tensor<?x1408xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<8x2048xf32>,
          tensor<?x1408xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<8x1408xf32>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
        tiles [#fp8moe.two_pass<columns = 64, threads = 256>] {fp8moe.launch_group = 0 : i64}
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<8x2048xf32>
    %p, %t = fp8moe.jagged_dynamic_quantize %g groups(%ends : tensor<8xi32>) along [0] rounding pow2
        tiles [#fp8moe.two_pass<columns = 64, threads = 256>] {fp8moe.launch_group = 0 : i64}
        : tensor<?x1408xbf16> -> tensor<?x1408xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<8x1408xf32>
    return %q, %s, %p, %t
        : tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<8x2048xf32>,
          tensor<?x1408xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<8x1408xf32>
  }
}
