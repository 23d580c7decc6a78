// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

// An error about an unknown name suggests the nearest known one.

func.func @operation(%x: tensor<?x64xbf16>, %s: tensor<?xf32>) {
  // expected-error@+1 {{custom op 'fp8moe.qantize' is unknown (did you mean 'fp8moe.quantize'?)}}
  %q = fp8moe.qantize %x by %s along 1 : tensor<?x64xbf16>, tensor<?xf32> -> tensor<?x64x!fp8moe.e4m3>
  return
}

// -----

func.func @unlike_any() {
  // expected-error@+1 {{custom op 'fp8moe.softmax' is unknown}}
  fp8moe.softmax
}

// -----

// expected-error@+1 {{unknown attribute `stridd` in dialect `fp8moe` (did you mean 'strided'?)}}
func.func private @layout(tensor<?x64xbf16, #fp8moe.stridd<[1, 0]>>)

// -----

// expected-error@+1 {{unknown type `e4m4` in dialect `fp8moe`; its types are !fp8moe.e4m3 and !fp8moe.e5m2}}
func.func private @type(tensor<?x64x!fp8moe.e4m4>)

// -----

func.func @value_of_an_attribute(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{unknown word 'pow' (did you mean 'pow2'?); expects one of none, pow2}}
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow
      // expected-error@+1 {{failed to parse}}
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return
}

// -----

// expected-error@+1 {{unknown target 'h200' (did you mean 'sm_90a'?); known targets: cpu, cpu-fnuz, sm_90a, sm_100a, gfx942, gfx950}}
module attributes {fp8moe.target = #fp8moe.target<"h200">} {
}
