// With scales of A only, the kernel takes no pointer to scales of B and multiplies each pair of
// sums once.

// RUN: fp8moe-opt %s --convert-fp8moe-to-gpu --canonicalize | FileCheck %s

#expert_columns = #fp8moe.strided<[0, 2, 1]>

module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  // The parameters are the offsets, the scales of A, both operands, the result, and the numbers of
  // rows and blocks.
  // CHECK-LABEL: gpu.func @grouped_matmul_0
  // CHECK-SAME: (%{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: i64, %{{[a-z0-9]+}}: i64)
  // Two scalars are loaded: the end of a group and the scale of a row.
  // CHECK-COUNT-2: rocdl.raw.ptr.buffer.load %{{.*}} : i32
  // CHECK-NOT: rocdl.raw.ptr.buffer.load %{{.*}} : i32
  // CHECK: arith.divf
  // CHECK-COUNT-64: arith.mulf {{.*}} : vector<2xf32>
  // CHECK-NOT: arith.mulf
  // CHECK: gpu.return

  // A matmul with scales of both operands gets a kernel of its own.
  // CHECK-LABEL: gpu.func @grouped_matmul_1
  // CHECK-COUNT-3: rocdl.raw.ptr.buffer.load %{{.*}} : i32
  // CHECK-COUNT-128: arith.mulf {{.*}} : vector<2xf32>
  // CHECK: gpu.return

  // CHECK-LABEL: fp8moe_plan.program @forward
  // CHECK: fp8moe_plan.launch @{{.*}}::@grouped_matmul_0 {{.*}} : memref<4xi32>, memref<?xf32>, memref<?x4096xf8E4M3FN>,
  func.func @forward(%a: tensor<?x4096xf8E4M3FN>, %sa: tensor<?xf32>,
      %b: tensor<4x4096x2048xf8E4M3FN, #expert_columns>, %ends: tensor<4xi32>) -> tensor<?x2048xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
        scales(%sa : tensor<?xf32>) direction quantize
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<?x4096xf8E4M3FN>, tensor<4x4096x2048xf8E4M3FN, #expert_columns> -> tensor<?x2048xbf16>
    return %o : tensor<?x2048xbf16>
  }

  func.func @forward_both(%a: tensor<?x4096xf8E4M3FN>, %sa: tensor<?xf32>, %sb: tensor<4x2048xf32>,
      %b: tensor<4x4096x2048xf8E4M3FN, #expert_columns>, %ends: tensor<4xi32>) -> tensor<?x2048xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
        scales(%sa, %sb : tensor<?xf32>, tensor<4x2048xf32>) direction quantize
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<?x4096xf8E4M3FN>, tensor<4x4096x2048xf8E4M3FN, #expert_columns> -> tensor<?x2048xbf16>
    return %o : tensor<?x2048xbf16>
  }
}
