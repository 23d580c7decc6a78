// RUN: fp8moe-opt %s --fp8moe-resolve-fp8-types --split-input-file --verify-diagnostics | FileCheck %s

// The target's FP8 type replaces the neutral type in values, function types and attributes.

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  // CHECK-LABEL: func.func @fnuz
  // CHECK-SAME: tensor<?x64xf8E4M3FNUZ>
  func.func @fnuz(%x: tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>) {
    // CHECK: dynamic_quantize {{.*}} -> tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
    return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @attribute
  func.func @attribute(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // CHECK: fp8moe.scale {{.*}} fp8 f8E5M2 :
    %s = fp8moe.scale %x along 1 rounding none fp8 !fp8moe.e5m2
        : tensor<?x64xbf16> -> tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// On the CPU, neutral types become OCP (FN) types. Explicit FN and FNUZ types stay.
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
  // CHECK-LABEL: func.func private @cpu(tensor<4xf8E4M3FN>, tensor<4xf8E4M3FNUZ>)
  func.func private @cpu(tensor<4x!fp8moe.e4m3>, tensor<4xf8E4M3FNUZ>)
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"cpu-fnuz">} {
  // CHECK-LABEL: func.func private @cpu_fnuz(tensor<4xf8E5M2FNUZ>)
  func.func private @cpu_fnuz(tensor<4x!fp8moe.e5m2>)
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  // expected-error @below {{needs 'f8E4M3FN', which the hardware of gfx942 lacks; use !fp8moe.e4m3 to let the target choose, or 'f8E4M3FNUZ'}}
  func.func private @other_vendor(tensor<4xf8E4M3FN>)
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @inside(%x: tensor<?x64xbf16>) {
    // expected-error @below {{needs 'f8E5M2FNUZ', which the hardware of sm_90a lacks}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E5M2FNUZ>, tensor<?xf32>
    return
  }
}

// -----

// expected-error @below {{the module names no target; add the attribute 'fp8moe.target = #fp8moe.target<"sm_90a">'}}
module {
  func.func private @f(tensor<4x!fp8moe.e4m3>)
}
