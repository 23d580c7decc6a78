// RUN: fp8moe-opt %s | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --mlir-print-op-generic | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --emit-bytecode | fp8moe-opt | FileCheck %s

#colMajor = #fp8moe.strided<[1, 0]>
#perExpertColMajor = #fp8moe.strided<[0, 2, 1]>

// CHECK-LABEL: func.func @scale(
func.func @scale(%x: tensor<?x2048xbf16>, %y: tensor<4x?x8xf32, #perExpertColMajor>) {
  // CHECK: fp8moe.scale %{{.*}} along 1 rounding pow2 fp8 !fp8moe.e4m3 : tensor<?x2048xbf16> -> tensor<?xf32>
  %0 = fp8moe.scale %x along 1 rounding pow2 fp8 !fp8moe.e4m3 : tensor<?x2048xbf16> -> tensor<?xf32>
  // CHECK: fp8moe.scale %{{.*}} along 0 rounding none fp8 !fp8moe.e5m2 : tensor<?x2048xbf16> -> tensor<2048xf32>
  %1 = fp8moe.scale %x along 0 rounding none fp8 !fp8moe.e5m2 : tensor<?x2048xbf16> -> tensor<2048xf32>
  // CHECK: fp8moe.scale %{{.*}} along 1 rounding none fp8 f8E4M3FNUZ : tensor<4x?x8xf32, #{{.*}}> -> tensor<4x8xf32>
  %2 = fp8moe.scale %y along 1 rounding none fp8 f8E4M3FNUZ : tensor<4x?x8xf32, #perExpertColMajor> -> tensor<4x8xf32>
  return
}

// A 1-D input has one scale, a tensor of rank 0.
// CHECK-LABEL: func.func @scale_vector(
func.func @scale_vector(%x: tensor<?xf32>) -> tensor<f32> {
  // CHECK: fp8moe.scale %{{.*}} along 0 rounding pow2 fp8 f8E5M2FNUZ : tensor<?xf32> -> tensor<f32>
  %0 = fp8moe.scale %x along 0 rounding pow2 fp8 f8E5M2FNUZ : tensor<?xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @jagged_scale(
func.func @jagged_scale(%x: tensor<?x128xbf16>, %y: tensor<128x?xbf16>, %ends: tensor<64xi32>, %any: tensor<?xi32>) {
  // CHECK: fp8moe.jagged_scale %{{.*}} groups(%{{.*}} : tensor<64xi32>) along 0 rounding pow2 fp8 f8E4M3FN : tensor<?x128xbf16> -> tensor<64x128xf32>
  %0 = fp8moe.jagged_scale %x groups(%ends : tensor<64xi32>) along 0 rounding pow2 fp8 f8E4M3FN
      : tensor<?x128xbf16> -> tensor<64x128xf32>
  // CHECK: fp8moe.jagged_scale %{{.*}} groups(%{{.*}} : tensor<?xi32>) along 1 rounding none fp8 f8E5M2 : tensor<128x?xbf16> -> tensor<?x128xf32>
  %1 = fp8moe.jagged_scale %y groups(%any : tensor<?xi32>) along 1 rounding none fp8 f8E5M2
      : tensor<128x?xbf16> -> tensor<?x128xf32>
  return
}

// CHECK-LABEL: func.func @quantize(
func.func @quantize(%x: tensor<?x128xbf16, #colMajor>, %rows: tensor<?xf32>, %groups: tensor<8x128xf32>, %ends: tensor<8xi32>) {
  // CHECK: fp8moe.quantize %{{.*}} by %{{.*}} along 1 : tensor<?x128xbf16, #{{.*}}>, tensor<?xf32> -> tensor<?x128x!fp8moe.e4m3>
  %0 = fp8moe.quantize %x by %rows along 1 : tensor<?x128xbf16, #colMajor>, tensor<?xf32> -> tensor<?x128x!fp8moe.e4m3>
  // CHECK: fp8moe.quantize %{{.*}} by %{{.*}} along 0 groups(%{{.*}} : tensor<8xi32>) : tensor<?x128xbf16, #{{.*}}>, tensor<8x128xf32> -> tensor<?x128xf8E5M2, #{{.*}}>
  %1 = fp8moe.quantize %x by %groups along 0 groups(%ends : tensor<8xi32>)
      : tensor<?x128xbf16, #colMajor>, tensor<8x128xf32> -> tensor<?x128xf8E5M2, #colMajor>
  return
}

// CHECK-LABEL: func.func @dequantize(
func.func @dequantize(%q: tensor<?x128xf8E4M3FN>, %rows: tensor<?xf32>, %groups: tensor<8x128xf32>, %ends: tensor<8xi32>) {
  // CHECK: fp8moe.dequantize %{{.*}} by %{{.*}} along 1 direction quantize : tensor<?x128xf8E4M3FN>, tensor<?xf32> -> tensor<?x128xbf16>
  %0 = fp8moe.dequantize %q by %rows along 1 direction quantize : tensor<?x128xf8E4M3FN>, tensor<?xf32> -> tensor<?x128xbf16>
  // CHECK: fp8moe.dequantize %{{.*}} by %{{.*}} along 0 groups(%{{.*}} : tensor<8xi32>) direction dequantize : tensor<?x128xf8E4M3FN>, tensor<8x128xf32> -> tensor<?x128xf32>
  %1 = fp8moe.dequantize %q by %groups along 0 groups(%ends : tensor<8xi32>) direction dequantize
      : tensor<?x128xf8E4M3FN>, tensor<8x128xf32> -> tensor<?x128xf32>
  return
}

// CHECK-LABEL: func.func @dynamic_quantize(
func.func @dynamic_quantize(%x: tensor<?x128xbf16>, %w: tensor<4x16x8xbf16, #perExpertColMajor>) {
  // CHECK: fp8moe.dynamic_quantize %{{.*}} along [1] rounding pow2 : tensor<?x128xbf16> -> tensor<?x128x!fp8moe.e4m3>, tensor<?xf32>
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<?x128xbf16> -> tensor<?x128x!fp8moe.e4m3>, tensor<?xf32>
  // Two axes with different FP8 types: both data come before both scales.
  // CHECK: fp8moe.dynamic_quantize %{{.*}} along [1, 0] rounding none tiles [#fp8moe.two_pass<columns = 64, threads = 256>] : tensor<?x128xbf16> -> tensor<?x128x!fp8moe.e4m3>, tensor<?x128x!fp8moe.e5m2, #{{.*}}>, tensor<?xf32>, tensor<128xf32>
  %q0, %q1, %s0, %s1 = fp8moe.dynamic_quantize %x along [1, 0] rounding none tiles [#fp8moe.two_pass<columns = 64, threads = 256>] : tensor<?x128xbf16>
      -> tensor<?x128x!fp8moe.e4m3>, tensor<?x128x!fp8moe.e5m2, #colMajor>, tensor<?xf32>, tensor<128xf32>
  // CHECK: fp8moe.dynamic_quantize %{{.*}} along [2] {{.*}} -> tensor<4x16x8xf8E4M3FN>, tensor<4x16xf32>
  %q2, %s2 = fp8moe.dynamic_quantize %w along [2] rounding pow2
      : tensor<4x16x8xbf16, #perExpertColMajor> -> tensor<4x16x8xf8E4M3FN>, tensor<4x16xf32>
  return
}

// CHECK-LABEL: func.func @jagged_dynamic_quantize(
func.func @jagged_dynamic_quantize(%x: tensor<?x128xf32>, %y: tensor<128x?xbf16>, %ends: tensor<8xi32>) {
  // CHECK: fp8moe.jagged_dynamic_quantize %{{.*}} groups(%{{.*}} : tensor<8xi32>) along [0] rounding pow2 : tensor<?x128xf32> -> tensor<?x128x!fp8moe.e4m3, #{{.*}}>, tensor<8x128xf32>
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2 : tensor<?x128xf32>
      -> tensor<?x128x!fp8moe.e4m3, #colMajor>, tensor<8x128xf32>
  // CHECK: fp8moe.jagged_dynamic_quantize %{{.*}} along [0, 1] rounding none tiles [#fp8moe.two_pass<columns = 32, threads = 128>]
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0, 1] rounding none
      tiles [#fp8moe.two_pass<columns = 32, threads = 128>] : tensor<?x128xf32>
      -> tensor<?x128x!fp8moe.e4m3, #colMajor>, tensor<?x128x!fp8moe.e4m3>, tensor<8x128xf32>, tensor<?xf32>
  // CHECK: fp8moe.jagged_dynamic_quantize %{{.*}} along [1] rounding pow2 : tensor<128x?xbf16> -> tensor<128x?x!fp8moe.e4m3>, tensor<8x128xf32>
  %q2, %s2 = fp8moe.jagged_dynamic_quantize %y groups(%ends : tensor<8xi32>) along [1] rounding pow2 : tensor<128x?xbf16>
      -> tensor<128x?x!fp8moe.e4m3>, tensor<8x128xf32>
  return
}

// The padded extent is round_up(100 + 8 * 15, 16) = 224.
// CHECK-LABEL: func.func @jagged_dynamic_quantize_padded(
func.func @jagged_dynamic_quantize_padded(%x: tensor<100x128xf32>, %ends: tensor<8xi32>) {
  // CHECK: -> tensor<224x128xf8E4M3FN, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>>, tensor<8x128xf32>
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2 : tensor<100x128xf32>
      -> tensor<224x128xf8E4M3FN, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>>, tensor<8x128xf32>
  return
}

// CHECK-LABEL: func.func @mx_quantize(
func.func @mx_quantize(%x: tensor<?x80xbf16>, %w: tensor<4x64x16xf32>) {
  // CHECK: fp8moe.mx_quantize %{{.*}} along [1] mode rceil : tensor<?x80xbf16> -> tensor<?x80x!fp8moe.e4m3>, tensor<?x3xf8E8M0FNU>
  %q0, %s0 = fp8moe.mx_quantize %x along [1] mode rceil : tensor<?x80xbf16> -> tensor<?x80x!fp8moe.e4m3>, tensor<?x3xf8E8M0FNU>
  // CHECK: fp8moe.mx_quantize %{{.*}} along [0] mode floor : tensor<?x80xbf16> -> tensor<?x80xf8E5M2, #{{.*}}>, tensor<80x?xf8E8M0FNU, #{{.*}}>
  %q1, %s1 = fp8moe.mx_quantize %x along [0] mode floor : tensor<?x80xbf16>
      -> tensor<?x80xf8E5M2, #colMajor>, tensor<80x?xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
  // CHECK: fp8moe.mx_quantize %{{.*}} along [1] mode rceil : tensor<4x64x16xf32> -> tensor<4x64x16xf8E4M3FN, #{{.*}}>, tensor<4x16x2xf8E8M0FNU>
  %q2, %s2 = fp8moe.mx_quantize %w along [1] mode rceil : tensor<4x64x16xf32>
      -> tensor<4x64x16xf8E4M3FN, #perExpertColMajor>, tensor<4x16x2xf8E8M0FNU>
  return
}

// The padded extent is round_up(1000 + 4 * 127, 128) = 1536.
// CHECK-LABEL: func.func @mx_quantize_groups(
func.func @mx_quantize_groups(%x: tensor<1000x80xbf16>, %ends: tensor<4xi32>) {
  // CHECK: fp8moe.mx_quantize %{{.*}} along [1] mode rceil groups(%{{.*}} : tensor<4xi32>) {{.*}} tensor<1536x3xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
  %q0, %s0 = fp8moe.mx_quantize %x along [1] mode rceil groups(%ends : tensor<4xi32>) : tensor<1000x80xbf16>
      -> tensor<1000x80xf8E4M3FN>, tensor<1536x3xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
  // CHECK: fp8moe.mx_quantize %{{.*}} along [0] mode rceil groups(%{{.*}} : tensor<4xi32>) {{.*}} tensor<80x48xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>>
  %q1, %s1 = fp8moe.mx_quantize %x along [0] mode rceil groups(%ends : tensor<4xi32>) : tensor<1000x80xbf16>
      -> tensor<1000x80xf8E4M3FN>, tensor<80x48xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>>
  return
}

// CHECK-LABEL: func.func @mx_quantize_both(
func.func @mx_quantize_both(%x: tensor<?x80xbf16>, %w: tensor<4x64x32xf32>) {
  // CHECK: fp8moe.mx_quantize %{{.*}} along [0, 1] mode ceil : tensor<?x80xbf16> -> tensor<?x80x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<?x80x!fp8moe.e4m3>, tensor<80x?xf8E8M0FNU>, tensor<?x3xf8E8M0FNU>
  %0:4 = fp8moe.mx_quantize %x along [0, 1] mode ceil : tensor<?x80xbf16>
      -> tensor<?x80x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<?x80x!fp8moe.e4m3>, tensor<80x?xf8E8M0FNU>, tensor<?x3xf8E8M0FNU>
  // CHECK: fp8moe.mx_quantize %{{.*}} along [2] mode even square : tensor<4x64x32xf32> -> tensor<4x64x32x!fp8moe.e5m2>, tensor<4x64x1xf8E8M0FNU>
  %1:2 = fp8moe.mx_quantize %w along [2] mode even square : tensor<4x64x32xf32>
      -> tensor<4x64x32x!fp8moe.e5m2>, tensor<4x64x1xf8E8M0FNU>
  return
}

// CHECK-LABEL: func.func @mx_dequantize(
func.func @mx_dequantize(%q: tensor<1000x80x!fp8moe.e4m3>, %s: tensor<1000x3xf8E8M0FNU>,
                         %t: tensor<1536x3xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>,
                         %ends: tensor<4xi32>) {
  // CHECK: fp8moe.mx_dequantize %{{.*}} by %{{.*}} along 1 : tensor<1000x80x!fp8moe.e4m3>, tensor<1000x3xf8E8M0FNU> -> tensor<1000x80xbf16>
  %0 = fp8moe.mx_dequantize %q by %s along 1 : tensor<1000x80x!fp8moe.e4m3>, tensor<1000x3xf8E8M0FNU> -> tensor<1000x80xbf16>
  // CHECK: fp8moe.mx_dequantize %{{.*}} by %{{.*}} along 1 groups(%{{.*}} : tensor<4xi32>)
  %1 = fp8moe.mx_dequantize %q by %t along 1 groups(%ends : tensor<4xi32>)
      : tensor<1000x80x!fp8moe.e4m3>, tensor<1536x3xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>> -> tensor<1000x80xf32>
  return
}
