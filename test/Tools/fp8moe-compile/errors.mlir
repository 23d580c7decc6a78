// RUN: fp8moe-compile %s --emit=tensor -o /dev/null --split-input-file --verify-diagnostics

// Neither the module nor the command line names a target.
// expected-error@+1 {{no target to compile for; name one (--target=CHIP; in Python targets=["CHIP"]), or set 'fp8moe.target' on the module. Known targets: cpu, cpu-fnuz, sm_90a}}
module {
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
  // expected-error@+1 {{a module within a module: only the outer one's functions are compiled; move those of the inner one there, or compile it by itself}}
  module @inner {
  }
}

// -----

// expected-error@+1 {{unknown target 'sm_80'}}
module attributes {fp8moe.target = #fp8moe.target<"sm_80">} {
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
  // expected-error@+1 {{use of undeclared SSA value name}}
  func.func @f() -> tensor<4xf32> { return %x : tensor<4xf32> }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @flavour_of_another_vendor(%x: tensor<?x64xf8E4M3FN>) -> tensor<?x64xf8E4M3FN> {
    // expected-error@+1 {{needs 'f8E4M3FN', which the hardware of gfx942 lacks; use !fp8moe.e4m3 to let the target choose, or 'f8E4M3FNUZ'}}
    return %x : tensor<?x64xf8E4M3FN>
  }
}
