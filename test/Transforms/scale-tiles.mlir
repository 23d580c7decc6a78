// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles))" | FileCheck %s

// `scale` is the first pass of the two-pass kernel and gets one of its tiles.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @rows
  // CHECK: fp8moe.scale %{{.*}} along 1 rounding pow2 fp8 f8E4M3FN tiles [#fp8moe.two_pass<columns = {{[0-9]+}}, threads = {{[0-9]+}}>] :
  func.func @rows(%x: tensor<?x2048xbf16>) -> tensor<?xf32> {
    %s = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN : tensor<?x2048xbf16> -> tensor<?xf32>
    return %s : tensor<?xf32>
  }

  // CHECK-LABEL: func.func @groups
  // CHECK: fp8moe.jagged_scale {{.*}} fp8 f8E4M3FN tiles [#fp8moe.two_pass<columns = 64, threads = 256>] :
  func.func @groups(%x: tensor<?x2048xf32>, %ends: tensor<8xi32>) -> tensor<8x2048xf32> {
    %s = fp8moe.jagged_scale %x groups(%ends : tensor<8xi32>) along 0 rounding none fp8 f8E4M3FN
        tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
        : tensor<?x2048xf32> -> tensor<8x2048xf32>
    return %s : tensor<8x2048xf32>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @other_family(%x: tensor<?x2048xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{'fp8moe.scale' has the tile single_pass_outer<columns = 64, stages = 13>, but on target sm_90a its layouts take two_pass<}}
    %s = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN tiles [#fp8moe.single_pass_outer<columns = 64, stages = 13>]
        : tensor<?x2048xbf16> -> tensor<?xf32>
    return %s : tensor<?xf32>
  }
}
