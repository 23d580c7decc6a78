// Recipe mxfp8, of one matmul or of all, on a target whose matrix instructions take block scales:
// predicted times decide. On the CPU, the policy decides.

// RUN: fp8moe-opt %s --fp8moe-select-precision | FileCheck %s
// RUN: sed 's/, recipe = mxfp8//' %s | fp8moe-opt --fp8moe-select-precision="recipe=mxfp8" | FileCheck %s --check-prefix=OPTION
// RUN: sed 's/gfx950/cpu/' %s | fp8moe-opt --fp8moe-select-precision="policy=all" | FileCheck %s --check-prefix=CPU
// RUN: not fp8moe-opt %s --fp8moe-select-precision="policy=torchao" 2>&1 | FileCheck %s --check-prefix=TORCHAO

// TORCHAO: error: 'fp8moe.linear' op names a recipe, but torchao has no rule for recipe 'mxfp8'; use recipe rowwise or tensorwise, or policy cost, all or none

#columns = #fp8moe.strided<[1, 0]>

module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  // CHECK-LABEL: func @large(
  // CHECK: precision <fp8, "wq", forward, recipe = mxfp8, bf16_ns = {{[0-9]+}}, fp8_ns = {{[0-9]+}}, reason = "FP8 is predicted to be {{.*}}x as fast">
  // The recipe of one matmul does not apply to the others.
  // CHECK: precision <{{fp8|bf16}}, "wk", forward, bf16_ns
  // CPU-LABEL: func @large(
  // CPU: precision <fp8, "wq", forward, recipe = mxfp8, reason = "policy all">
  // OPTION-LABEL: func @large(
  // OPTION: precision <fp8, "wq", forward, recipe = mxfp8,
  // OPTION: precision <fp8, "wk", forward, recipe = mxfp8,
  func.func @large(%x: tensor<?x8192xbf16>, %q: tensor<8192x8192xbf16, #columns>, %k: tensor<8192x8192xbf16, #columns>)
      -> (tensor<?x8192xbf16>, tensor<?x8192xbf16>) {
    %0 = fp8moe.linear %x, %q precision <undecided, "wq", forward, recipe = mxfp8>
        : tensor<?x8192xbf16>, tensor<8192x8192xbf16, #columns> -> tensor<?x8192xbf16>
    %1 = fp8moe.linear %x, %k precision <undecided, "wk", forward>
        : tensor<?x8192xbf16>, tensor<8192x8192xbf16, #columns> -> tensor<?x8192xbf16>
    return %0, %1 : tensor<?x8192xbf16>, tensor<?x8192xbf16>
  }

  // CHECK-LABEL: func @gradient(
  // CHECK: precision <fp8, "w1", wgrad, recipe = mxfp8, bf16_ns = {{[0-9]+}}, fp8_ns = {{[0-9]+}},
  func.func @gradient(%g: tensor<?x4096xbf16>, %x: tensor<?x7168xbf16>, %ends: tensor<8xi32>) -> tensor<8x4096x7168xbf16> {
    %gt = fp8moe.transpose %g [1, 0] : tensor<?x4096xbf16> -> tensor<4096x?xbf16, #columns>
    %0 = fp8moe.grouped_matmul %gt, %x groups(%ends : tensor<8xi32>) precision <undecided, "w1", wgrad, recipe = mxfp8>
        : tensor<4096x?xbf16, #columns>, tensor<?x7168xbf16> -> tensor<8x4096x7168xbf16>
    return %0 : tensor<8x4096x7168xbf16>
  }
}
