// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-group-launches))' --split-input-file | FileCheck %s

// The second quantization moves up to the first one.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @together
  // CHECK:      fp8moe.jagged_dynamic_quantize %{{.*}} {fp8moe.launch_group = 0 : i64}
  // CHECK-NEXT: fp8moe.jagged_dynamic_quantize %{{.*}} {fp8moe.launch_group = 0 : i64}
  // CHECK-NEXT: fp8moe.dynamic_quantize
  func.func @together(%x: tensor<?x2048xbf16>, %g: tensor<?x2048xbf16>, %ends: tensor<8xi32>) -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>) {
    %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  %a, %b = fp8moe.dynamic_quantize %g along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
    %q1, %s1 = fp8moe.jagged_dynamic_quantize %g groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  return %q0, %a, %q1 : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>
  }

  // The input of the second one comes after the first one, which moves down.
  // CHECK-LABEL: func.func @first_moves
  // CHECK:      fp8moe.relayout
  // CHECK-NEXT: fp8moe.jagged_dynamic_quantize %{{.*}} {fp8moe.launch_group = 0 : i64}
  // CHECK-NEXT: fp8moe.jagged_dynamic_quantize %{{.*}} {fp8moe.launch_group = 0 : i64}
  func.func @first_moves(%x: tensor<?x2048xbf16>, %g: tensor<?x2048xbf16, #fp8moe.strided<[1, 0]>>, %ends: tensor<8xi32>) -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>) {
    %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  %c = fp8moe.relayout %g : tensor<?x2048xbf16, #fp8moe.strided<[1, 0]>> -> tensor<?x2048xbf16>
    %q1, %s1 = fp8moe.jagged_dynamic_quantize %c groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  return %q0, %q1 : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>
  }

  // The second one needs the first one, the third one needs nothing.
  // CHECK-LABEL: func.func @past_a_dependent_one
  // CHECK:      fp8moe.jagged_dynamic_quantize %arg0 {{.*}} {fp8moe.launch_group = 0 : i64}
  // CHECK-NEXT: fp8moe.jagged_dynamic_quantize %arg1 {{.*}} {fp8moe.launch_group = 0 : i64}
  // CHECK-NEXT: fp8moe.jagged_dynamic_quantize
  // CHECK-NOT:  launch_group
  // CHECK: return
  func.func @past_a_dependent_one(%x: tensor<8x2048xf32>, %g: tensor<8x2048xf32>, %ends: tensor<8xi32>) -> (tensor<8x2048xf8E4M3FN>, tensor<8x2048xf8E4M3FN>, tensor<8x2048xf8E4M3FN>) {
    %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<8x2048xf32> -> tensor<8x2048xf8E4M3FN>, tensor<8x2048xf32>
    %q1, %s1 = fp8moe.jagged_dynamic_quantize %s0 groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<8x2048xf32> -> tensor<8x2048xf8E4M3FN>, tensor<8x2048xf32>
    %q2, %s2 = fp8moe.jagged_dynamic_quantize %g groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<8x2048xf32> -> tensor<8x2048xf8E4M3FN>, tensor<8x2048xf32>
  return %q0, %q1, %q2 : tensor<8x2048xf8E4M3FN>, tensor<8x2048xf8E4M3FN>, tensor<8x2048xf8E4M3FN>
  }

  // Other threads, other offsets, another schedule, or results that the other needs.
  // CHECK-LABEL: func.func @apart
  // CHECK-NOT: launch_group
  // CHECK: return
  func.func @apart(%x: tensor<?x2048xbf16>, %g: tensor<?x2048xbf16>, %ends: tensor<8xi32>, %other: tensor<8xi32>) -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>) {
    %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
    %q1, %s1 = fp8moe.jagged_dynamic_quantize %g groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 128, threads = 512>]
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
    %q2, %s2 = fp8moe.jagged_dynamic_quantize %g groups(%other : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
    %q3, %s3 = fp8moe.jagged_dynamic_quantize %g groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 tiles [#fp8moe.single_pass_outer<columns = 64, stages = 13>, #fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  return %q0, %q1, %q2, %q3 : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>
  }
}

// -----

// There are no launches on the CPU.
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
  // CHECK-LABEL: func.func @cpu
  // CHECK-NOT: launch_group
  // CHECK: return
  func.func @cpu(%x: tensor<?x2048xbf16>, %g: tensor<?x2048xbf16>, %ends: tensor<8xi32>) -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>) {
    %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
    %q1, %s1 = fp8moe.jagged_dynamic_quantize %g groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<8x2048xf32>
  return %q0, %q1 : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>
  }
}
