// RUN: fp8moe-opt %s | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --mlir-print-op-generic | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --emit-bytecode | fp8moe-opt | FileCheck %s

// CHECK-LABEL: func.func @transpose(
func.func @transpose(%x: tensor<?x2048xbf16>) -> tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>> {
  // CHECK: fp8moe.transpose %{{.*}} [1, 0] : tensor<?x2048xbf16> -> tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>>
  %t = fp8moe.transpose %x [1, 0] : tensor<?x2048xbf16> -> tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>>
  return %t : tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>>
}

// The transpose permutes dimensions [0, 1, 2] to [2, 0, 1]. The order in the layout is renamed
// alike.
// CHECK-LABEL: func.func @transpose_3d(
func.func @transpose_3d(%w: tensor<?x16x8xf32>) -> tensor<8x?x16xf32, #fp8moe.strided<[1, 2, 0]>> {
  // CHECK: fp8moe.transpose %{{.*}} [2, 0, 1]
  %t = fp8moe.transpose %w [2, 0, 1] : tensor<?x16x8xf32> -> tensor<8x?x16xf32, #fp8moe.strided<[1, 2, 0]>>
  return %t : tensor<8x?x16xf32, #fp8moe.strided<[1, 2, 0]>>
}

// Group padding and explicit strides follow their dimension.
// CHECK-LABEL: func.func @transpose_padded(
func.func @transpose_padded(%x: tensor<256x64xbf16, #fp8moe.strided<[0, 1], strides = [?, 1], align = 16, groups<dim = 0, pad = 128>>>) {
  // CHECK: -> tensor<64x256xbf16, #fp8moe.strided<[1, 0], strides = [1, ?], align = 16, groups<dim = 1, pad = 128>>>
  %t = fp8moe.transpose %x [1, 0]
      : tensor<256x64xbf16, #fp8moe.strided<[0, 1], strides = [?, 1], align = 16, groups<dim = 0, pad = 128>>>
      -> tensor<64x256xbf16, #fp8moe.strided<[1, 0], strides = [1, ?], align = 16, groups<dim = 1, pad = 128>>>
  return
}

// A view may promise less alignment than its input, and may spell equal strides differently.
// CHECK-LABEL: func.func @transpose_spellings(
func.func @transpose_spellings(%x: tensor<32x64xbf16, #fp8moe.strided<[0, 1], align = 128>>) {
  // CHECK: -> tensor<64x32xbf16, #fp8moe.strided<[1, 0], strides = [1, 64], align = 16>>
  %t = fp8moe.transpose %x [1, 0] : tensor<32x64xbf16, #fp8moe.strided<[0, 1], align = 128>>
      -> tensor<64x32xbf16, #fp8moe.strided<[1, 0], strides = [1, 64], align = 16>>
  return
}

// CHECK-LABEL: func.func @transpose_rank0(
func.func @transpose_rank0(%x: tensor<f32>) -> tensor<f32> {
  // CHECK: fp8moe.transpose %{{.*}} [] : tensor<f32> -> tensor<f32>
  %t = fp8moe.transpose %x [] : tensor<f32> -> tensor<f32>
  return %t : tensor<f32>
}

// Blocked scales have a fixed order: only the identity transpose is legal.
// CHECK-LABEL: func.func @transpose_blocked(
func.func @transpose_blocked(%s: tensor<?x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>) {
  // CHECK: fp8moe.transpose %{{.*}} [0, 1]
  %t = fp8moe.transpose %s [0, 1] : tensor<?x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
      -> tensor<?x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
  return
}

// CHECK-LABEL: func.func @reshape_merge(
func.func @reshape_merge(%w: tensor<64x2048x1408xbf16>) -> tensor<131072x1408xbf16> {
  // CHECK: fp8moe.reshape %{{.*}} : tensor<64x2048x1408xbf16> -> tensor<131072x1408xbf16>
  %r = fp8moe.reshape %w : tensor<64x2048x1408xbf16> -> tensor<131072x1408xbf16>
  return %r : tensor<131072x1408xbf16>
}

// CHECK-LABEL: func.func @reshape_split_dynamic(
func.func @reshape_split_dynamic(%x: tensor<?x8xi8>) -> tensor<?x64x8xi8> {
  // CHECK: fp8moe.reshape %{{.*}} : tensor<?x8xi8> -> tensor<?x64x8xi8>
  %r = fp8moe.reshape %x : tensor<?x8xi8> -> tensor<?x64x8xi8>
  return %r : tensor<?x64x8xi8>
}

// In a column-major matrix, both parts of the split rows stay inside the columns.
// CHECK-LABEL: func.func @reshape_column_major(
func.func @reshape_column_major(%x: tensor<12x?xf32, #fp8moe.strided<[1, 0]>>) {
  // CHECK: -> tensor<3x4x?xf32, #fp8moe.strided<[2, 0, 1]>>
  %r = fp8moe.reshape %x : tensor<12x?xf32, #fp8moe.strided<[1, 0]>> -> tensor<3x4x?xf32, #fp8moe.strided<[2, 0, 1]>>
  return
}

// Dimensions 0 and 1 merge although rows have a stride of 512: 4096 = 8 * 512.
// CHECK-LABEL: func.func @reshape_strided(
func.func @reshape_strided(%x: tensor<4x8x100xbf16, #fp8moe.strided<[0, 1, 2], strides = [4096, 512, 1], align = 16>>) {
  // CHECK: -> tensor<32x100xbf16, #fp8moe.strided<[0, 1], strides = [512, 1], align = 16>>
  %r = fp8moe.reshape %x : tensor<4x8x100xbf16, #fp8moe.strided<[0, 1, 2], strides = [4096, 512, 1], align = 16>>
      -> tensor<32x100xbf16, #fp8moe.strided<[0, 1], strides = [512, 1], align = 16>>
  return
}

// A reshape may add and drop dimensions of size 1, whatever their strides.
// CHECK-LABEL: func.func @reshape_ones(
func.func @reshape_ones(%x: tensor<1x4x1x8xf32, #fp8moe.strided<[0, 1, 3, 2], strides = [?, 16, 1, 2]>>) {
  // CHECK: -> tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [16, 2]>>
  %r = fp8moe.reshape %x : tensor<1x4x1x8xf32, #fp8moe.strided<[0, 1, 3, 2], strides = [?, 16, 1, 2]>>
      -> tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [16, 2]>>
  // CHECK: -> tensor<4x1x8xf32, #fp8moe.strided<[0, 1, 2], strides = [16, 16, 2]>>
  %s = fp8moe.reshape %r : tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [16, 2]>>
      -> tensor<4x1x8xf32, #fp8moe.strided<[0, 1, 2], strides = [16, 16, 2]>>
  return
}

// CHECK-LABEL: func.func @reshape_empty(
func.func @reshape_empty(%x: tensor<0x8xf32>) -> tensor<0xf32> {
  // CHECK: fp8moe.reshape %{{.*}} : tensor<0x8xf32> -> tensor<0xf32>
  %r = fp8moe.reshape %x : tensor<0x8xf32> -> tensor<0xf32>
  return %r : tensor<0xf32>
}

// CHECK-LABEL: func.func @contiguous(
func.func @contiguous(%x: tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>>) -> tensor<2048x?xbf16> {
  // CHECK: fp8moe.contiguous %{{.*}} : tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>> -> tensor<2048x?xbf16>
  %c = fp8moe.contiguous %x : tensor<2048x?xbf16, #fp8moe.strided<[1, 0]>> -> tensor<2048x?xbf16>
  return %c : tensor<2048x?xbf16>
}

// A copy may promise a higher alignment than its input.
// CHECK-LABEL: func.func @contiguous_aligned(
func.func @contiguous_aligned(%x: tensor<?x64xbf16, #fp8moe.strided<[0, 1], strides = [?, ?]>>) {
  // CHECK: -> tensor<?x64xbf16, #fp8moe.strided<[0, 1], align = 128>>
  %c = fp8moe.contiguous %x : tensor<?x64xbf16, #fp8moe.strided<[0, 1], strides = [?, ?]>>
      -> tensor<?x64xbf16, #fp8moe.strided<[0, 1], align = 128>>
  return
}

// CHECK-LABEL: func.func @relayout(
func.func @relayout(%x: tensor<?x2048xbf16>) -> tensor<?x2048xbf16, #fp8moe.strided<[1, 0]>> {
  // CHECK: fp8moe.relayout %{{.*}} : tensor<?x2048xbf16> -> tensor<?x2048xbf16, #fp8moe.strided<[1, 0]>>
  %r = fp8moe.relayout %x : tensor<?x2048xbf16> -> tensor<?x2048xbf16, #fp8moe.strided<[1, 0]>>
  return %r : tensor<?x2048xbf16, #fp8moe.strided<[1, 0]>>
}

// The padded extent is round_up(512 + 4 * 127, 128) = 1024.
// CHECK-LABEL: func.func @relayout_pad_and_pack(
func.func @relayout_pad_and_pack(%x: tensor<512x8xf32>, %ends: tensor<4xi32>) -> tensor<512x8xf32> {
  // CHECK: fp8moe.relayout %{{.*}} groups(%{{.*}} : tensor<4xi32>) : tensor<512x8xf32> -> tensor<1024x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 128>>>
  %p = fp8moe.relayout %x groups(%ends : tensor<4xi32>) : tensor<512x8xf32>
      -> tensor<1024x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 128>>>
  // CHECK: fp8moe.relayout %{{.*}} groups(%{{.*}} : tensor<4xi32>)
  %u = fp8moe.relayout %p groups(%ends : tensor<4xi32>)
      : tensor<1024x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 128>>> -> tensor<512x8xf32>
  return %u : tensor<512x8xf32>
}

// Both sides have equally padded groups, so the copy covers the padded extent and needs no offsets.
// CHECK-LABEL: func.func @relayout_padded(
func.func @relayout_padded(%x: tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>) {
  // CHECK: -> tensor<?x8xf32, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>>
  %r = fp8moe.relayout %x : tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
      -> tensor<?x8xf32, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>>
  return
}

// CHECK-LABEL: func.func @relayout_blocked(
func.func @relayout_blocked(%s: tensor<8x?x64xf8E8M0FNU>) -> tensor<8x?x64xf8E8M0FNU> {
  // CHECK: -> tensor<8x?x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
  %b = fp8moe.relayout %s : tensor<8x?x64xf8E8M0FNU> -> tensor<8x?x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
  // CHECK: -> tensor<8x?x64xf8E8M0FNU>
  %p = fp8moe.relayout %b : tensor<8x?x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>> -> tensor<8x?x64xf8E8M0FNU>
  return %p : tensor<8x?x64xf8E8M0FNU>
}
