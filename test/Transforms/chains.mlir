// Three chains of views and copies around MoE training kernels, as a framework exports them. All
// copies vanish, and no kernel reads with a stride instead.

// RUN: fp8moe-opt %s --fp8moe-resolve-fp8-types --fp8moe-optimize-layouts | FileCheck %s
// RUN: fp8moe-opt %s \
// RUN:   --pass-pipeline='builtin.module(fp8moe-resolve-fp8-types,func.func(fp8moe-report-traffic))' -o /dev/null 2>&1 \
// RUN: | FileCheck %s --check-prefix=BEFORE
// RUN: fp8moe-opt %s --fp8moe-resolve-fp8-types --fp8moe-optimize-layouts \
// RUN: | fp8moe-opt --pass-pipeline='builtin.module(func.func(fp8moe-report-traffic))' -o /dev/null 2>&1 \
// RUN: | FileCheck %s --check-prefix=TRAFFIC --implicit-check-not='of the least'
// RUN: fp8moe-opt %s --fp8moe-resolve-fp8-types --fp8moe-optimize-layouts -o %t.once
// RUN: fp8moe-opt %t.once --fp8moe-optimize-layouts | diff %t.once -

// BEFORE: predicted: {{.*}} 4 copies
// BEFORE: predicted: {{.*}} 1 copies
// BEFORE: predicted: {{.*}} 2 copies

#col = #fp8moe.strided<[1, 0]>
#ecol = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {

// wgrad. The program makes both operands column-major before they are quantized per group and
// column, and transposes the gradient again for the matmul.

// CHECK-LABEL: func.func @jagged_colwise_backward
// CHECK-SAME: (%[[G:.*]]: tensor<?x2048xbf16>, %[[X:.*]]: tensor<?x1408xbf16>, %[[ENDS:.*]]: tensor<64xi32>)
// CHECK-NEXT: %[[QG:.*]], %[[SG:.*]] = fp8moe.jagged_dynamic_quantize %[[G]] groups(%[[ENDS]] : tensor<64xi32>) along [0] {{.*}} -> tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>
// CHECK-NEXT: %[[QX:.*]], %[[SX:.*]] = fp8moe.jagged_dynamic_quantize %[[X]] groups(%[[ENDS]] : tensor<64xi32>) along [0] {{.*}} -> tensor<?x1408xf8E4M3FN, #fp8moe.strided<[1, 0]>>
// CHECK-NEXT: %[[GT:.*]] = fp8moe.transpose %[[QG]] [1, 0]
// CHECK-NEXT: %[[W:.*]] = fp8moe.grouped_matmul %[[GT]], %[[QX]] groups(%[[ENDS]] : tensor<64xi32>) scales(%[[SG]], %[[SX]]
// CHECK-NEXT: return %[[W]]
// TRAFFIC: 1.00 of the least
// TRAFFIC: 1.00 of the least
// TRAFFIC: 1.00 of the least
// TRAFFIC: predicted: {{.*}} 0 copies, 0 tensors that no kernel takes
func.func @jagged_colwise_backward(%grad: tensor<?x2048xbf16>, %x: tensor<?x1408xbf16>,
                                   %ends: tensor<64xi32>) -> tensor<64x2048x1408xbf16> {
  %g0 = fp8moe.transpose %grad [1, 0] : tensor<?x2048xbf16> -> tensor<2048x?xbf16, #col>
  %g1 = fp8moe.contiguous %g0 : tensor<2048x?xbf16, #col> -> tensor<2048x?xbf16>
  %g2 = fp8moe.transpose %g1 [1, 0] : tensor<2048x?xbf16> -> tensor<?x2048xbf16, #col>
  %gs = fp8moe.jagged_scale %g2 groups(%ends : tensor<64xi32>) along 0 rounding pow2
      fp8 !fp8moe.e4m3 : tensor<?x2048xbf16, #col> -> tensor<64x2048xf32>
  %gq = fp8moe.quantize %g2 by %gs along 0 groups(%ends : tensor<64xi32>)
      : tensor<?x2048xbf16, #col>, tensor<64x2048xf32> -> tensor<?x2048x!fp8moe.e4m3>
  %gt = fp8moe.transpose %gq [1, 0]
      : tensor<?x2048x!fp8moe.e4m3> -> tensor<2048x?x!fp8moe.e4m3, #col>
  %gc = fp8moe.contiguous %gt
      : tensor<2048x?x!fp8moe.e4m3, #col> -> tensor<2048x?x!fp8moe.e4m3>

  %x0 = fp8moe.transpose %x [1, 0] : tensor<?x1408xbf16> -> tensor<1408x?xbf16, #col>
  %x1 = fp8moe.contiguous %x0 : tensor<1408x?xbf16, #col> -> tensor<1408x?xbf16>
  %x2 = fp8moe.transpose %x1 [1, 0] : tensor<1408x?xbf16> -> tensor<?x1408xbf16, #col>
  %xq, %xs = fp8moe.jagged_dynamic_quantize %x2 groups(%ends : tensor<64xi32>) along [0]
      rounding pow2 : tensor<?x1408xbf16, #col>
      -> tensor<?x1408x!fp8moe.e4m3>, tensor<64x1408xf32>
  %xc = fp8moe.relayout %xq
      : tensor<?x1408x!fp8moe.e4m3> -> tensor<?x1408x!fp8moe.e4m3, #col>
  %w = fp8moe.grouped_matmul %gc, %xc groups(%ends : tensor<64xi32>)
      scales(%gs, %xs : tensor<64x2048xf32>, tensor<64x1408xf32>) direction quantize
      : tensor<2048x?x!fp8moe.e4m3>, tensor<?x1408x!fp8moe.e4m3, #col>
      -> tensor<64x2048x1408xbf16>
  return %w : tensor<64x2048x1408xbf16>
}

// to_mx(B_t.contiguous()): the transposed weights in MXFP8, for a matmul over K.

// CHECK-LABEL: func.func @to_mx_of_transpose
// CHECK-SAME: (%[[B:.*]]: tensor<64x2048x1408xbf16>)
// CHECK-NEXT: %[[Q:.*]], %[[S:.*]] = fp8moe.mx_quantize %[[B]] along [1]
// CHECK-NEXT: %[[T:.*]] = fp8moe.transpose %[[Q]] [0, 2, 1]
// CHECK-NEXT: return %[[T]], %[[S]]
// TRAFFIC: 1.00 of the least
// TRAFFIC: predicted: {{.*}} 0 copies, 0 tensors that no kernel takes
func.func @to_mx_of_transpose(%b: tensor<64x2048x1408xbf16>)
    -> (tensor<64x1408x2048x!fp8moe.e4m3>, tensor<64x1408x64xf8E8M0FNU>) {
  %t = fp8moe.transpose %b [0, 2, 1]
      : tensor<64x2048x1408xbf16> -> tensor<64x1408x2048xbf16, #ecol>
  %c = fp8moe.contiguous %t
      : tensor<64x1408x2048xbf16, #ecol> -> tensor<64x1408x2048xbf16>
  %q, %s = fp8moe.mx_quantize %c along [2] mode rceil : tensor<64x1408x2048xbf16>
      -> tensor<64x1408x2048x!fp8moe.e4m3>, tensor<64x1408x64xf8E8M0FNU>
  return %q, %s : tensor<64x1408x2048x!fp8moe.e4m3>, tensor<64x1408x64xf8E8M0FNU>
}

// 3D weights are cast as one matrix and made column-major per expert. Their scales become one
// matrix per expert.

// CHECK-LABEL: func.func @weights_as_matrix
// CHECK-SAME: (%[[W:.*]]: tensor<64x2048x1408xbf16>)
// CHECK-NEXT: %[[Q:.*]], %[[S:.*]] = fp8moe.mx_quantize %[[W]] along [1] {{.*}} -> tensor<64x2048x1408xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<64x1408x64xf8E8M0FNU>
// CHECK-NEXT: return %[[Q]], %[[S]]
// TRAFFIC: 1.00 of the least
// TRAFFIC: predicted: {{.*}} 0 copies, 0 tensors that no kernel takes
func.func @weights_as_matrix(%w: tensor<64x2048x1408xbf16>)
    -> (tensor<64x2048x1408x!fp8moe.e4m3, #ecol>, tensor<64x1408x64xf8E8M0FNU>) {
  %m = fp8moe.reshape %w : tensor<64x2048x1408xbf16> -> tensor<131072x1408xbf16>
  %q, %s = fp8moe.mx_quantize %m along [0] mode rceil : tensor<131072x1408xbf16>
      -> tensor<131072x1408x!fp8moe.e4m3, #col>, tensor<1408x4096xf8E8M0FNU>
  %q3 = fp8moe.reshape %q : tensor<131072x1408x!fp8moe.e4m3, #col>
      -> tensor<64x2048x1408x!fp8moe.e4m3, #fp8moe.strided<[2, 0, 1]>>
  %qt = fp8moe.transpose %q3 [0, 2, 1]
      : tensor<64x2048x1408x!fp8moe.e4m3, #fp8moe.strided<[2, 0, 1]>>
      -> tensor<64x1408x2048x!fp8moe.e4m3, #fp8moe.strided<[1, 0, 2]>>
  %qc = fp8moe.contiguous %qt
      : tensor<64x1408x2048x!fp8moe.e4m3, #fp8moe.strided<[1, 0, 2]>>
      -> tensor<64x1408x2048x!fp8moe.e4m3>
  %qv = fp8moe.transpose %qc [0, 2, 1]
      : tensor<64x1408x2048x!fp8moe.e4m3> -> tensor<64x2048x1408x!fp8moe.e4m3, #ecol>
  %s3 = fp8moe.reshape %s : tensor<1408x4096xf8E8M0FNU> -> tensor<1408x64x64xf8E8M0FNU>
  %st = fp8moe.transpose %s3 [1, 0, 2] : tensor<1408x64x64xf8E8M0FNU>
      -> tensor<64x1408x64xf8E8M0FNU, #fp8moe.strided<[1, 0, 2]>>
  %sc = fp8moe.contiguous %st : tensor<64x1408x64xf8E8M0FNU, #fp8moe.strided<[1, 0, 2]>>
      -> tensor<64x1408x64xf8E8M0FNU>
  return %qv, %sc : tensor<64x2048x1408x!fp8moe.e4m3, #ecol>, tensor<64x1408x64xf8E8M0FNU>
}
}
