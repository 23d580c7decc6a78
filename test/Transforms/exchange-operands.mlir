// If a matmul's result is needed transposed, its operands are exchanged: (A B)^T = B^T A^T. CPU
// loops write any order, so nothing changes there.

// RUN: fp8moe-opt %s --fp8moe-attach-target=chip=sm_90a --fp8moe-optimize-layouts | FileCheck %s
// RUN: fp8moe-opt %s --fp8moe-attach-target=chip=gfx950 --fp8moe-optimize-layouts | FileCheck %s --check-prefix=CDNA
// RUN: fp8moe-opt %s --fp8moe-attach-target=chip=cpu --fp8moe-optimize-layouts | FileCheck %s --check-prefix=CPU
// RUN: fp8moe-opt %s --fp8moe-attach-target=chip=sm_90a --fp8moe-optimize-layouts -o %t
// RUN: fp8moe-opt %t --fp8moe-optimize-layouts | diff %t -
// RUN: fp8moe-opt %s --fp8moe-attach-target=chip=sm_90a --fp8moe-optimize-layouts \
// RUN:   --remark-format=emitRemark --remarks-filter=fp8moe-layout -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#col = #fp8moe.strided<[1, 0]>
#ecol = #fp8moe.strided<[0, 2, 1]>
#mxs = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>

// Weights and their gradient are stored [E, K, N], but autograd computes dy^T x, which is [E, N,
// K].
// CHECK-LABEL: func.func @wgrad
// CHECK-NEXT:    %[[T:.*]] = fp8moe.transpose %arg0 [1, 0]
// CHECK-NEXT:    %[[D:.*]] = fp8moe.grouped_matmul %[[T]], %arg1 {{.*}} -> tensor<8x64x48xf32>
// CHECK-NEXT:    return %[[D]]
// CPU-LABEL: func.func @wgrad
// CPU:         grouped_matmul {{.*}} -> tensor<8x48x64xf32, #fp8moe.strided<[0, 2, 1]>>
// CPU-NOT:     relayout
// CPU:         return
// REMARK: [[@LINE+4]]:8: remark: [Passed] operands-exchanged {{.*}}"operands exchanged: the kernel writes rows of the transposed result"
func.func @wgrad(%x: tensor<?x64xbf16>, %dy: tensor<?x48xbf16>, %e: tensor<8xi32>) -> tensor<8x64x48xf32> {
  %t = fp8moe.transpose %dy [1, 0] : tensor<?x48xbf16> -> tensor<48x?xbf16, #col>
  // Exchanging bf16 operands adds the same products in the same order.
  %d = fp8moe.grouped_matmul %t, %x groups(%e : tensor<8xi32>) : tensor<48x?xbf16, #col>, tensor<?x64xbf16> -> tensor<8x48x64xf32>
  %dt = fp8moe.transpose %d [0, 2, 1] : tensor<8x48x64xf32> -> tensor<8x64x48xf32, #ecol>
  %c = fp8moe.contiguous %dt : tensor<8x64x48xf32, #ecol> -> tensor<8x64x48xf32>
  return %c : tensor<8x64x48xf32>
}

// Scales are exchanged with their operands. Multiplying by powers of two gives the same result in
// either order.
// CHECK-LABEL: func.func @scales
// CHECK-NEXT:    %[[DY:.*]], %[[SDY:.*]] = fp8moe.jagged_dynamic_quantize %arg1
// CHECK-NEXT:    %[[X:.*]], %[[SX:.*]] = fp8moe.jagged_dynamic_quantize %arg0
// CHECK:         %[[D:.*]] = fp8moe.grouped_matmul {{.*}} scales(%[[SX]], %[[SDY]] : {{.*}} -> tensor<8x64x48xbf16>
// CHECK-NEXT:    return %[[D]]
// CDNA-LABEL: func.func @scales
// CDNA-NOT:     relayout
// CDNA:         grouped_matmul {{.*}} -> tensor<8x64x48xbf16>
// CDNA-NEXT:    return
func.func @scales(%x: tensor<?x64xbf16>, %dy: tensor<?x48xbf16>, %e: tensor<8xi32>) -> tensor<8x64x48xbf16> {
  %g, %gs = fp8moe.jagged_dynamic_quantize %dy groups(%e : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x48xbf16> -> tensor<?x48x!fp8moe.e5m2>, tensor<8x48xf32>
  %q, %qs = fp8moe.jagged_dynamic_quantize %x groups(%e : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<8x64xf32>
  %t = fp8moe.transpose %g [1, 0] : tensor<?x48x!fp8moe.e5m2> -> tensor<48x?x!fp8moe.e5m2, #col>
  %d = fp8moe.grouped_matmul %t, %q groups(%e : tensor<8xi32>) scales(%gs, %qs : tensor<8x48xf32>, tensor<8x64xf32>)
      direction quantize : tensor<48x?x!fp8moe.e5m2, #col>, tensor<?x64x!fp8moe.e4m3> -> tensor<8x48x64xbf16>
  %dt = fp8moe.transpose %d [0, 2, 1] : tensor<8x48x64xbf16> -> tensor<8x64x48xbf16, #ecol>
  %c = fp8moe.contiguous %dt : tensor<8x64x48xbf16, #ecol> -> tensor<8x64x48xbf16>
  return %c : tensor<8x64x48xbf16>
}

// Scales that need not be powers of two: a product in another order rounds differently, so the
// operands are not exchanged and the copy stays.
// CHECK-LABEL: func.func @unrounded_scales
// CHECK:         grouped_matmul {{.*}} -> tensor<8x48x64xbf16>
// CHECK:         relayout
// REMARK: copy kept: result #0 of the function takes order [0, 2, 1], but grouped_matmul writes row-major; grouped_matmul cannot write order [0, 2, 1] on sm_90a: with exchanged operands the product would be rounded in another order, and its scales are not known to be powers of two; compute them in this function with 'rounding pow2'
func.func @unrounded_scales(%x: tensor<?x64xf8E4M3FN, #col>, %dy: tensor<48x?xf8E4M3FN>, %e: tensor<8xi32>,
                            %gs: tensor<8x48xf32>, %qs: tensor<8x64xf32>) -> tensor<8x48x64xbf16, #ecol> {
  %d = fp8moe.grouped_matmul %dy, %x groups(%e : tensor<8xi32>) scales(%gs, %qs : tensor<8x48xf32>, tensor<8x64xf32>)
      direction quantize : tensor<48x?xf8E4M3FN>, tensor<?x64xf8E4M3FN, #col> -> tensor<8x48x64xbf16, #ecol>
  return %d : tensor<8x48x64xbf16, #ecol>
}

// Block scales scale elements of K, so they are exchanged with their operands.
// CDNA-LABEL: func.func @block_scales
// CDNA:         grouped_matmul {{.*}} -> tensor<8x64x48xbf16>
// CDNA-NEXT:    return
func.func @block_scales(%x: tensor<?x64xbf16>, %dy: tensor<?x48xbf16>, %e: tensor<8xi32>) -> tensor<8x64x48xbf16> {
  %g, %gs = fp8moe.mx_quantize %dy along [0] mode rceil groups(%e : tensor<8xi32>)
      : tensor<?x48xbf16> -> tensor<?x48xf8E4M3FN>, tensor<48x?xf8E8M0FNU, #mxs>
  %q, %qs = fp8moe.mx_quantize %x along [0] mode rceil groups(%e : tensor<8xi32>)
      : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<64x?xf8E8M0FNU, #mxs>
  %t = fp8moe.transpose %g [1, 0] : tensor<?x48xf8E4M3FN> -> tensor<48x?xf8E4M3FN, #col>
  %d = fp8moe.grouped_matmul %t, %q groups(%e : tensor<8xi32>) scales(%gs, %qs : tensor<48x?xf8E8M0FNU, #mxs>, tensor<64x?xf8E8M0FNU, #mxs>)
      : tensor<48x?xf8E4M3FN, #col>, tensor<?x64xf8E4M3FN> -> tensor<8x48x64xbf16>
  %dt = fp8moe.transpose %d [0, 2, 1] : tensor<8x48x64xbf16> -> tensor<8x64x48xbf16, #ecol>
  %c = fp8moe.contiguous %dt : tensor<8x64x48xbf16, #ecol> -> tensor<8x64x48xbf16>
  return %c : tensor<8x64x48xbf16>
}

// The addend, a main gradient, is column-major by its type.
// CHECK-LABEL: func.func @accumulate
// CHECK-DAG:     %[[T:.*]] = fp8moe.transpose %arg0 [1, 0]
// CHECK-DAG:     %[[M:.*]] = fp8moe.transpose %arg3 [0, 2, 1] : {{.*}} -> tensor<3x64x48xf32>
// CHECK:         %[[D:.*]] = fp8moe.grouped_matmul %[[T]], %arg1 {{.*}} accumulate(%[[M]] : tensor<3x64x48xf32>)
// CHECK-NEXT:    %[[R:.*]] = fp8moe.transpose %[[D]] [0, 2, 1]
// CHECK-NEXT:    return %[[R]]
func.func @accumulate(%x: tensor<?x64xbf16>, %dy: tensor<?x48xbf16>, %e: tensor<3xi32>, %m: tensor<3x48x64xf32, #ecol>)
    -> tensor<3x48x64xf32, #ecol> {
  %t = fp8moe.transpose %dy [1, 0] : tensor<?x48xbf16> -> tensor<48x?xbf16, #col>
  %y = fp8moe.grouped_matmul %t, %x groups(%e : tensor<3xi32>) accumulate(%m : tensor<3x48x64xf32, #ecol>)
      : tensor<48x?xbf16, #col>, tensor<?x64xbf16> -> tensor<3x48x64xf32, #ecol>
  return %y : tensor<3x48x64xf32, #ecol>
}

// The main gradient and the result are copied explicitly.
// CHECK-LABEL: func.func @accumulate_copies
// CHECK-NEXT:    %[[T:.*]] = fp8moe.transpose %arg0 [1, 0]
// CHECK-NEXT:    %[[D:.*]] = fp8moe.grouped_matmul %[[T]], %arg1 {{.*}} accumulate(%arg3 : tensor<3x64x48xf32>)
// CHECK-NEXT:    return %[[D]]
func.func @accumulate_copies(%x: tensor<?x64xbf16>, %dy: tensor<?x48xbf16>, %e: tensor<3xi32>, %m: tensor<3x64x48xf32>)
    -> tensor<3x64x48xf32> {
  %mt = fp8moe.transpose %m [0, 2, 1] : tensor<3x64x48xf32> -> tensor<3x48x64xf32, #ecol>
  %mc = fp8moe.contiguous %mt : tensor<3x48x64xf32, #ecol> -> tensor<3x48x64xf32>
  %t = fp8moe.transpose %dy [1, 0] : tensor<?x48xbf16> -> tensor<48x?xbf16, #col>
  %y = fp8moe.grouped_matmul %t, %x groups(%e : tensor<3xi32>) accumulate(%mc : tensor<3x48x64xf32>)
      : tensor<48x?xbf16, #col>, tensor<?x64xbf16> -> tensor<3x48x64xf32>
  %yt = fp8moe.transpose %y [0, 2, 1] : tensor<3x48x64xf32> -> tensor<3x64x48xf32, #ecol>
  %c = fp8moe.contiguous %yt : tensor<3x64x48xf32, #ecol> -> tensor<3x64x48xf32>
  return %c : tensor<3x64x48xf32>
}

// The addend is also an operand, so its layout stays.
// CHECK-LABEL: func.func @addend_is_factor
// CHECK:         grouped_matmul {{.*}} accumulate(%{{.*}} : tensor<?x64xbf16>)
// CHECK:         return
func.func @addend_is_factor(%x: tensor<?x64xbf16>, %w: tensor<3x64x64xbf16>, %e: tensor<3xi32>) -> tensor<?x64xbf16> {
  %y = fp8moe.grouped_matmul %x, %w groups(%e : tensor<3xi32>) accumulate(%x : tensor<?x64xbf16>)
      : tensor<?x64xbf16>, tensor<3x64x64xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: func.func @dense
// CHECK-NEXT:    %[[T:.*]] = fp8moe.transpose %arg0 [1, 0]
// CHECK-NEXT:    %[[Y:.*]] = fp8moe.linear %arg1, %[[T]] {{.*}} -> tensor<48x128xbf16>
// CHECK-NEXT:    return %[[Y]]
func.func @dense(%x: tensor<128x64xbf16>, %w: tensor<48x64xbf16>) -> tensor<48x128xbf16> {
  %t = fp8moe.transpose %w [1, 0] : tensor<48x64xbf16> -> tensor<64x48xbf16, #col>
  %y = fp8moe.linear %x, %t : tensor<128x64xbf16>, tensor<64x48xbf16, #col> -> tensor<128x48xbf16>
  %yt = fp8moe.transpose %y [1, 0] : tensor<128x48xbf16> -> tensor<48x128xbf16, #col>
  %c = fp8moe.contiguous %yt : tensor<48x128xbf16, #col> -> tensor<48x128xbf16>
  return %c : tensor<48x128xbf16>
}

// TMA stores rows that are multiples of 16 bytes, which is unknown for a dynamic number of tokens.
// AMD's kernels store any rows.
// CHECK-LABEL: func.func @unknown_columns
// CHECK:         linear {{.*}} -> tensor<?x48xbf16>
// CHECK:         relayout
// REMARK: copy kept: {{.*}} linear cannot write {{.*}}: its columns are not known to be whole 16 bytes, as rows of a result must be
// CDNA-LABEL: func.func @unknown_columns
// CDNA:         linear {{.*}} -> tensor<48x?xbf16>
// CDNA-NEXT:    return
func.func @unknown_columns(%x: tensor<?x64xbf16>, %w: tensor<48x64xbf16>) -> tensor<48x?xbf16> {
  %t = fp8moe.transpose %w [1, 0] : tensor<48x64xbf16> -> tensor<64x48xbf16, #col>
  %y = fp8moe.linear %x, %t : tensor<?x64xbf16>, tensor<64x48xbf16, #col> -> tensor<?x48xbf16>
  %yt = fp8moe.transpose %y [1, 0] : tensor<?x48xbf16> -> tensor<48x?xbf16, #col>
  %c = fp8moe.contiguous %yt : tensor<48x?xbf16, #col> -> tensor<48x?xbf16>
  return %c : tensor<48x?xbf16>
}

// CHECK-LABEL: func.func @groups_of_rows
// CHECK:         grouped_matmul {{.*}} -> tensor<?x48xbf16>
// CHECK:         relayout
// REMARK: copy kept: {{.*}} grouped_matmul cannot write {{.*}}: its groups are rows of the result, and no matmul has groups of columns
func.func @groups_of_rows(%x: tensor<?x64xbf16>, %w: tensor<3x64x48xbf16, #ecol>, %e: tensor<3xi32>) -> tensor<?x48xbf16, #col> {
  %y = fp8moe.grouped_matmul %x, %w groups(%e : tensor<3xi32>) : tensor<?x64xbf16>, tensor<3x64x48xbf16, #ecol> -> tensor<?x48xbf16, #col>
  return %y : tensor<?x48xbf16, #col>
}
