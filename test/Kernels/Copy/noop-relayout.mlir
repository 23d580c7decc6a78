// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu)" | FileCheck %s

// A relayout that only drops an alignment copies nothing: the single launch reads the argument
// itself.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK: %[[X:.*]] = fp8moe_plan.input "arg0" align 16
  // CHECK: fp8moe_plan.launch @{{.*}} args(%[[X]],
  // CHECK-NOT: fp8moe_plan.launch
  func.func @forget_alignment(%x: tensor<?x2048xbf16, #fp8moe.strided<[0, 1], align = 16>>)
      -> (tensor<?x2048xf8E4M3FN>, tensor<?xf32>) {
    %plain = fp8moe.relayout %x
        : tensor<?x2048xbf16, #fp8moe.strided<[0, 1], align = 16>> -> tensor<?x2048xbf16>
    %q, %s = fp8moe.dynamic_quantize %plain along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
    return %q, %s : tensor<?x2048xf8E4M3FN>, tensor<?xf32>
  }
}
