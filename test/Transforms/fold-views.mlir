// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fold-views))' | FileCheck %s
// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fold-views))' \
// RUN:   --remark-format=emitRemark --remarks-filter=fp8moe-layout -o /dev/null 2>&1 \
// RUN: | FileCheck %s --check-prefix=REMARK

#col = #fp8moe.strided<[1, 0]>
#ecol = #fp8moe.strided<[0, 2, 1]>

// A later reshape and transpose undo the first ones, so the last view is the argument itself. Every
// view becomes the shortest chain from the argument.

// CHECK-LABEL: func.func @inverse_chain
// CHECK-SAME: (%[[W:.*]]: tensor<8x64x?xbf16>)
func.func @inverse_chain(%w: tensor<8x64x?xbf16>)
    -> (tensor<8x64x?xbf16>, tensor<?x512xbf16, #col>,
        tensor<?x8x64xbf16, #fp8moe.strided<[1, 2, 0]>>) {
  // CHECK: %[[A:.*]] = fp8moe.reshape %[[W]]
  // CHECK: %[[B:.*]] = fp8moe.transpose %[[A]] [1, 0]
  // CHECK: %[[C:.*]] = fp8moe.transpose %[[W]] [2, 0, 1]
  // CHECK: return %[[W]], %[[B]], %[[C]]
  %a = fp8moe.reshape %w : tensor<8x64x?xbf16> -> tensor<512x?xbf16>
  %b = fp8moe.transpose %a [1, 0] : tensor<512x?xbf16> -> tensor<?x512xbf16, #col>
  %c = fp8moe.reshape %b
      : tensor<?x512xbf16, #col> -> tensor<?x8x64xbf16, #fp8moe.strided<[1, 2, 0]>>
  %d = fp8moe.transpose %c [1, 2, 0]
      : tensor<?x8x64xbf16, #fp8moe.strided<[1, 2, 0]>> -> tensor<8x64x?xbf16>
  return %d, %b, %c : tensor<8x64x?xbf16>, tensor<?x512xbf16, #col>,
                      tensor<?x8x64xbf16, #fp8moe.strided<[1, 2, 0]>>
}

// A copy between equal layouts is removed, and the chain before it is folded.

// CHECK-LABEL: func.func @inverse_chain_before_identity
func.func @inverse_chain_before_identity(%x: tensor<3x32x64xbf16>)
    -> (tensor<32x64xf32>) {
  // CHECK-NEXT: %[[S:.*]] = fp8moe.scale %arg0 along 0
  // CHECK-NEXT: return %[[S]]
  %a = fp8moe.reshape %x : tensor<3x32x64xbf16> -> tensor<96x64xbf16>
  %b = fp8moe.reshape %a : tensor<96x64xbf16> -> tensor<3x32x64xbf16>
  %c = fp8moe.contiguous %b : tensor<3x32x64xbf16> -> tensor<3x32x64xbf16>
  %s = fp8moe.scale %c along 0 rounding pow2 fp8 f8E4M3FN
      : tensor<3x32x64xbf16> -> tensor<32x64xf32>
  return %s : tensor<32x64xf32>
}

// A merge followed by a split elsewhere is no single reshape.

// CHECK-LABEL: func.func @other_split
func.func @other_split(%x: tensor<4x6xf32>) -> tensor<6x4xf32> {
  // CHECK-NEXT: %[[A:.*]] = fp8moe.reshape %arg0 : tensor<4x6xf32> -> tensor<24xf32>
  // CHECK-NEXT: %[[B:.*]] = fp8moe.reshape %[[A]] : tensor<24xf32> -> tensor<6x4xf32>
  // CHECK-NEXT: return %[[B]]
  // REMARK: fold-views.mlir:[[@LINE+2]]:8: remark: [Missed] reshape-kept
  %a = fp8moe.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
  %b = fp8moe.reshape %a : tensor<24xf32> -> tensor<6x4xf32>
  return %b : tensor<6x4xf32>
}

// A copy moves to the end of its chain of views, where it joins the next copy.

// CHECK-LABEL: func.func @copies_meet
func.func @copies_meet(%x: tensor<64x?xf32>) -> tensor<64x?xf32, #col> {
  // CHECK-NEXT: %[[C:.*]] = fp8moe.relayout %arg0 : tensor<64x?xf32> -> tensor<64x?xf32, #fp8moe.strided<[1, 0]>>
  // CHECK-NEXT: return %[[C]]
  %a = fp8moe.transpose %x [1, 0] : tensor<64x?xf32> -> tensor<?x64xf32, #col>
  %b = fp8moe.contiguous %a : tensor<?x64xf32, #col> -> tensor<?x64xf32>
  %c = fp8moe.transpose %b [1, 0] : tensor<?x64xf32> -> tensor<64x?xf32, #col>
  return %c : tensor<64x?xf32, #col>
}

// A copy with two users is not duplicated.

// CHECK-LABEL: func.func @shared_copy
func.func @shared_copy(%x: tensor<64x?xf32>)
    -> (tensor<64x?xf32, #col>, tensor<?x64xf32>) {
  // CHECK: %[[C:.*]] = fp8moe.contiguous
  // CHECK-NOT: fp8moe.{{contiguous|relayout}}
  // CHECK: return %{{.*}}, %[[C]]
  %a = fp8moe.transpose %x [1, 0] : tensor<64x?xf32> -> tensor<?x64xf32, #col>
  %b = fp8moe.contiguous %a : tensor<?x64xf32, #col> -> tensor<?x64xf32>
  %c = fp8moe.transpose %b [1, 0] : tensor<?x64xf32> -> tensor<64x?xf32, #col>
  return %c, %b : tensor<64x?xf32, #col>, tensor<?x64xf32>
}

// A copy before a loop does not move into it.

// CHECK-LABEL: func.func @copy_before_loop
func.func @copy_before_loop(%x: tensor<64x?xf32>, %n: index) {
  // CHECK: fp8moe.contiguous
  // CHECK: scf.for
  // CHECK-NOT: fp8moe.{{contiguous|relayout}}
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = fp8moe.transpose %x [1, 0] : tensor<64x?xf32> -> tensor<?x64xf32, #col>
  %b = fp8moe.contiguous %a : tensor<?x64xf32, #col> -> tensor<?x64xf32>
  scf.for %i = %c0 to %n step %c1 {
    %c = fp8moe.transpose %b [1, 0] : tensor<?x64xf32> -> tensor<64x?xf32, #col>
    func.call @user(%c) : (tensor<64x?xf32, #col>) -> ()
  }
  return
}
func.func private @user(tensor<64x?xf32, #col>)

// 3D weights cast as a matrix. The quantization reads [E, N, K] instead, which writes the scales in
// the final order. Their copy vanishes.

// CHECK-LABEL: func.func @weights_as_matrix
// CHECK-SAME: (%[[W:.*]]: tensor<8x64x128xbf16>)
func.func @weights_as_matrix(%w: tensor<8x64x128xbf16>)
    -> (tensor<8x64x128xf8E4M3FN, #fp8moe.strided<[2, 0, 1]>>, tensor<8x128x2xf8E8M0FNU>) {
  // CHECK-NEXT: %[[Q:.*]], %[[S:.*]] = fp8moe.mx_quantize %[[W]] along [1]
  // CHECK-NEXT: return %[[Q]], %[[S]]
  // REMARK: fold-views.mlir:[[@LINE+1]]:8: remark: [Passed] reshape-sunk
  %m = fp8moe.reshape %w : tensor<8x64x128xbf16> -> tensor<512x128xbf16>
  %q, %s = fp8moe.mx_quantize %m along [0] mode rceil : tensor<512x128xbf16>
      -> tensor<512x128xf8E4M3FN, #col>, tensor<128x16xf8E8M0FNU>
  %q3 = fp8moe.reshape %q : tensor<512x128xf8E4M3FN, #col>
      -> tensor<8x64x128xf8E4M3FN, #fp8moe.strided<[2, 0, 1]>>
  %s3 = fp8moe.reshape %s : tensor<128x16xf8E8M0FNU> -> tensor<128x8x2xf8E8M0FNU>
  %st = fp8moe.transpose %s3 [1, 0, 2] : tensor<128x8x2xf8E8M0FNU>
      -> tensor<8x128x2xf8E8M0FNU, #fp8moe.strided<[1, 0, 2]>>
  // REMARK: fold-views.mlir:[[@LINE+1]]:{{.*}} remark: [Passed] copy-removed
  %sc = fp8moe.contiguous %st : tensor<8x128x2xf8E8M0FNU, #fp8moe.strided<[1, 0, 2]>>
      -> tensor<8x128x2xf8E8M0FNU>
  return %q3, %sc : tensor<8x64x128xf8E4M3FN, #fp8moe.strided<[2, 0, 1]>>,
                    tensor<8x128x2xf8E8M0FNU>
}

// Blocks of 32 rows would span two experts of 48 rows, so the matrix form stays.

// CHECK-LABEL: func.func @blocks_cross_experts
func.func @blocks_cross_experts(%w: tensor<8x48x128xbf16>)
    -> tensor<8x48x128xf8E4M3FN> {
  // CHECK: mx_quantize %{{.*}} along [0] {{.*}} : tensor<384x128xbf16>
  %m = fp8moe.reshape %w : tensor<8x48x128xbf16> -> tensor<384x128xbf16>
  %q, %s = fp8moe.mx_quantize %m along [0] mode rceil : tensor<384x128xbf16>
      -> tensor<384x128xf8E4M3FN>, tensor<128x12xf8E8M0FNU>
  %q3 = fp8moe.reshape %q : tensor<384x128xf8E4M3FN> -> tensor<8x48x128xf8E4M3FN>
  return %q3 : tensor<8x48x128xf8E4M3FN>
}

// The scales are returned in the matrix form, and another form would need a copy.

// CHECK-LABEL: func.func @scales_of_matrix
func.func @scales_of_matrix(%w: tensor<8x64x128xbf16>)
    -> (tensor<8x64x128xf8E4M3FN>, tensor<128x16xf8E8M0FNU>) {
  // CHECK: mx_quantize %{{.*}} along [0]
  %m = fp8moe.reshape %w : tensor<8x64x128xbf16> -> tensor<512x128xbf16>
  %q, %s = fp8moe.mx_quantize %m along [0] mode rceil : tensor<512x128xbf16>
      -> tensor<512x128xf8E4M3FN>, tensor<128x16xf8E8M0FNU>
  %q3 = fp8moe.reshape %q : tensor<512x128xf8E4M3FN> -> tensor<8x64x128xf8E4M3FN>
  return %q3, %s : tensor<8x64x128xf8E4M3FN>, tensor<128x16xf8E8M0FNU>
}

// Batches of tokens are merged before a quantization and split after it: the reshapes vanish.

// CHECK-LABEL: func.func @merged_tokens
// CHECK-SAME: (%[[X:.*]]: tensor<8x?x128xbf16>)
func.func @merged_tokens(%x: tensor<8x?x128xbf16>)
    -> (tensor<8x?x128xf8E4M3FN>, tensor<8x?xf32>) {
  // CHECK-NEXT: %[[S:.*]] = fp8moe.scale %[[X]] along 2
  // CHECK-NEXT: %[[Q:.*]] = fp8moe.quantize %[[X]] by %[[S]] along 2
  // CHECK-NEXT: return %[[Q]], %[[S]]
  %m = fp8moe.reshape %x : tensor<8x?x128xbf16> -> tensor<?x128xbf16>
  %s = fp8moe.scale %m along 1 rounding pow2 fp8 f8E4M3FN : tensor<?x128xbf16> -> tensor<?xf32>
  %q = fp8moe.quantize %m by %s along 1
      : tensor<?x128xbf16>, tensor<?xf32> -> tensor<?x128xf8E4M3FN>
  %q3 = fp8moe.reshape %q : tensor<?x128xf8E4M3FN> -> tensor<8x?x128xf8E4M3FN>
  %s3 = fp8moe.reshape %s : tensor<?xf32> -> tensor<8x?xf32>
  return %q3, %s3 : tensor<8x?x128xf8E4M3FN>, tensor<8x?xf32>
}

// A reduction over the merged dimension does not equal one over a part of it.

// CHECK-LABEL: func.func @merged_axis
func.func @merged_axis(%x: tensor<8x64x128xbf16>)
    -> (tensor<8x64x128xf8E4M3FN>, tensor<128xf32>) {
  // CHECK: fp8moe.dynamic_quantize %{{.*}} along [0] {{.*}} : tensor<512x128xbf16>
  %m = fp8moe.reshape %x : tensor<8x64x128xbf16> -> tensor<512x128xbf16>
  %q, %s = fp8moe.dynamic_quantize %m along [0] rounding pow2
      : tensor<512x128xbf16> -> tensor<512x128xf8E4M3FN>, tensor<128xf32>
  %q3 = fp8moe.reshape %q : tensor<512x128xf8E4M3FN> -> tensor<8x64x128xf8E4M3FN>
  return %q3, %s : tensor<8x64x128xf8E4M3FN>, tensor<128xf32>
}

// A split and a merge stay two reshapes.

// CHECK-LABEL: func.func @split_and_merge
// CHECK-SAME:  (%[[X:.*]]: tensor<3x64xf32>)
// CHECK-NEXT:  %[[A:.*]] = fp8moe.reshape %[[X]] : tensor<3x64xf32> -> tensor<3x2x32xf32>
// CHECK-NEXT:  %[[B:.*]] = fp8moe.reshape %[[A]] : tensor<3x2x32xf32> -> tensor<6x32xf32>
// CHECK-NEXT:  return %[[B]]
func.func @split_and_merge(%x: tensor<3x64xf32>) -> tensor<6x32xf32> {
  %0 = fp8moe.reshape %x : tensor<3x64xf32> -> tensor<3x2x32xf32>
  %1 = fp8moe.relayout %0 : tensor<3x2x32xf32> -> tensor<3x2x32xf32, #fp8moe.strided<[2, 0, 1]>>
  %2 = fp8moe.relayout %1 : tensor<3x2x32xf32, #fp8moe.strided<[2, 0, 1]>> -> tensor<3x2x32xf32>
  %3 = fp8moe.reshape %2 : tensor<3x2x32xf32> -> tensor<6x32xf32>
  return %3 : tensor<6x32xf32>
}

// A copy between equal layouts is removed anywhere in a chain.

// CHECK-LABEL: func.func @identity
// CHECK-NOT:   relayout
// CHECK:       return
func.func @identity(%x: tensor<64x3xf32>) -> tensor<3x2x32xf32> {
  %0 = fp8moe.transpose %x [1, 0] : tensor<64x3xf32> -> tensor<3x64xf32, #col>
  %1 = fp8moe.relayout %0 : tensor<3x64xf32, #col> -> tensor<3x64xf32, #col>
  %2 = fp8moe.reshape %1 : tensor<3x64xf32, #col> -> tensor<3x2x32xf32, #fp8moe.strided<[1, 2, 0]>>
  %3 = fp8moe.contiguous %2 : tensor<3x2x32xf32, #fp8moe.strided<[1, 2, 0]>> -> tensor<3x2x32xf32>
  return %3 : tensor<3x2x32xf32>
}
