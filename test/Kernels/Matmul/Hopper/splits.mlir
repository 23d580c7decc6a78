// Split K: one kernel computes the f32 partial sums of each part. A second kernel adds them in
// order, adds the addend and rounds once.

// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize)" | FileCheck %s

#columns = #fp8moe.strided<[1, 0]>
#tile = #fp8moe.wgmma<rows = 128, columns = 128, stages = 4, schedule = cooperative, splits = 4>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // Each part gets a share of the stages. The number of the part is the third coordinate of the
  // stored tile.
  // CHECK-LABEL: gpu.func @matmul_0
  // CHECK: fp8moe_kernel.tensor_store {{.*}}[%{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}]

  // CHECK-LABEL: gpu.func @sum_splits_1
  // CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr<1> -> vector<4xi32>
  // CHECK-COUNT-12: arith.addf
  // CHECK: gpu.return

  // CHECK-LABEL: fp8moe_plan.program @wgrad
  // The workspace holds 4 parts of 256 x 512 partial sums.
  // CHECK: %[[PRODUCTS:.*]] = fp8moe_plan.workspace {{.*}} : memref<524288xf32>
  // CHECK: fp8moe_plan.tensor_map %[[PRODUCTS]]{{.*}} box(32, 16, 1)
  // CHECK: fp8moe_plan.launch @{{.*}}::@matmul_0
  // CHECK: fp8moe_plan.launch @{{.*}}::@sum_splits_1
  func.func @wgrad(%grad: tensor<256x?xbf16, #columns>, %x: tensor<?x512xbf16>) -> tensor<256x512xbf16> {
    %o = fp8moe.linear %grad, %x tiles [#tile]
        : tensor<256x?xbf16, #columns>, tensor<?x512xbf16> -> tensor<256x512xbf16>
    return %o : tensor<256x512xbf16>
  }
}
