// The grid is the upper bound of row tiles, rounded up to a multiple of the eight XCDs, times the
// column tiles.

// RUN: fp8moe-opt %s --split-input-file --convert-fp8moe-to-gpu --canonicalize | FileCheck %s

#expert_columns = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  // Each group, and the remainder rows, may add a partial tile. 1000 rows in 4 groups are at most 4
  // + 5 tiles of 256 rows, rounded up to 16.
  // CHECK-LABEL: fp8moe_plan.program @forward
  // CHECK: fp8moe_plan.launch @{{.*}}::@grouped_matmul_0 grid(%c4096, %c1, %c1) block(512, 1, 1) shared 0
  // CHECK-SAME: %c4096) :
  func.func @forward(%a: tensor<1000x4096xf8E4M3FNUZ>, %sa: tensor<1000xf32>, %b: tensor<4x4096x65536xf8E4M3FNUZ, #expert_columns>,
      %sb: tensor<4x65536xf32>, %ends: tensor<4xi32>) -> tensor<1000x65536xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
        scales(%sa, %sb : tensor<1000xf32>, tensor<4x65536xf32>) direction quantize
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<1000x4096xf8E4M3FNUZ>, tensor<4x4096x65536xf8E4M3FNUZ, #expert_columns> -> tensor<1000x65536xbf16>
    return %o : tensor<1000x65536xbf16>
  }
}

// -----

#rows = #fp8moe.strided<[0, 1], strides = [?, 1]>
#expert_columns = #fp8moe.strided<[0, 2, 1], strides = [?, 1, ?]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  // Sizes beyond the range of a buffer descriptor are refused when the program is called. Without
  // rows nothing is launched.
  // CHECK-LABEL: fp8moe_plan.program @dynamic
  // CHECK-DAG: fp8moe_plan.require %{{.*}}, "the matmul kernel takes a contraction up to 4194176"
  // CHECK-DAG: fp8moe_plan.require %{{.*}}, "the matmul kernel needs strides of the first operand that are multiples of 8 elements"
  // CHECK-DAG: fp8moe_plan.require %{{.*}}, "the matmul kernel takes strides of the second operand up to 4194176"
  // CHECK: fp8moe_plan.launch {{.*}} when(
  func.func @dynamic(%a: tensor<?x?xbf16, #rows>, %b: tensor<?x?x?xbf16, #expert_columns>, %ends: tensor<?xi32>) -> tensor<?x?xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<?xi32>)
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_columns> -> tensor<?x?xbf16>
    return %o : tensor<?x?xbf16>
  }
}

// -----

#columns = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  // A dense matmul has no offsets. 1000 rows are 4 tiles of 256 rows, rounded up to 8.
  // CHECK-LABEL: fp8moe_plan.program @dense
  // CHECK-NOT: i32
  // CHECK: fp8moe_plan.launch @{{.*}}::@matmul_0 grid(%c2048, %c1, %c1) block(512, 1, 1) shared 0
  func.func @dense(%a: tensor<1000x4096xf8E4M3FNUZ>, %sa: tensor<1000xf32>, %b: tensor<4096x65536xf8E4M3FNUZ, #columns>,
      %sb: tensor<65536xf32>) -> tensor<1000x65536xbf16> {
    %o = fp8moe.linear %a, %b scales(%sa, %sb : tensor<1000xf32>, tensor<65536xf32>) direction quantize
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<1000x4096xf8E4M3FNUZ>, tensor<4096x65536xf8E4M3FNUZ, #columns> -> tensor<1000x65536xbf16>
    return %o : tensor<1000x65536xbf16>
  }
}
