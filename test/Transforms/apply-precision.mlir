// A matmul that was decided to be FP8 gets quantized operands. Matmuls that share an operand share
// its quantization.

// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(func.func(fp8moe-apply-precision))' | FileCheck %s

#columns = #fp8moe.strided<[1, 0]>
#expert_columns = #fp8moe.strided<[0, 2, 1]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // Weights are quantized in their own layout, before the transpose.
  // CHECK-LABEL: func @forward(
  // CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[W:.*]]: tensor<32x64xbf16>
  // CHECK: %[[XQ:.*]], %[[XS:.*]] = fp8moe.dynamic_quantize %[[X]] along [1] rounding pow2 : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
  // CHECK: %[[WQ:.*]], %[[WS:.*]] = fp8moe.dynamic_quantize %[[W]] along [1] rounding pow2 : tensor<32x64xbf16> -> tensor<32x64xf8E4M3FN>, tensor<32xf32>
  // CHECK: %[[T:.*]] = fp8moe.transpose %[[WQ]] [1, 0]
  // CHECK: fp8moe.linear %[[XQ]], %[[T]] scales(%[[XS]], %[[WS]] : tensor<?xf32>, tensor<32xf32>) direction quantize precision <fp8, "wq", forward, reason = "by hand">
  func.func @forward(%x: tensor<?x64xbf16>, %w: tensor<32x64xbf16>) -> tensor<?x32xbf16> {
    %t = fp8moe.transpose %w [1, 0] : tensor<32x64xbf16> -> tensor<64x32xbf16, #columns>
    %y = fp8moe.linear %x, %t precision <fp8, "wq", forward, reason = "by hand">
        : tensor<?x64xbf16>, tensor<64x32xbf16, #columns> -> tensor<?x32xbf16>
    return %y : tensor<?x32xbf16>
  }

  // Both gradients of a layer: dy is quantized once along each axis. The contracted dimension is
  // contiguous in every operand.
  // CHECK-LABEL: func @backward(
  // CHECK-SAME: %[[G:.*]]: tensor<?x32xbf16>, %[[X:.*]]: tensor<?x64xbf16>, %[[W:.*]]: tensor<32x64xbf16>
  // CHECK: fp8moe.dynamic_quantize %[[G]] along [1]
  // CHECK: fp8moe.dynamic_quantize %[[W]] along [0] {{.*}} -> tensor<32x64xf8E4M3FN, #{{.*}}>, tensor<64xf32>
  // CHECK: fp8moe.linear
  // CHECK: fp8moe.dynamic_quantize %[[G]] along [0]
  // CHECK: fp8moe.transpose
  // CHECK: fp8moe.dynamic_quantize %[[X]] along [0]
  // CHECK: fp8moe.linear
  func.func @backward(%g: tensor<?x32xbf16>, %x: tensor<?x64xbf16>, %w: tensor<32x64xbf16>)
      -> (tensor<?x64xbf16>, tensor<32x64xbf16>) {
    %dx = fp8moe.linear %g, %w precision <fp8, "wq", dgrad>
        : tensor<?x32xbf16>, tensor<32x64xbf16> -> tensor<?x64xbf16>
    %t = fp8moe.transpose %g [1, 0] : tensor<?x32xbf16> -> tensor<32x?xbf16, #columns>
    %dw = fp8moe.linear %t, %x precision <fp8, "wq", wgrad>
        : tensor<32x?xbf16, #columns>, tensor<?x64xbf16> -> tensor<32x64xbf16>
    return %dx, %dw : tensor<?x64xbf16>, tensor<32x64xbf16>
  }

  // Two layers share an input. The layer that was decided to be bf16 stays.
  // CHECK-LABEL: func @shared(
  // CHECK: fp8moe.dynamic_quantize %{{.*}} along [1] {{.*}} tensor<?x64xbf16>
  // CHECK-NOT: fp8moe.dynamic_quantize {{.*}} tensor<?x64xbf16>
  // CHECK: fp8moe.linear %{{.*}}, %{{.*}} precision <bf16, "wv", forward>
  func.func @shared(%x: tensor<?x64xbf16>, %q: tensor<64x32xbf16>, %k: tensor<64x32xbf16>, %v: tensor<64x16xbf16>)
      -> (tensor<?x32xbf16>, tensor<?x32xbf16>, tensor<?x16xbf16>) {
    %0 = fp8moe.linear %x, %q precision <fp8, "wq", forward> : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xbf16>
    %1 = fp8moe.linear %x, %k precision <fp8, "wk", forward> : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xbf16>
    %2 = fp8moe.linear %x, %v precision <bf16, "wv", forward> : tensor<?x64xbf16>, tensor<64x16xbf16> -> tensor<?x16xbf16>
    return %0, %1, %2 : tensor<?x32xbf16>, tensor<?x32xbf16>, tensor<?x16xbf16>
  }

  // wgrad of experts has scales for each group. The addend stays.
  // CHECK-LABEL: func @experts(
  // CHECK: fp8moe.dynamic_quantize %{{.*}} along [1] {{.*}} tensor<8x32x64xbf16> -> tensor<8x32x64xf8E4M3FN, #{{.*}}>, tensor<8x64xf32>
  // CHECK: fp8moe.grouped_matmul
  // CHECK: fp8moe.jagged_dynamic_quantize %{{.*}} groups(%{{.*}} : tensor<8xi32>) along [0] {{.*}}, tensor<8x32xf32>
  // CHECK: fp8moe.jagged_dynamic_quantize %{{.*}} groups(%{{.*}} : tensor<8xi32>) along [0] {{.*}}, tensor<8x64xf32>
  // CHECK: fp8moe.grouped_matmul {{.*}} accumulate(%{{.*}} : tensor<8x32x64xf32>)
  func.func @experts(%g: tensor<?x32xbf16>, %x: tensor<?x64xbf16>, %w: tensor<8x32x64xbf16>, %ends: tensor<8xi32>,
      %c: tensor<8x32x64xf32>) -> (tensor<?x64xbf16>, tensor<8x32x64xf32>) {
    %dx = fp8moe.grouped_matmul %g, %w groups(%ends : tensor<8xi32>) precision <fp8, "w1", dgrad>
        : tensor<?x32xbf16>, tensor<8x32x64xbf16> -> tensor<?x64xbf16>
    %t = fp8moe.transpose %g [1, 0] : tensor<?x32xbf16> -> tensor<32x?xbf16, #columns>
    %dw = fp8moe.grouped_matmul %t, %x groups(%ends : tensor<8xi32>)
        accumulate(%c : tensor<8x32x64xf32>) precision <fp8, "w1", wgrad>
        : tensor<32x?xbf16, #columns>, tensor<?x64xbf16> -> tensor<8x32x64xf32>
    return %dx, %dw : tensor<?x64xbf16>, tensor<8x32x64xf32>
  }

  // A tensor that is both operands is quantized along each operand's contracted dimension.
  // CHECK-LABEL: func @square(
  // CHECK: %[[AQ:.*]], %[[AS:.*]] = fp8moe.dynamic_quantize %{{.*}} along [1]
  // CHECK: %[[BQ:.*]], %[[BS:.*]] = fp8moe.dynamic_quantize %{{.*}} along [0]
  // CHECK: fp8moe.linear %[[AQ]], %[[BQ]] scales(%[[AS]], %[[BS]]
  func.func @square(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
    %0 = fp8moe.linear %x, %x precision <fp8, "w", forward> : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
    return %0 : tensor<64x64xbf16>
  }

  // Matmuls that are undecided or have no name stay.
  // CHECK-LABEL: func @open(
  // CHECK-NOT: quantize
  // CHECK: return
  func.func @open(%x: tensor<?x64xbf16>, %w: tensor<64x32xbf16>) -> (tensor<?x32xbf16>, tensor<?x32xbf16>) {
    %0 = fp8moe.linear %x, %w precision <undecided, "wq", forward> : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xbf16>
    %1 = fp8moe.linear %x, %w : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xbf16>
    return %0, %1 : tensor<?x32xbf16>, tensor<?x32xbf16>
  }
}

// -----

// The FP8 encoding is the target's.

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  // CHECK-LABEL: func @flavour(
  // CHECK: f8E4M3FNUZ
  func.func @flavour(%x: tensor<?x64xbf16>, %w: tensor<64x32xbf16>) -> tensor<?x32xbf16> {
    %0 = fp8moe.linear %x, %w precision <fp8, "wq", forward> : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xbf16>
    return %0 : tensor<?x32xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @recipe(%x: tensor<?x64xbf16>, %w: tensor<64x32xbf16>) -> tensor<?x32xbf16> {
    // expected-error @below {{was decided to be FP8 by recipe 'tensorwise', which is not applied yet; use recipe 'rowwise' or 'mxfp8', or 'bf16'}}
    %0 = fp8moe.linear %x, %w precision <fp8, "wq", forward, recipe = tensorwise> : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xbf16>
    return %0 : tensor<?x32xbf16>
  }
}

// -----

#padded_rows = #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>
#padded_columns = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @padded(%a: tensor<32x128xbf16, #padded_rows>, %b: tensor<128x64xbf16, #padded_columns>, %ends: tensor<2xi32>) -> tensor<2x32x64xbf16> {
    // expected-error @below {{was decided to be FP8, but its bf16 operands have padded groups; pass packed ones, quantizations pad by themselves}}
    %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) precision <fp8, "w1", wgrad>
        : tensor<32x128xbf16, #padded_rows>, tensor<128x64xbf16, #padded_columns> -> tensor<2x32x64xbf16>
    return %0 : tensor<2x32x64xbf16>
  }
}
