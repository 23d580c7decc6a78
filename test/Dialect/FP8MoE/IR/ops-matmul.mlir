// RUN: fp8moe-opt %s | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --mlir-print-op-generic | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --emit-bytecode | fp8moe-opt | FileCheck %s

#colMajor = #fp8moe.strided<[1, 0]>
#perExpertColMajor = #fp8moe.strided<[0, 2, 1]>

// `accumulation fast` is the default and is not printed.
// CHECK-LABEL: func.func @forward(
func.func @forward(%a: tensor<?x64x!fp8moe.e4m3>, %sa: tensor<?xf32>,
                   %b: tensor<8x64x32x!fp8moe.e4m3, #perExpertColMajor>, %sb: tensor<8x32xf32>,
                   %ends: tensor<8xi32>) -> tensor<?x32xbf16> {
  // CHECK: fp8moe.grouped_matmul %{{.*}}, %{{.*}} groups(%{{.*}} : tensor<8xi32>) scales(%{{.*}}, %{{.*}} : tensor<?xf32>, tensor<8x32xf32>) direction quantize : tensor<?x64x!fp8moe.e4m3>, tensor<8x64x32x!fp8moe.e4m3, #{{.*}}> -> tensor<?x32xbf16>
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<8x32xf32>) direction quantize accumulation fast
      : tensor<?x64x!fp8moe.e4m3>, tensor<8x64x32x!fp8moe.e4m3, #perExpertColMajor> -> tensor<?x32xbf16>
  return %o : tensor<?x32xbf16>
}

// CHECK-LABEL: func.func @forward_bf16(
func.func @forward_bf16(%a: tensor<?x64xbf16>, %b: tensor<8x64x32xbf16>, %ends: tensor<?xi32>) -> tensor<?x32xf32> {
  // CHECK: fp8moe.grouped_matmul %{{.*}}, %{{.*}} groups(%{{.*}} : tensor<?xi32>) accumulation promoted : tensor<?x64xbf16>, tensor<8x64x32xbf16> -> tensor<?x32xf32>
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<?xi32>) accumulation promoted
      : tensor<?x64xbf16>, tensor<8x64x32xbf16> -> tensor<?x32xf32>
  return %o : tensor<?x32xf32>
}

// CHECK-LABEL: func.func @weight_gradient(
func.func @weight_gradient(%a: tensor<32x?xf8E5M2>, %sa: tensor<8x32xf32>,
                           %b: tensor<?x64xf8E4M3FN, #colMajor>, %sb: tensor<8x64xf32>,
                           %ends: tensor<8xi32>) -> tensor<8x32x64xf32> {
  // CHECK: direction dequantize accumulation promoted : tensor<32x?xf8E5M2>, tensor<?x64xf8E4M3FN, #{{.*}}> -> tensor<8x32x64xf32>
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<8x32xf32>, tensor<8x64xf32>) direction dequantize accumulation promoted
      : tensor<32x?xf8E5M2>, tensor<?x64xf8E4M3FN, #colMajor> -> tensor<8x32x64xf32>
  return %o : tensor<8x32x64xf32>
}

// In a K-grouped matmul, both operands pad their groups alike.
// CHECK-LABEL: func.func @weight_gradient_padded(
func.func @weight_gradient_padded(
    %a: tensor<32x?xf8E4M3FNUZ, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>>, %sa: tensor<?x32xf32>,
    %b: tensor<?x64xf8E5M2FNUZ, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>>, %sb: tensor<?x64xf32>,
    %ends: tensor<?xi32>) -> tensor<?x32x64xbf16> {
  // CHECK: fp8moe.grouped_matmul {{.*}} groups<dim = 1, pad = 16>{{.*}} groups<dim = 0, pad = 16>{{.*}} -> tensor<?x32x64xbf16>
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x32xf32>, tensor<?x64xf32>) direction quantize
      : tensor<32x?xf8E4M3FNUZ, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>>,
        tensor<?x64xf8E5M2FNUZ, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>> -> tensor<?x32x64xbf16>
  return %o : tensor<?x32x64xbf16>
}

// A may have scales while B has none.
// CHECK-LABEL: func.func @forward_scales_of_a(
func.func @forward_scales_of_a(%a: tensor<?x64x!fp8moe.e4m3>, %sa: tensor<?xf32>,
                               %b: tensor<8x64x32x!fp8moe.e4m3, #perExpertColMajor>, %ends: tensor<8xi32>) -> tensor<?x32xbf16> {
  // CHECK: fp8moe.grouped_matmul %{{.*}}, %{{.*}} groups(%{{.*}} : tensor<8xi32>) scales(%{{.*}} : tensor<?xf32>) direction quantize : tensor<?x64x!fp8moe.e4m3>
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>) scales(%sa : tensor<?xf32>) direction quantize
      : tensor<?x64x!fp8moe.e4m3>, tensor<8x64x32x!fp8moe.e4m3, #perExpertColMajor> -> tensor<?x32xbf16>
  return %o : tensor<?x32xbf16>
}

// CHECK-LABEL: func.func @weight_gradient_scales_of_a(
func.func @weight_gradient_scales_of_a(%a: tensor<32x?xf8E4M3FN>, %sa: tensor<8x32xf32>,
                                       %b: tensor<?x64xf8E4M3FN, #colMajor>, %ends: tensor<8xi32>) -> tensor<8x32x64xbf16> {
  // CHECK: scales(%{{.*}} : tensor<8x32xf32>) direction quantize accumulation promoted : tensor<32x?xf8E4M3FN>
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa : tensor<8x32xf32>) direction quantize accumulation promoted
      : tensor<32x?xf8E4M3FN>, tensor<?x64xf8E4M3FN, #colMajor> -> tensor<8x32x64xbf16>
  return %o : tensor<8x32x64xbf16>
}

// The addend is the gradient of earlier microbatches.
// CHECK-LABEL: func.func @weight_gradient_accumulated(
func.func @weight_gradient_accumulated(%a: tensor<32x?xbf16>, %b: tensor<?x64xbf16, #colMajor>, %ends: tensor<8xi32>,
                                       %c: tensor<8x32x64xf32>) -> tensor<8x32x64xf32> {
  // CHECK: grouped_matmul %{{.*}}, %{{.*}} groups(%{{.*}} : tensor<8xi32>) accumulation promoted accumulate(%{{.*}} : tensor<8x32x64xf32>) : tensor<32x?xbf16>
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>) accumulation promoted
      accumulate(%c : tensor<8x32x64xf32>)
      : tensor<32x?xbf16>, tensor<?x64xbf16, #colMajor> -> tensor<8x32x64xf32>
  return %o : tensor<8x32x64xf32>
}

//===----------------------------------------------------------------------===//
// Dense, and decisions
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @linear(
func.func @linear(%a: tensor<?x64x!fp8moe.e4m3>, %sa: tensor<?xf32>,
                  %b: tensor<64x32x!fp8moe.e4m3, #colMajor>, %sb: tensor<32xf32>, %c: tensor<?x32xbf16>) -> tensor<?x32xbf16> {
  // CHECK: fp8moe.linear %{{.*}}, %{{.*}} scales(%{{.*}}, %{{.*}} : tensor<?xf32>, tensor<32xf32>) direction quantize accumulate(%{{.*}} : tensor<?x32xbf16>) : tensor<?x64x!fp8moe.e4m3>, tensor<64x32x!fp8moe.e4m3, #{{.*}}> -> tensor<?x32xbf16>
  %o = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<32xf32>) direction quantize accumulation fast
      accumulate(%c : tensor<?x32xbf16>)
      : tensor<?x64x!fp8moe.e4m3>, tensor<64x32x!fp8moe.e4m3, #colMajor> -> tensor<?x32xbf16>
  return %o : tensor<?x32xbf16>
}

// CHECK-LABEL: func.func @linear_scales_of_a(
func.func @linear_scales_of_a(%a: tensor<?x64x!fp8moe.e4m3>, %sa: tensor<?xf32>,
                              %b: tensor<64x32x!fp8moe.e4m3, #colMajor>) -> tensor<?x32xbf16> {
  // CHECK: fp8moe.linear %{{.*}}, %{{.*}} scales(%{{.*}} : tensor<?xf32>) direction dequantize : tensor<?x64x!fp8moe.e4m3>
  %o = fp8moe.linear %a, %b scales(%sa : tensor<?xf32>) direction dequantize
      : tensor<?x64x!fp8moe.e4m3>, tensor<64x32x!fp8moe.e4m3, #colMajor> -> tensor<?x32xbf16>
  return %o : tensor<?x32xbf16>
}

// CHECK-LABEL: func.func @undecided(
func.func @undecided(%a: tensor<?x64xbf16>, %b: tensor<64x32xbf16>) -> tensor<?x32xbf16> {
  // CHECK: fp8moe.linear %{{.*}}, %{{.*}} precision <undecided, "layers.0.attention.wk", forward> : tensor<?x64xbf16>
  %o = fp8moe.linear %a, %b precision <undecided, "layers.0.attention.wk", forward>
      : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xbf16>
  return %o : tensor<?x32xbf16>
}

// CHECK-LABEL: func.func @decided(
func.func @decided(%a: tensor<32x?xbf16>, %b: tensor<?x64xbf16>, %ends: tensor<8xi32>) -> tensor<8x32x64xbf16> {
  // CHECK: fp8moe.grouped_matmul {{.*}} precision <fp8, "experts.w1", wgrad, recipe = mxfp8, bf16_ns = 12, fp8_ns = 7, reason = "by hand">
  // CHECK-SAME: tiles [#fp8moe.wgmma<rows = 128
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      precision <fp8, "experts.w1", wgrad, recipe = mxfp8, bf16_ns = 12, fp8_ns = 7, reason = "by hand">
      tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
      : tensor<32x?xbf16>, tensor<?x64xbf16> -> tensor<8x32x64xbf16>
  return %o : tensor<8x32x64xbf16>
}

// Block scales of a dense matmul, row-major for A and blocked for B.
// CHECK-LABEL: func.func @dense_blocks(
func.func @dense_blocks(%a: tensor<32x64x!fp8moe.e4m3>, %b: tensor<64x96x!fp8moe.e5m2>, %sa: tensor<32x2xf8E8M0FNU>,
                        %sb: tensor<96x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>) -> tensor<32x96xf32> {
  // CHECK: fp8moe.linear %{{.*}}, %{{.*}} scales(%{{.*}}, %{{.*}} : tensor<32x2xf8E8M0FNU>, tensor<96x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>)
  // CHECK-SAME: : tensor<32x64x!fp8moe.e4m3>, tensor<64x96x!fp8moe.e5m2> -> tensor<32x96xf32>
  %0 = fp8moe.linear %a, %b scales(%sa, %sb : tensor<32x2xf8E8M0FNU>, tensor<96x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>)
      : tensor<32x64x!fp8moe.e4m3>, tensor<64x96x!fp8moe.e5m2> -> tensor<32x96xf32>
  return %0 : tensor<32x96xf32>
}
