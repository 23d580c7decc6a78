// A dense matmul is the grouped kernel with one group of all rows. It takes no pointer to offsets,
// and its operands are matrices.

// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize)" | FileCheck %s

#columns = #fp8moe.strided<[1, 0]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // The parameters are three tensor maps, two scales, the result and the number of rows.
  // CHECK-LABEL: gpu.func @matmul_0
  // CHECK-SAME: (%{{.*}}: !llvm.ptr {fp8moe_plan.tensor_map}, %{{.*}}: !llvm.ptr {fp8moe_plan.tensor_map}, %{{.*}}: !llvm.ptr {fp8moe_plan.tensor_map}, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: i64)
  // No offset is loaded to find the end of a group.
  // CHECK-NOT: llvm.load {{.*}} invariant
  // Both operands are loaded with two coordinates.
  // CHECK: fp8moe_kernel.tensor_load {{.*}}[%{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}] signals
  // CHECK: fp8moe_kernel.tensor_load {{.*}}[%{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}] signals
  // CHECK: gpu.return

  // CHECK-LABEL: fp8moe_plan.program @forward
  // CHECK-NOT: i32
  // CHECK: fp8moe_plan.tensor_map {{.*}} box(128, 128)
  // CHECK: fp8moe_plan.tensor_map {{.*}} box(128, 128)
  // CHECK: fp8moe_plan.launch @{{.*}}::@matmul_0
  func.func @forward(%a: tensor<?x2048xf8E4M3FN>, %sa: tensor<?xf32>,
      %b: tensor<2048x1408xf8E4M3FN, #columns>, %sb: tensor<1408xf32>) -> tensor<?x1408xbf16> {
    %o = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<1408xf32>) direction quantize
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<?x2048xf8E4M3FN>, tensor<2048x1408xf8E4M3FN, #columns> -> tensor<?x1408xbf16>
    return %o : tensor<?x1408xbf16>
  }
}
