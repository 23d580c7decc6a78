// Recipe mxfp8 without matrix instructions for block scales: the matmul stays in bf16, with a
// warning.

// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --fp8moe-select-precision | FileCheck %s
// RUN: fp8moe-opt %s --split-input-file --fp8moe-select-precision="policy=none" 2>&1 | FileCheck %s --check-prefix=NONE

// NONE-NOT: warning:

#columns = #fp8moe.strided<[1, 0]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func @slower(
  // CHECK: precision <bf16, "wq", forward, recipe = mxfp8, {{.*}} reason = "recipe mxfp8: no kernel of sm_90a has matrix instructions that take scales of blocks">
  // CHECK: precision <bf16, "wk", forward, recipe = mxfp8, {{.*}} reason = "recipe mxfp8: no kernel of sm_90a has matrix instructions that take scales of blocks">
  // A given decision is kept, even if it is slower.
  // CHECK: precision <fp8, "wv", forward, recipe = mxfp8> :
  func.func @slower(%x: tensor<?x8192xbf16>, %w: tensor<8192x8192xbf16, #columns>)
      -> (tensor<?x8192xbf16>, tensor<?x8192xbf16>, tensor<?x8192xbf16>) {
    // expected-warning @below {{'fp8moe.linear' stays in bf16, as 1 other does: no kernel of target sm_90a has matrix instructions that take scales of blocks, and without them recipe 'mxfp8' is slower than bf16; use recipe 'rowwise', or write 'fp8' where it shall be FP8 all the same}}
    %0 = fp8moe.linear %x, %w precision <undecided, "wq", forward, recipe = mxfp8>
        : tensor<?x8192xbf16>, tensor<8192x8192xbf16, #columns> -> tensor<?x8192xbf16>
    %1 = fp8moe.linear %x, %w precision <undecided, "wk", forward, recipe = mxfp8>
        : tensor<?x8192xbf16>, tensor<8192x8192xbf16, #columns> -> tensor<?x8192xbf16>
    %2 = fp8moe.linear %x, %w precision <fp8, "wv", forward, recipe = mxfp8>
        : tensor<?x8192xbf16>, tensor<8192x8192xbf16, #columns> -> tensor<?x8192xbf16>
    return %0, %1, %2 : tensor<?x8192xbf16>, tensor<?x8192xbf16>, tensor<?x8192xbf16>
  }
}

// -----

// Without any kernel for block scales, the warning does not advise FP8.

#columns = #fp8moe.strided<[1, 0]>

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  // CHECK-LABEL: func @refused(
  // CHECK: precision <bf16, "wq", forward, recipe = mxfp8, bf16_ns = {{[0-9]+}}, reason =
  func.func @refused(%x: tensor<?x8192xbf16>, %w: tensor<8192x8192xbf16, #columns>) -> tensor<?x8192xbf16> {
    // expected-warning @below {{'fp8moe.linear' stays in bf16: no kernel of target gfx942 has matrix instructions that take scales of blocks; use recipe 'rowwise', or a target that has some}}
    %0 = fp8moe.linear %x, %w precision <undecided, "wq", forward, recipe = mxfp8>
        : tensor<?x8192xbf16>, tensor<8192x8192xbf16, #columns> -> tensor<?x8192xbf16>
    return %0 : tensor<?x8192xbf16>
  }
}
