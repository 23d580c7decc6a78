// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --convert-fp8moe-to-gpu

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @no_ocp_types(%x: tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FNUZ>, tensor<?x2xf8E8M0FNU>) {
    // expected-error@+1 {{'fp8moe.mx_quantize' is not supported on target gfx942 yet; compile the function for sm_90a or sm_100a or gfx950 or 'cpu'}}
    %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FNUZ>, tensor<?x2xf8E8M0FNU>
    return %q, %s : tensor<?x64xf8E4M3FNUZ>, tensor<?x2xf8E8M0FNU>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @flavour(%x: tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FNUZ>, tensor<?x2xf8E8M0FNU>) {
    // expected-error@+1 {{'fp8moe.mx_quantize' to 'f8E4M3FNUZ' (the hardware has the other flavour; use !fp8moe.e4m3 or !fp8moe.e5m2) is not supported on target sm_90a}}
    %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FNUZ>, tensor<?x2xf8E8M0FNU>
    return %q, %s : tensor<?x64xf8E4M3FNUZ>, tensor<?x2xf8E8M0FNU>
  }
}
