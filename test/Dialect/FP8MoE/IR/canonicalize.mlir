// RUN: fp8moe-opt %s --canonicalize | FileCheck %s

//===----------------------------------------------------------------------===//
// transpose
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @transpose_identity(
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32>
// CHECK-NEXT: return %[[X]]
func.func @transpose_identity(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %t = fp8moe.transpose %x [0, 1] : tensor<?x8xf32> -> tensor<?x8xf32>
  return %t : tensor<?x8xf32>
}

// An identity transpose that drops the alignment stays. Its users were verified against the weaker
// type.
// CHECK-LABEL: func.func @transpose_identity_other_type(
// CHECK: fp8moe.transpose
func.func @transpose_identity_other_type(%x: tensor<?x8xf32, #fp8moe.strided<[0, 1], align = 16>>) -> tensor<?x8xf32> {
  %t = fp8moe.transpose %x [0, 1] : tensor<?x8xf32, #fp8moe.strided<[0, 1], align = 16>> -> tensor<?x8xf32>
  return %t : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @transpose_back(
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32
// CHECK-NEXT: return %[[X]]
func.func @transpose_back(%x: tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>)
    -> tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>> {
  %t = fp8moe.transpose %x [1, 0] : tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
      -> tensor<8x?xf32, #fp8moe.strided<[1, 0], groups<dim = 1, pad = 16>>>
  %u = fp8moe.transpose %t [1, 0] : tensor<8x?xf32, #fp8moe.strided<[1, 0], groups<dim = 1, pad = 16>>>
      -> tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
  return %u : tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
}

// Composing: result dimension i is dimension [1, 2, 0][[2, 1, 0][i]] of the input.
// CHECK-LABEL: func.func @transpose_compose(
// CHECK-SAME: %[[X:.*]]: tensor<4x5x6xf32>
// CHECK-NEXT: %[[T:.*]] = fp8moe.transpose %[[X]] [0, 2, 1] : tensor<4x5x6xf32> -> tensor<4x6x5xf32, #fp8moe.strided<[0, 2, 1]>>
// CHECK-NEXT: return %[[T]]
func.func @transpose_compose(%x: tensor<4x5x6xf32>) -> tensor<4x6x5xf32, #fp8moe.strided<[0, 2, 1]>> {
  %t = fp8moe.transpose %x [1, 2, 0] : tensor<4x5x6xf32> -> tensor<5x6x4xf32, #fp8moe.strided<[2, 0, 1]>>
  %u = fp8moe.transpose %t [2, 1, 0] : tensor<5x6x4xf32, #fp8moe.strided<[2, 0, 1]>> -> tensor<4x6x5xf32, #fp8moe.strided<[0, 2, 1]>>
  return %u : tensor<4x6x5xf32, #fp8moe.strided<[0, 2, 1]>>
}

//===----------------------------------------------------------------------===//
// reshape
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @reshape_identity(
// CHECK-SAME: %[[X:.*]]: tensor<?x?xf32>
// CHECK-NEXT: return %[[X]]
func.func @reshape_identity(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = fp8moe.reshape %x : tensor<?x?xf32> -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @reshape_back(
// CHECK-SAME: %[[X:.*]]: tensor<?x64x8xf32>
// CHECK-NEXT: return %[[X]]
func.func @reshape_back(%x: tensor<?x64x8xf32>) -> tensor<?x64x8xf32> {
  %r = fp8moe.reshape %x : tensor<?x64x8xf32> -> tensor<?x8xf32>
  %s = fp8moe.reshape %r : tensor<?x8xf32> -> tensor<?x64x8xf32>
  return %s : tensor<?x64x8xf32>
}

// CHECK-LABEL: func.func @reshape_compose(
// CHECK-SAME: %[[X:.*]]: tensor<4x6x8xf32>
// CHECK-NEXT: %[[R:.*]] = fp8moe.reshape %[[X]] : tensor<4x6x8xf32> -> tensor<192xf32>
// CHECK-NEXT: return %[[R]]
func.func @reshape_compose(%x: tensor<4x6x8xf32>) -> tensor<192xf32> {
  %r = fp8moe.reshape %x : tensor<4x6x8xf32> -> tensor<24x8xf32>
  %s = fp8moe.reshape %r : tensor<24x8xf32> -> tensor<192xf32>
  return %s : tensor<192xf32>
}

// No single reshape from 4x6 to 3x8 is legal, so both stay.
// CHECK-LABEL: func.func @reshape_no_direct_way(
// CHECK-COUNT-2: fp8moe.reshape
func.func @reshape_no_direct_way(%x: tensor<4x6xf32>) -> tensor<3x8xf32> {
  %r = fp8moe.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
  %s = fp8moe.reshape %r : tensor<24xf32> -> tensor<3x8xf32>
  return %s : tensor<3x8xf32>
}

// With two dynamic sizes, a single reshape might split differently, so both stay.
// CHECK-LABEL: func.func @reshape_two_unknown(
// CHECK-COUNT-2: fp8moe.reshape
func.func @reshape_two_unknown(%x: tensor<?x?x8xf32>) -> tensor<?x?x8xf32> {
  %r = fp8moe.reshape %x : tensor<?x?x8xf32> -> tensor<?x?x2x4xf32>
  %s = fp8moe.reshape %r : tensor<?x?x2x4xf32> -> tensor<?x?x8xf32>
  return %s : tensor<?x?x8xf32>
}

//===----------------------------------------------------------------------===//
// contiguous, relayout
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @contiguous_of_row_major(
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32>
// CHECK-NEXT: return %[[X]]
func.func @contiguous_of_row_major(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c = fp8moe.contiguous %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %c : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @contiguous_is_relayout(
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32, #{{.*}}>
// CHECK-NEXT: %[[R:.*]] = fp8moe.relayout %[[X]] : tensor<?x8xf32, #{{.*}}> -> tensor<?x8xf32>
// CHECK-NEXT: return %[[R]]
func.func @contiguous_is_relayout(%x: tensor<?x8xf32, #fp8moe.strided<[1, 0]>>) -> tensor<?x8xf32> {
  %c = fp8moe.contiguous %x : tensor<?x8xf32, #fp8moe.strided<[1, 0]>> -> tensor<?x8xf32>
  return %c : tensor<?x8xf32>
}

// A dimension of size 1 may have an unknown stride: the copy is dense all the same.
// CHECK-LABEL: func.func @contiguous_one_row(
// CHECK: fp8moe.relayout %{{.*}} -> tensor<1x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>
func.func @contiguous_one_row(%x: tensor<1x8xf32, #fp8moe.strided<[0, 1], strides = [16, 2]>>)
    -> tensor<1x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>> {
  %c = fp8moe.contiguous %x : tensor<1x8xf32, #fp8moe.strided<[0, 1], strides = [16, 2]>>
      -> tensor<1x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>
  return %c : tensor<1x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>
}

// A dense copy of a tensor with unknown strides stays, as the tensor may not be dense.
// CHECK-LABEL: func.func @contiguous_unknown_pitch(
// CHECK: fp8moe.relayout
func.func @contiguous_unknown_pitch(%x: tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>) -> tensor<4x8xf32> {
  %c = fp8moe.contiguous %x : tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>> -> tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @relayout_identity(
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32, #{{.*}}>
// CHECK-NEXT: return %[[X]]
func.func @relayout_identity(%x: tensor<?x8xf32, #fp8moe.strided<[1, 0]>>) -> tensor<?x8xf32, #fp8moe.strided<[1, 0]>> {
  %r = fp8moe.relayout %x : tensor<?x8xf32, #fp8moe.strided<[1, 0]>> -> tensor<?x8xf32, #fp8moe.strided<[1, 0]>>
  return %r : tensor<?x8xf32, #fp8moe.strided<[1, 0]>>
}

// The result's type promises a higher alignment than the input's, so the copy stays.
// CHECK-LABEL: func.func @relayout_alignment(
// CHECK: fp8moe.relayout
func.func @relayout_alignment(%x: tensor<?x8xf32>) -> tensor<?x8xf32, #fp8moe.strided<[0, 1], align = 32>> {
  %r = fp8moe.relayout %x : tensor<?x8xf32> -> tensor<?x8xf32, #fp8moe.strided<[0, 1], align = 32>>
  return %r : tensor<?x8xf32, #fp8moe.strided<[0, 1], align = 32>>
}

// CHECK-LABEL: func.func @relayout_compose(
// CHECK-SAME: %[[X:.*]]: tensor<4x5x6xf32>
// CHECK-NEXT: %[[R:.*]] = fp8moe.relayout %[[X]] : tensor<4x5x6xf32> -> tensor<4x5x6xf32, #fp8moe.strided<[0, 2, 1]>>
// CHECK-NEXT: return %[[R]]
func.func @relayout_compose(%x: tensor<4x5x6xf32>) -> tensor<4x5x6xf32, #fp8moe.strided<[0, 2, 1]>> {
  %r = fp8moe.relayout %x : tensor<4x5x6xf32> -> tensor<4x5x6xf32, #fp8moe.strided<[2, 1, 0]>>
  %s = fp8moe.relayout %r : tensor<4x5x6xf32, #fp8moe.strided<[2, 1, 0]>> -> tensor<4x5x6xf32, #fp8moe.strided<[0, 2, 1]>>
  return %s : tensor<4x5x6xf32, #fp8moe.strided<[0, 2, 1]>>
}

// A copy to another layout and back cancels out.
// CHECK-LABEL: func.func @relayout_back(
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf8E8M0FNU>
// CHECK-NEXT: return %[[X]]
func.func @relayout_back(%x: tensor<?x64xf8E8M0FNU>) -> tensor<?x64xf8E8M0FNU> {
  %r = fp8moe.relayout %x : tensor<?x64xf8E8M0FNU> -> tensor<?x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
  %s = fp8moe.relayout %r : tensor<?x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>> -> tensor<?x64xf8E8M0FNU>
  return %s : tensor<?x64xf8E8M0FNU>
}

// Padding groups and packing them again stays, as it zeroes the rows that belong to no group.
// CHECK-LABEL: func.func @relayout_pad_and_pack(
// CHECK-COUNT-2: fp8moe.relayout %{{.*}} groups(
func.func @relayout_pad_and_pack(%x: tensor<512x8xf32>, %ends: tensor<4xi32>) -> tensor<512x8xf32> {
  %p = fp8moe.relayout %x groups(%ends : tensor<4xi32>) : tensor<512x8xf32>
      -> tensor<1024x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 128>>>
  %u = fp8moe.relayout %p groups(%ends : tensor<4xi32>)
      : tensor<1024x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 128>>> -> tensor<512x8xf32>
  return %u : tensor<512x8xf32>
}

// A relayout that pads or packs groups can read and write any order. It absorbs the relayout before
// it.
// CHECK-LABEL: func.func @relayout_then_pad(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[ENDS:.*]]: tensor<3xi32>)
// CHECK-NEXT: %[[P:.*]] = fp8moe.relayout %[[X]] groups(%[[ENDS]] : tensor<3xi32>) : tensor<4x8xf32> -> tensor<8x8xf32, #{{.*}}>
// CHECK-NEXT: return %[[P]]
func.func @relayout_then_pad(%x: tensor<4x8xf32>, %ends: tensor<3xi32>)
    -> tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>> {
  %r = fp8moe.relayout %x : tensor<4x8xf32> -> tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
  %p = fp8moe.relayout %r groups(%ends : tensor<3xi32>) : tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
      -> tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
  return %p : tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
}

// CHECK-LABEL: func.func @pack_then_relayout(
// CHECK-SAME: %[[X:.*]]: tensor<8x8xf32, #{{.*}}>, %[[ENDS:.*]]: tensor<3xi32>)
// CHECK-NEXT: %[[P:.*]] = fp8moe.relayout %[[X]] groups(%[[ENDS]] : tensor<3xi32>) : tensor<8x8xf32, #{{.*}}> -> tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
// CHECK-NEXT: return %[[P]]
func.func @pack_then_relayout(%x: tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>, %ends: tensor<3xi32>)
    -> tensor<4x8xf32, #fp8moe.strided<[1, 0]>> {
  %p = fp8moe.relayout %x groups(%ends : tensor<3xi32>)
      : tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>> -> tensor<4x8xf32>
  %r = fp8moe.relayout %p : tensor<4x8xf32> -> tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
  return %r : tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
}

// The padded tensor has another user: padding a second time would not save a copy.
// CHECK-LABEL: func.func @pad_shared(
// CHECK: fp8moe.relayout %{{.*}} groups(
// CHECK: fp8moe.relayout %{{.*}} : tensor<8x8xf32, #{{.*}}> -> tensor<8x8xf32, #{{.*}}>
func.func @pad_shared(%x: tensor<4x8xf32>, %ends: tensor<3xi32>)
    -> (tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>,
        tensor<8x8xf32, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 2>>>) {
  %p = fp8moe.relayout %x groups(%ends : tensor<3xi32>) : tensor<4x8xf32>
      -> tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
  %r = fp8moe.relayout %p : tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
      -> tensor<8x8xf32, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 2>>>
  return %p, %r : tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>,
      tensor<8x8xf32, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 2>>>
}

// Padding and tiling scales stay two operations, as no relayout does both.
// CHECK-LABEL: func.func @pad_then_tiles(
// CHECK-COUNT-2: fp8moe.relayout
func.func @pad_then_tiles(%x: tensor<256x4xf8E8M0FNU>, %ends: tensor<2xi32>)
    -> tensor<512x4xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>> {
  %p = fp8moe.relayout %x groups(%ends : tensor<2xi32>) : tensor<256x4xf8E8M0FNU>
      -> tensor<512x4xf8E8M0FNU, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 128>>>
  %t = fp8moe.relayout %p : tensor<512x4xf8E8M0FNU, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 128>>>
      -> tensor<512x4xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
  return %t : tensor<512x4xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
}

// PyTorch's .t().contiguous().t() becomes one view and one copy.
// CHECK-LABEL: func.func @transpose_contiguous_transpose(
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32>
// CHECK-NEXT: %[[T:.*]] = fp8moe.transpose %[[X]] [1, 0]
// CHECK-NEXT: %[[R:.*]] = fp8moe.relayout %[[T]] : tensor<8x?xf32, #{{.*}}> -> tensor<8x?xf32>
// CHECK-NEXT: %[[U:.*]] = fp8moe.transpose %[[R]] [1, 0]
// CHECK-NEXT: return %[[U]]
func.func @transpose_contiguous_transpose(%x: tensor<?x8xf32>) -> tensor<?x8xf32, #fp8moe.strided<[1, 0]>> {
  %t = fp8moe.transpose %x [1, 0] : tensor<?x8xf32> -> tensor<8x?xf32, #fp8moe.strided<[1, 0]>>
  %c = fp8moe.contiguous %t : tensor<8x?xf32, #fp8moe.strided<[1, 0]>> -> tensor<8x?xf32>
  %u = fp8moe.transpose %c [1, 0] : tensor<8x?xf32> -> tensor<?x8xf32, #fp8moe.strided<[1, 0]>>
  return %u : tensor<?x8xf32, #fp8moe.strided<[1, 0]>>
}

// No operation has side effects, so operations without users are erased.
// CHECK-LABEL: func.func @unused(
// CHECK-NEXT: return
func.func @unused(%x: tensor<?x64xbf16>, %ends: tensor<4xi32>) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<4xi32>) along [0] rounding pow2 : tensor<?x64xbf16>
      -> tensor<?x64x!fp8moe.e4m3>, tensor<4x64xf32>
  return
}
