// RUN: fp8moe-opt %s --convert-fp8moe-to-loops --split-input-file --verify-diagnostics

// expected-error @below {{has the target-neutral element type of 'tensor<4x8x!fp8moe.e4m3>'; run -fp8moe-resolve-fp8-types before converting to loops}}
func.func @neutral(%q: tensor<4x8x!fp8moe.e4m3>) -> tensor<4x8x!fp8moe.e4m3> {
  return %q : tensor<4x8x!fp8moe.e4m3>
}

// -----

// A scale needs the largest number of its FP8 type, which a target-neutral type does not have.
func.func @neutral_scale(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  // expected-error @below {{computes scales for the target-neutral type '!fp8moe.e4m3'; run -fp8moe-resolve-fp8-types before converting to loops}}
  %s = fp8moe.scale %x along 1 rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8xf32> -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

func.func @neutral_jagged_scale(%x: tensor<4x8xf32>, %ends: tensor<2xi32>) -> tensor<2x8xf32> {
  // expected-error @below {{computes scales for the target-neutral type '!fp8moe.e5m2'}}
  %s = fp8moe.jagged_scale %x groups(%ends : tensor<2xi32>) along 0 rounding none fp8 !fp8moe.e5m2
      : tensor<4x8xf32> -> tensor<2x8xf32>
  return %s : tensor<2x8xf32>
}

// -----

// expected-error @below {{takes or returns tensors and has no body; only functions with a body can be converted to loops}}
func.func private @external(tensor<4x8xf32>)

// -----

// expected-error @below {{expects all results to be tensors when one is, found '(tensor<4x8xf32>) -> (tensor<4x8xf32>, index)'}}
func.func @mixed_results(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, index) {
  %c0 = arith.constant 0 : index
  return %x, %c0 : tensor<4x8xf32>, index
}

// -----

func.func private @callee(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}
func.func @caller(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @below {{passes tensors to another function; inline all calls first (-inline), which recursion does not allow}}
  %y = call @callee(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#blocked = #fp8moe.scale_blocked<128x4>

func.func @unknown_rows(%s: tensor<?x8xf8E8M0FNU, #blocked>) -> tensor<?x8xf8E8M0FNU> {
  // expected-error @below {{cannot know dimension 0 of the block scales of type 'tensor<?x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>', because they come from outside; give them a static shape}}
  // expected-error @below {{failed to legalize operation 'fp8moe.relayout'}}
  %r = fp8moe.relayout %s : tensor<?x8xf8E8M0FNU, #blocked> -> tensor<?x8xf8E8M0FNU>
  return %r : tensor<?x8xf8E8M0FNU>
}

// -----

func.func @undecided(%a: tensor<4x8xbf16>, %b: tensor<8x6xbf16>) -> tensor<4x6xbf16> {
  // expected-error @below {{'fp8moe.linear' op cannot be lowered while its precision is undecided; run --fp8moe-select-precision and --fp8moe-apply-precision, or write 'precision <bf16, ...>'}}
  %0 = fp8moe.linear %a, %b precision <undecided, "wq", forward> : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<4x6xbf16>
  return %0 : tensor<4x6xbf16>
}

// -----

func.func @not_applied(%a: tensor<4x8xbf16>, %b: tensor<2x8x6xbf16>, %ends: tensor<2xi32>) -> tensor<4x6xbf16> {
  // expected-error @below {{was decided to be FP8, but multiplies bf16 operands; run --fp8moe-apply-precision, which quantizes them}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) precision <fp8, "w1", forward> : tensor<4x8xbf16>, tensor<2x8x6xbf16> -> tensor<4x6xbf16>
  return %0 : tensor<4x6xbf16>
}
