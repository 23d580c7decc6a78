// RUN: fp8moe-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(fp8moe-settle-layouts))' -o %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: fp8moe-opt %t.once --split-input-file --pass-pipeline='builtin.module(func.func(fp8moe-settle-layouts))' \
// RUN: | diff %t.once -
// RUN: fp8moe-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(fp8moe-settle-layouts))' \
// RUN:   --remark-format=emitRemark --remarks-filter=fp8moe-layout -o /dev/null 2>&1 \
// RUN: | FileCheck %s --check-prefix=REMARK --implicit-check-not=not-fused

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {

// The first round cannot fuse both axes, but after layout placement the second round can. No remark
// about the failed first round is left.
// CHECK-LABEL: func.func @fused_in_the_end
// CHECK:         fp8moe.jagged_dynamic_quantize {{.*}} along [0, 1]
// REMARK:      [[@LINE+8]]:14: remark: [Passed] fused
func.func @fused_in_the_end(%x: tensor<?x2048xbf16>, %ends: tensor<64xi32>)
    -> (tensor<?x2048xf8E4M3FN>, tensor<?xf32>, tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>) {
  %q1, %s1 = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
  %t = fp8moe.transpose %x [1, 0] : tensor<?x2048xbf16> -> tensor<2048x?xbf16, #col>
  %c = fp8moe.contiguous %t : tensor<2048x?xbf16, #col> -> tensor<2048x?xbf16>
  %y = fp8moe.transpose %c [1, 0] : tensor<2048x?xbf16> -> tensor<?x2048xbf16, #col>
  %q0, %s0 = fp8moe.jagged_dynamic_quantize %y groups(%ends : tensor<64xi32>) along [0] rounding pow2
      : tensor<?x2048xbf16, #col> -> tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>
  return %q1, %s1, %q0, %s0 : tensor<?x2048xf8E4M3FN>, tensor<?xf32>, tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>
}
}

// -----

#col = #fp8moe.strided<[1, 0]>
#padded_cols = #fp8moe.strided<[1, 0], groups<dim = 1, pad = 16>>
#padded_rows = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
// Canonicalization removes the branch after placement has changed something. Its operations are
// then unconditional, so layouts are placed once more.
// CHECK-LABEL: func.func @branch_goes
// CHECK-NOT:     scf.if
// CHECK:         return
func.func @branch_goes(%x: tensor<48x32xbf16, #col>, %y: tensor<48x32xbf16, #col>, %ends: tensor<3xi32>)
    -> tensor<96x32xf8E4M3FN, #padded_rows> {
  %true = arith.constant true
  %r = scf.if %true -> (tensor<48x32xbf16, #col>) {
    %p = fp8moe.relayout %x groups(%ends : tensor<3xi32>) : tensor<48x32xbf16, #col> -> tensor<48x80xbf16, #padded_cols>
    %u = fp8moe.relayout %p groups(%ends : tensor<3xi32>) : tensor<48x80xbf16, #padded_cols> -> tensor<48x32xbf16, #col>
    scf.yield %u : tensor<48x32xbf16, #col>
  } else {
    scf.yield %y : tensor<48x32xbf16, #col>
  }
  %q, %s = fp8moe.jagged_dynamic_quantize %r groups(%ends : tensor<3xi32>) along [0] rounding pow2
      : tensor<48x32xbf16, #col> -> tensor<96x32xf8E4M3FN, #padded_rows>, tensor<3x32xf32>
  return %q : tensor<96x32xf8E4M3FN, #padded_rows>
}
}

// -----

#col = #fp8moe.strided<[1, 0]>
#tiles = #fp8moe.scale_blocked<128x4>
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
// The third quantization has the first one's type, but after placement the layout of the second
// one. It merges into the second one.
// CHECK-LABEL: func.func @merged_into_the_nearest
// CHECK-NOT:     relayout
// CHECK:         %[[Q0:.*]], %[[S0:.*]] = fp8moe.mx_quantize
// CHECK-NEXT:    %[[Q1:.*]], %[[S1:.*]] = fp8moe.mx_quantize
// CHECK-NEXT:    return %[[Q0]], %[[S0]], %[[Q1]], %[[S1]], %[[Q1]], %[[S1]]
func.func @merged_into_the_nearest(%x: tensor<?x32xbf16>)
    -> (tensor<?x32xf8E4M3FN, #col>, tensor<32x?xf8E8M0FNU>, tensor<?x32xf8E4M3FN>, tensor<32x?xf8E8M0FNU, #tiles>,
        tensor<?x32xf8E4M3FN>, tensor<32x?xf8E8M0FNU, #tiles>) {
  %q0, %s0 = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x32xbf16> -> tensor<?x32xf8E4M3FN, #col>, tensor<32x?xf8E8M0FNU>
  %q1, %s1 = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x32xbf16> -> tensor<?x32xf8E4M3FN>, tensor<32x?xf8E8M0FNU, #tiles>
  %q2, %s2 = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x32xbf16> -> tensor<?x32xf8E4M3FN, #col>, tensor<32x?xf8E8M0FNU, #tiles>
  %r2 = fp8moe.relayout %q2 : tensor<?x32xf8E4M3FN, #col> -> tensor<?x32xf8E4M3FN>
  return %q0, %s0, %q1, %s1, %r2, %s2 : tensor<?x32xf8E4M3FN, #col>, tensor<32x?xf8E8M0FNU>, tensor<?x32xf8E4M3FN>,
      tensor<32x?xf8E8M0FNU, #tiles>, tensor<?x32xf8E4M3FN>, tensor<32x?xf8E8M0FNU, #tiles>
}
}
