// Recipe mxfp8: operands get block scales, in blocks of 32 along the contracted dimension.

// RUN: fp8moe-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(fp8moe-apply-precision))' | FileCheck %s

#columns = #fp8moe.strided<[1, 0]>
#expert_columns = #fp8moe.strided<[0, 2, 1]>

module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  // In wgrad, blocks start anew in each group, so the scales are blocked with padded groups.
  // CHECK-LABEL: func @experts(
  // CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[W:.*]]: tensor<8x48x64xbf16>, %[[G:.*]]: tensor<?x48xbf16>, %[[ENDS:.*]]: tensor<8xi32>
  // CHECK: %[[XQ:.*]], %[[XS:.*]] = fp8moe.mx_quantize %[[X]] along [1] mode rceil : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?x2xf8E8M0FNU>
  // CHECK: %[[WQ:.*]], %[[WS:.*]] = fp8moe.mx_quantize %[[W]] along [2] mode rceil : tensor<8x48x64xbf16> -> tensor<8x48x64xf8E4M3FN>, tensor<8x48x2xf8E8M0FNU>
  // CHECK: %[[T:.*]] = fp8moe.transpose %[[WQ]] [0, 2, 1]
  // CHECK: fp8moe.grouped_matmul %[[XQ]], %[[T]] groups(%[[ENDS]] : tensor<8xi32>) scales(%[[XS]], %[[WS]] : tensor<?x2xf8E8M0FNU>, tensor<8x48x2xf8E8M0FNU>) precision <fp8, "w1", forward, recipe = mxfp8>
  // CHECK: fp8moe.mx_quantize %[[G]] along [1] mode rceil
  // CHECK: fp8moe.mx_quantize %[[W]] along [1] mode rceil : tensor<8x48x64xbf16> -> tensor<8x48x64xf8E4M3FN, #{{.*}}>, tensor<8x64x2xf8E8M0FNU>
  // CHECK: fp8moe.grouped_matmul {{.*}} precision <fp8, "w1", dgrad, recipe = mxfp8>
  // CHECK: %[[GQ:.*]], %[[GS:.*]] = fp8moe.mx_quantize %[[G]] along [0] mode rceil groups(%[[ENDS]] : tensor<8xi32>) : tensor<?x48xbf16> -> tensor<?x48xf8E4M3FN, #{{.*}}>, tensor<48x?xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>>
  // CHECK: %[[GT:.*]] = fp8moe.transpose %[[GQ]] [1, 0]
  // CHECK: %[[XQ0:.*]], %[[XS0:.*]] = fp8moe.mx_quantize %[[X]] along [0] mode rceil groups(%[[ENDS]] : tensor<8xi32>)
  // CHECK: fp8moe.grouped_matmul %[[GT]], %[[XQ0]] groups(%[[ENDS]] : tensor<8xi32>) scales(%[[GS]], %[[XS0]] : {{.*}}) accumulate(%{{.*}} : tensor<8x48x64xf32>)
  func.func @experts(%x: tensor<?x64xbf16>, %w: tensor<8x48x64xbf16>, %g: tensor<?x48xbf16>, %ends: tensor<8xi32>,
      %c: tensor<8x48x64xf32>) -> (tensor<?x48xbf16>, tensor<?x64xbf16>, tensor<8x48x64xf32>) {
    %wt = fp8moe.transpose %w [0, 2, 1] : tensor<8x48x64xbf16> -> tensor<8x64x48xbf16, #expert_columns>
    %y = fp8moe.grouped_matmul %x, %wt groups(%ends : tensor<8xi32>) precision <fp8, "w1", forward, recipe = mxfp8>
        : tensor<?x64xbf16>, tensor<8x64x48xbf16, #expert_columns> -> tensor<?x48xbf16>
    %dx = fp8moe.grouped_matmul %g, %w groups(%ends : tensor<8xi32>) precision <fp8, "w1", dgrad, recipe = mxfp8>
        : tensor<?x48xbf16>, tensor<8x48x64xbf16> -> tensor<?x64xbf16>
    %gt = fp8moe.transpose %g [1, 0] : tensor<?x48xbf16> -> tensor<48x?xbf16, #columns>
    %dw = fp8moe.grouped_matmul %gt, %x groups(%ends : tensor<8xi32>)
        accumulate(%c : tensor<8x48x64xf32>) precision <fp8, "w1", wgrad, recipe = mxfp8>
        : tensor<48x?xbf16, #columns>, tensor<?x64xbf16> -> tensor<8x48x64xf32>
    return %y, %dx, %dw : tensor<?x48xbf16>, tensor<?x64xbf16>, tensor<8x48x64xf32>
  }

  // A transposed operand is quantized as the tensor before the transpose, whose rows have the
  // groups. The result is transposed again.
  // CHECK-LABEL: func @transposed(
  // CHECK-SAME: %[[GT:[a-z0-9]*]]: tensor<48x?xbf16>
  // CHECK: %[[G:.*]] = fp8moe.transpose %[[GT]] [1, 0]
  // CHECK: %[[Q:.*]], %{{.*}} = fp8moe.mx_quantize %[[G]] along [0] mode rceil groups
  // CHECK: %[[A:.*]] = fp8moe.transpose %[[Q]] [1, 0] : {{.*}} -> tensor<48x?xf8E4M3FN>
  // CHECK: fp8moe.grouped_matmul %[[A]],
  func.func @transposed(%gt: tensor<48x?xbf16>, %x: tensor<?x64xbf16>, %ends: tensor<8xi32>) -> tensor<8x48x64xbf16> {
    %dw = fp8moe.grouped_matmul %gt, %x groups(%ends : tensor<8xi32>) precision <fp8, "w1", wgrad, recipe = mxfp8>
        : tensor<48x?xbf16>, tensor<?x64xbf16> -> tensor<8x48x64xbf16>
    return %dw : tensor<8x48x64xbf16>
  }

  // Matmuls of one recipe share the quantization of an operand. Other recipes do not.
  // CHECK-LABEL: func @recipes(
  // CHECK: fp8moe.mx_quantize %{{.*}} : tensor<?x64xbf16>
  // CHECK: fp8moe.dynamic_quantize %{{.*}} : tensor<?x64xbf16>
  // CHECK-NOT: quantize {{.*}} : tensor<?x64xbf16>
  // CHECK: return
  func.func @recipes(%x: tensor<?x64xbf16>, %q: tensor<64x32xbf16>, %k: tensor<64x32xbf16>, %v: tensor<64x32xbf16>)
      -> (tensor<?x32xbf16>, tensor<?x32xbf16>, tensor<?x32xbf16>) {
    %0 = fp8moe.linear %x, %q precision <fp8, "wq", forward, recipe = mxfp8> : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xbf16>
    %1 = fp8moe.linear %x, %k precision <fp8, "wk", forward> : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xbf16>
    %2 = fp8moe.linear %x, %v precision <fp8, "wv", forward, recipe = mxfp8> : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xbf16>
    return %0, %1, %2 : tensor<?x32xbf16>, tensor<?x32xbf16>, tensor<?x32xbf16>
  }
}
