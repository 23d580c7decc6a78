// RUN: fp8moe-opt %s --split-input-file --fp8moe-sweep-tiles --verify-diagnostics

// expected-error@+1 {{has no tiles to sweep: target cpu is no GPU}}
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
}

// -----

// A symbol with the name of a candidate exists already, for example after an earlier sweep.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // expected-error@+1 {{cannot add a candidate: there is a symbol 'rows/0/two_pass,columns=4,threads=128' already; sweep a module once}}
  func.func @rows(%x: tensor<?x64xf32>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>) {
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<?x64xf32> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %q, %s : tensor<?x64xf8E4M3FN>, tensor<?xf32>
  }
  // expected-note@+1 {{it is here}}
  func.func private @"rows/0/two_pass,columns=4,threads=128"()
}
