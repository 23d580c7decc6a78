// With scales of A only, the kernel takes no pointer to scales of B and multiplies each sum once.

// RUN: fp8moe-opt %s --convert-fp8moe-to-gpu --canonicalize | FileCheck %s

#columns = #fp8moe.strided<[1, 0]>
#padded_rows = #fp8moe.strided<[0, 1], groups<dim = 1, pad = 128>>
#padded_columns = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // The parameters are three tensor maps, the scales of A, the result and the number of rows.
  // CHECK-LABEL: gpu.func @matmul_0
  // CHECK-SAME: (%{{.*}}: !llvm.ptr {fp8moe_plan.tensor_map}, %{{.*}}: !llvm.ptr {fp8moe_plan.tensor_map}, %{{.*}}: !llvm.ptr {fp8moe_plan.tensor_map}, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: i64)
  // A thread has 64 sums of one row in each of two 64-row blocks.
  // CHECK: fp8moe_kernel.wgmma %
  // CHECK: arith.divf
  // CHECK-COUNT-128: arith.mulf
  // CHECK-NOT: arith.{{divf|mulf}}
  // CHECK: gpu.return

  // A matmul with scales of both operands gets a kernel of its own.
  // CHECK-LABEL: gpu.func @matmul_1
  // CHECK-COUNT-2: arith.divf
  // CHECK-COUNT-256: arith.mulf
  // CHECK: gpu.return

  // wgrad with padded groups: the pointers are offsets, scales and partial sums.
  // CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_2
  // CHECK-SAME: fp8moe_plan.tensor_map}, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: i64)

  // CHECK-LABEL: fp8moe_plan.program @dense
  // CHECK: fp8moe_plan.launch @{{.*}}::@matmul_0 {{.*}} : !fp8moe_plan.tensor_map, !fp8moe_plan.tensor_map, !fp8moe_plan.tensor_map, memref<?xf32>, memref<?x1408xbf16>, index
  func.func @dense(%a: tensor<?x2048xf8E4M3FN>, %sa: tensor<?xf32>,
      %b: tensor<2048x1408xf8E4M3FN, #columns>) -> tensor<?x1408xbf16> {
    %o = fp8moe.linear %a, %b scales(%sa : tensor<?xf32>) direction quantize
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<?x2048xf8E4M3FN>, tensor<2048x1408xf8E4M3FN, #columns> -> tensor<?x1408xbf16>
    return %o : tensor<?x1408xbf16>
  }

  func.func @dense_both(%a: tensor<?x2048xf8E4M3FN>, %sa: tensor<?xf32>,
      %b: tensor<2048x1408xf8E4M3FN, #columns>, %sb: tensor<1408xf32>) -> tensor<?x1408xbf16> {
    %o = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<1408xf32>) direction quantize
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<?x2048xf8E4M3FN>, tensor<2048x1408xf8E4M3FN, #columns> -> tensor<?x1408xbf16>
    return %o : tensor<?x1408xbf16>
  }

  // CHECK-LABEL: fp8moe_plan.program @gradient
  // CHECK: fp8moe_plan.launch @{{.*}}::@grouped_matmul_k_grouped_2 {{.*}} !fp8moe_plan.tensor_map, memref<8xi32>, memref<8x512xf32>, memref<?xf32>, index
  func.func @gradient(%a: tensor<512x?xf8E4M3FN, #padded_rows>, %sa: tensor<8x512xf32>,
      %b: tensor<?x1024xf8E4M3FN, #padded_columns>, %ends: tensor<8xi32>) -> tensor<8x512x1024xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa : tensor<8x512xf32>) direction quantize
        tiles [#fp8moe.wgmma<rows = 256, columns = 128, stages = 4, schedule = cooperative>]
        : tensor<512x?xf8E4M3FN, #padded_rows>, tensor<?x1024xf8E4M3FN, #padded_columns> -> tensor<8x512x1024xbf16>
    return %o : tensor<8x512x1024xbf16>
  }
}
