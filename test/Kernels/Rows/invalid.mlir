// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --fp8moe-attach-target=chip=sm_90a --convert-fp8moe-to-gpu

func.func @f(%x: tensor<?x40xbf16>, %rows: tensor<?xi32>) -> tensor<?x40xbf16> {
  // expected-error @below {{'fp8moe.gather_rows' is not supported on target sm_90a yet; compile the function for 'cpu'}}
  // expected-note @below {{rows are divided into chunks of 16 elements: the number of columns is known, and it, or that of each half of a gradient, is a multiple of 16}}
  %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x40xbf16> -> tensor<?x40xbf16>
  return %r : tensor<?x40xbf16>
}

// -----

// Both halves of the gradient must be multiples of 16 elements.
func.func @f(%d: tensor<?x24xbf16>, %h: tensor<?x48xbf16>) -> tensor<?x48xbf16> {
  // expected-error @below {{'fp8moe.swiglu_gradient' is not supported on target sm_90a yet}}
  // expected-note @below {{rows are divided into chunks of 16 elements}}
  %r = fp8moe.swiglu_gradient %d, %h : tensor<?x24xbf16>, tensor<?x48xbf16> -> tensor<?x48xbf16>
  return %r : tensor<?x48xbf16>
}
