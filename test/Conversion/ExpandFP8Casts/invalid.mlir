// RUN: fp8moe-opt %s --fp8moe-expand-fp8-casts --split-input-file --verify-diagnostics

func.func @rounds_twice(%x: f64) -> f8E4M3FN {
  // expected-error @below {{cannot expand a cast from 'f64' to 'f8E4M3FN', because it would round twice; write two casts, by way of f32, if that is what is meant}}
  %q = arith.truncf %x : f64 to f8E4M3FN
  return %q : f8E4M3FN
}

// -----

func.func @rounds_up(%x: f32) -> f8E5M2 {
  // expected-error @below {{cannot expand a cast with rounding mode 'upward'; expected 'to_nearest_even'}}
  %q = arith.truncf %x upward : f32 to f8E5M2
  return %q : f8E5M2
}
