// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fuse-copies))' --split-input-file | FileCheck %s

#kn = #fp8moe.strided<[0, 2, 1]>
#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // Rows of groups are contiguous for the matmul, columns for its gradient.
  // CHECK-LABEL: func.func @tokens
  // CHECK:      %[[Q:.*]], %[[T:.*]], %[[S:.*]] = fp8moe.dynamic_quantize_copy %arg0 along 1 rounding pow2 groups(%arg1 : tensor<8xi32>)
  // CHECK-NEXT: return %[[Q]], %[[T]], %[[S]]
  func.func @tokens(%x: tensor<?x2048xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN, #padded>, tensor<?xf32>) {
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
    %t = fp8moe.relayout %q groups(%ends : tensor<8xi32>)
        : tensor<?x2048xf8E4M3FN> -> tensor<?x2048xf8E4M3FN, #padded>
    return %q, %t, %s : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN, #padded>, tensor<?xf32>
  }

  // CHECK-LABEL: func.func @weights
  // CHECK: fp8moe.dynamic_quantize_copy %arg0 along 1 rounding pow2 :
  // CHECK-NOT: fp8moe.relayout
  func.func @weights(%w: tensor<8x2048x1408xbf16, #kn>)
      -> (tensor<8x2048x1408xf8E4M3FN, #kn>, tensor<8x2048x1408xf8E4M3FN>, tensor<8x1408xf32>) {
    %q, %s = fp8moe.dynamic_quantize %w along [1] rounding pow2
        : tensor<8x2048x1408xbf16, #kn> -> tensor<8x2048x1408xf8E4M3FN, #kn>, tensor<8x1408xf32>
    %t = fp8moe.relayout %q : tensor<8x2048x1408xf8E4M3FN, #kn> -> tensor<8x2048x1408xf8E4M3FN>
    return %q, %t, %s : tensor<8x2048x1408xf8E4M3FN, #kn>, tensor<8x2048x1408xf8E4M3FN>, tensor<8x1408xf32>
  }

  // Lines of unknown or of too many elements have no kernel.
  // CHECK-LABEL: func.func @lines
  // CHECK-NOT: fp8moe.dynamic_quantize_copy
  func.func @lines(%x: tensor<?x?xbf16>, %y: tensor<?x28736xbf16>)
      -> (tensor<?x?xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<?x28736xf8E4M3FN, #fp8moe.strided<[1, 0]>>) {
    %q0, %s0 = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x?xbf16> -> tensor<?x?xf8E4M3FN>, tensor<?xf32>
    %t0 = fp8moe.relayout %q0 : tensor<?x?xf8E4M3FN> -> tensor<?x?xf8E4M3FN, #fp8moe.strided<[1, 0]>>
    %q1, %s1 = fp8moe.dynamic_quantize %y along [1] rounding pow2
        : tensor<?x28736xbf16> -> tensor<?x28736xf8E4M3FN>, tensor<?xf32>
    %t1 = fp8moe.relayout %q1 : tensor<?x28736xf8E4M3FN> -> tensor<?x28736xf8E4M3FN, #fp8moe.strided<[1, 0]>>
    return %t0, %t1 : tensor<?x?xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<?x28736xf8E4M3FN, #fp8moe.strided<[1, 0]>>
  }

  // Offsets that are made behind the quantization.
  // CHECK-LABEL: func.func @later_offsets
  // CHECK: fp8moe.relayout
  func.func @later_offsets(%x: tensor<?x2048xbf16>, %ends: tensor<2x4xi32>) -> tensor<?x2048xf8E4M3FN, #padded> {
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
    %flat = fp8moe.reshape %ends : tensor<2x4xi32> -> tensor<8xi32>
    %t = fp8moe.relayout %q groups(%flat : tensor<8xi32>)
        : tensor<?x2048xf8E4M3FN> -> tensor<?x2048xf8E4M3FN, #padded>
    return %t : tensor<?x2048xf8E4M3FN, #padded>
  }
}

// -----

// No kernel there.
module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  // CHECK-LABEL: func.func @on_gfx950
  // CHECK:      fp8moe.dynamic_quantize
  // CHECK-NEXT: fp8moe.relayout
  func.func @on_gfx950(%x: tensor<?x2048xbf16>) -> tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>> {
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
    %t = fp8moe.relayout %q : tensor<?x2048xf8E4M3FN> -> tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>
    return %t : tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>
  }
}

// -----

// Scales whose types differ stay.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @scales_of_two_types
  // CHECK-COUNT-2: fp8moe.dynamic_quantize
  func.func @scales_of_two_types(%x: tensor<256x512xbf16>)
      -> (tensor<256x512xf8E4M3FN>, tensor<256xf32>, tensor<256x512xf8E4M3FN, #fp8moe.strided<[1, 0]>>,
          tensor<256xf32, #fp8moe.strided<[0], align = 64>>) {
    %a, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<256x512xbf16> -> tensor<256x512xf8E4M3FN>, tensor<256xf32>
    %b, %t = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<256x512xbf16> -> tensor<256x512xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<256xf32, #fp8moe.strided<[0], align = 64>>
    return %a, %s, %b, %t : tensor<256x512xf8E4M3FN>, tensor<256xf32>, tensor<256x512xf8E4M3FN, #fp8moe.strided<[1, 0]>>,
        tensor<256xf32, #fp8moe.strided<[0], align = 64>>
  }
}

// -----

// A copy of the scales is no copy of the data.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @copied_scales
  // CHECK:      fp8moe.dynamic_quantize %
  // CHECK-NEXT: fp8moe.relayout
  func.func @copied_scales(%x: tensor<3x32x64xbf16>) -> (tensor<3x32x64xf8E4M3FN>, tensor<3x32xf32, #fp8moe.strided<[1, 0]>>) {
    %q, %s = fp8moe.dynamic_quantize %x along [2] rounding none
        : tensor<3x32x64xbf16> -> tensor<3x32x64xf8E4M3FN>, tensor<3x32xf32>
    %t = fp8moe.relayout %s : tensor<3x32xf32> -> tensor<3x32xf32, #fp8moe.strided<[1, 0]>>
    return %q, %t : tensor<3x32x64xf8E4M3FN>, tensor<3x32xf32, #fp8moe.strided<[1, 0]>>
  }
}
