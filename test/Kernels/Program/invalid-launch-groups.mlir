// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu)" --split-input-file --verify-diagnostics

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @too_many(%x: tensor<?x2048xbf16>, %g: tensor<?x2048xbf16>, %h: tensor<?x2048xbf16>, %ends: tensor<8xi32>)
    -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>) {
  %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>] {fp8moe.launch_group = 0 : i64}
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  %q1, %s1 = fp8moe.jagged_dynamic_quantize %g groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>] {fp8moe.launch_group = 0 : i64}
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  // expected-error @below {{launch group 0 cannot be one launch: it has 3 operations, expected 2}}
  %q2, %s2 = fp8moe.jagged_dynamic_quantize %h groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>] {fp8moe.launch_group = 0 : i64}
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  return %q0, %q1, %q2 : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>
}
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @different_offsets(%x: tensor<?x2048xbf16>, %g: tensor<?x2048xbf16>, %ends: tensor<8xi32>, %other: tensor<8xi32>)
    -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>) {
  %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>] {fp8moe.launch_group = 0 : i64}
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  // expected-error @below {{its operations have different offsets}}
  %q1, %s1 = fp8moe.jagged_dynamic_quantize %g groups(%other : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>] {fp8moe.launch_group = 0 : i64}
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  return %q0, %q1 : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>
}
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @something_between(%x: tensor<?x2048xbf16>, %g: tensor<?x2048xbf16>, %ends: tensor<8xi32>, %other: tensor<8xi32>)
    -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>) {
  %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>] {fp8moe.launch_group = 0 : i64}
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  %a, %b = fp8moe.dynamic_quantize %g along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
  // expected-error @below {{'fp8moe.dynamic_quantize' is launched between its operations; move one of them}}
  %q1, %s1 = fp8moe.jagged_dynamic_quantize %g groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>] {fp8moe.launch_group = 0 : i64}
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  return %q0, %a : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>
}
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @different_threads(%x: tensor<?x2048xbf16>, %g: tensor<?x2048xbf16>, %ends: tensor<8xi32>, %other: tensor<8xi32>)
    -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>) {
  %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>] {fp8moe.launch_group = 0 : i64}
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  // expected-error @below {{its kernels have blocks of 256 and 512 threads; give them equal ones}}
  %q1, %s1 = fp8moe.jagged_dynamic_quantize %g groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 128, threads = 512>] {fp8moe.launch_group = 0 : i64}
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  return %q0, %q1 : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>
}
}

// -----

func.func @not_a_number(%x: tensor<?x2048xbf16>, %ends: tensor<8xi32>) {
  // expected-error @below {{expects 'fp8moe.launch_group' to be an i64 of at least 0, found "a"}}
  %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
      rounding pow2  {fp8moe.launch_group = "a"}
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  return
}

// -----

// expected-error @below {{has the attribute 'fp8moe.launch_group', which belongs on a jagged quantization along one axis}}
func.func @elsewhere() attributes {fp8moe.launch_group = 0 : i64} {
  return
}
