// Weights are cast as one matrix [E * N, K]. Reading the experts separately avoids a copy of the
// data and copies only the scales, which are 32 times smaller.

// RUN: fp8moe-opt %s --fp8moe-optimize-layouts -o %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: fp8moe-opt %t.once --fp8moe-optimize-layouts | diff %t.once -

#col = #fp8moe.strided<[1, 0]>
#ecol = #fp8moe.strided<[0, 2, 1]>
#tiles = #fp8moe.scale_blocked<128x4>
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {

// The argument's experts cannot be merged by a view. The scales are copied instead of the argument.
// CHECK-LABEL: func.func @merge_needs_copy
// CHECK-NEXT:    mx_quantize %arg0 along [1] {{.*}} : tensor<4x64x96xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<4x64x96xf8E4M3FN>, tensor<4x96x2xf8E8M0FNU>
// CHECK-NOT:     relayout {{.*}}f8E4M3FN
// CHECK:         relayout {{.*}} : tensor<4x96x2xf8E8M0FNU> -> tensor<4x96x2xf8E8M0FNU, #fp8moe.strided<[1, 0, 2]>>
// CHECK-NOT:     relayout
// CHECK:         return
func.func @merge_needs_copy(%w: tensor<4x64x96xbf16, #ecol>) -> (tensor<256x96xf8E4M3FN>, tensor<96x8xf8E8M0FNU>) {
  %c = fp8moe.relayout %w : tensor<4x64x96xbf16, #ecol> -> tensor<4x64x96xbf16>
  %m = fp8moe.reshape %c : tensor<4x64x96xbf16> -> tensor<256x96xbf16>
  %q, %s = fp8moe.mx_quantize %m along [0] mode rceil
      : tensor<256x96xbf16> -> tensor<256x96xf8E4M3FN>, tensor<96x8xf8E8M0FNU>
  return %q, %s : tensor<256x96xf8E4M3FN>, tensor<96x8xf8E8M0FNU>
}

// No layout of the matrix gives the returned one by a view.
// CHECK-LABEL: func.func @split_needs_copy
// CHECK-NEXT:    mx_quantize %arg0 along [1] {{.*}} -> tensor<4x64x96xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<4x96x2xf8E8M0FNU>
// CHECK-NEXT:    relayout {{.*}} : tensor<4x96x2xf8E8M0FNU> -> tensor<4x96x2xf8E8M0FNU, #fp8moe.strided<[1, 0, 2]>>
// CHECK-NOT:     relayout
// CHECK:         return
func.func @split_needs_copy(%w: tensor<4x64x96xbf16>) -> (tensor<4x64x96xf8E4M3FN, #ecol>, tensor<96x8xf8E8M0FNU>) {
  %m = fp8moe.reshape %w : tensor<4x64x96xbf16> -> tensor<256x96xbf16>
  %q, %s = fp8moe.mx_quantize %m along [0] mode rceil
      : tensor<256x96xbf16> -> tensor<256x96xf8E4M3FN>, tensor<96x8xf8E8M0FNU>
  %q3 = fp8moe.reshape %q : tensor<256x96xf8E4M3FN> -> tensor<4x64x96xf8E4M3FN>
  %q4 = fp8moe.relayout %q3 : tensor<4x64x96xf8E4M3FN> -> tensor<4x64x96xf8E4M3FN, #ecol>
  return %q4, %s : tensor<4x64x96xf8E4M3FN, #ecol>, tensor<96x8xf8E8M0FNU>
}

// Here a layout of the matrix does, and copying scales would gain nothing.
// CHECK-LABEL: func.func @both_forms
// CHECK:         mx_quantize %{{.*}} along [0] {{.*}} tensor<96x8xf8E8M0FNU>
// CHECK-NOT:     relayout {{.*}}f8E8M0FNU
// CHECK:         return
func.func @both_forms(%w: tensor<4x64x96xbf16>)
    -> (tensor<256x96xf8E4M3FN>, tensor<4x64x96xf8E4M3FN, #ecol>, tensor<96x8xf8E8M0FNU>) {
  %m = fp8moe.reshape %w : tensor<4x64x96xbf16> -> tensor<256x96xbf16>
  %q, %s = fp8moe.mx_quantize %m along [0] mode rceil
      : tensor<256x96xbf16> -> tensor<256x96xf8E4M3FN>, tensor<96x8xf8E8M0FNU>
  %q3 = fp8moe.reshape %q : tensor<256x96xf8E4M3FN> -> tensor<4x64x96xf8E4M3FN>
  %q4 = fp8moe.relayout %q3 : tensor<4x64x96xf8E4M3FN> -> tensor<4x64x96xf8E4M3FN, #ecol>
  return %q, %q4, %s : tensor<256x96xf8E4M3FN>, tensor<4x64x96xf8E4M3FN, #ecol>, tensor<96x8xf8E8M0FNU>
}

// Scales of rows keep their order. Blocking them is one copy.
// CHECK-LABEL: func.func @tiles_of_rows
// CHECK-NEXT:    mx_quantize %arg0 along [2] {{.*}} : tensor<4x64x96xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<4x64x96xf8E4M3FN>, tensor<4x64x3xf8E8M0FNU>
// CHECK-NOT:     relayout {{.*}}f8E4M3FN
// CHECK:         relayout {{.*}} -> tensor<256x3xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
// CHECK-NOT:     relayout
// CHECK:         return
func.func @tiles_of_rows(%w: tensor<4x64x96xbf16, #ecol>) -> (tensor<256x96xf8E4M3FN>, tensor<256x3xf8E8M0FNU, #tiles>) {
  %c = fp8moe.relayout %w : tensor<4x64x96xbf16, #ecol> -> tensor<4x64x96xbf16>
  %m = fp8moe.reshape %c : tensor<4x64x96xbf16> -> tensor<256x96xbf16>
  %q, %s = fp8moe.mx_quantize %m along [1] mode rceil
      : tensor<256x96xbf16> -> tensor<256x96xf8E4M3FN>, tensor<256x3xf8E8M0FNU, #tiles>
  return %q, %s : tensor<256x96xf8E4M3FN>, tensor<256x3xf8E8M0FNU, #tiles>
}

// All users of the merged copy can read the argument instead.
// CHECK-LABEL: func.func @scale_and_cast
// CHECK-NEXT:    dynamic_quantize %arg0 along [2]
// CHECK-NOT:     relayout
// CHECK:         return
func.func @scale_and_cast(%w: tensor<4x64x96xbf16, #ecol>) -> (tensor<256x96xf8E4M3FN>, tensor<256xf32>) {
  %c = fp8moe.relayout %w : tensor<4x64x96xbf16, #ecol> -> tensor<4x64x96xbf16>
  %m = fp8moe.reshape %c : tensor<4x64x96xbf16> -> tensor<256x96xbf16>
  %s = fp8moe.scale %m along 1 rounding pow2 fp8 f8E4M3FN : tensor<256x96xbf16> -> tensor<256xf32>
  %q = fp8moe.quantize %m by %s along 1 : tensor<256x96xbf16>, tensor<256xf32> -> tensor<256x96xf8E4M3FN>
  return %q, %s : tensor<256x96xf8E4M3FN>, tensor<256xf32>
}

// Only the scales are used, in an order that the separate form writes directly.
// CHECK-LABEL: func.func @only_scales
// CHECK-NEXT:    mx_quantize %arg0 along [1] {{.*}} : tensor<4x32x96xbf16> -> tensor<4x32x96xf8E4M3FN>, tensor<4x96x1xf8E8M0FNU>
// CHECK-NOT:     relayout
// CHECK:         return
func.func @only_scales(%w: tensor<4x32x96xbf16>) -> tensor<96x4xf8E8M0FNU, #col> {
  %m = fp8moe.reshape %w : tensor<4x32x96xbf16> -> tensor<128x96xbf16>
  %q, %s = fp8moe.mx_quantize %m along [0] mode rceil
      : tensor<128x96xbf16> -> tensor<128x96xf8E4M3FN>, tensor<96x4xf8E8M0FNU>
  %c = fp8moe.relayout %s : tensor<96x4xf8E8M0FNU> -> tensor<96x4xf8E8M0FNU, #col>
  return %c : tensor<96x4xf8E8M0FNU, #col>
}

// The scales are also used in the merged order, so the separate form gains nothing.
// CHECK-LABEL: func.func @scales_both_ways
// CHECK:         mx_quantize {{.*}} along [0]
// CHECK:         return
func.func @scales_both_ways(%w: tensor<4x32x96xbf16>) -> (tensor<96x4xf8E8M0FNU, #col>, tensor<96x4xf8E8M0FNU>) {
  %m = fp8moe.reshape %w : tensor<4x32x96xbf16> -> tensor<128x96xbf16>
  %q, %s = fp8moe.mx_quantize %m along [0] mode rceil
      : tensor<128x96xbf16> -> tensor<128x96xf8E4M3FN>, tensor<96x4xf8E8M0FNU>
  %c = fp8moe.relayout %s : tensor<96x4xf8E8M0FNU> -> tensor<96x4xf8E8M0FNU, #col>
  return %c, %s : tensor<96x4xf8E8M0FNU, #col>, tensor<96x4xf8E8M0FNU>
}
}
