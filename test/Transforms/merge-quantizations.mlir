// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fuse-quantize))' | FileCheck %s
// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fuse-quantize))' \
// RUN:   --remark-format=emitRemark --remarks-filter=fp8moe-layout -o /dev/null 2>&1 \
// RUN: | FileCheck %s --check-prefix=REMARK
// RUN: fp8moe-opt %s --fp8moe-optimize-layouts | FileCheck %s --check-prefix=PLACED

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {

// CHECK-LABEL: func.func @equal
func.func @equal(%x: tensor<4096x2048xbf16>)
    -> (tensor<4096x2048xf8E4M3FN>, tensor<4096xf32>, tensor<4096x2048xbf16>) {
  // CHECK-NEXT: fp8moe.contiguous
  // CHECK-NEXT: %[[Q:.*]], %[[S:.*]] = fp8moe.dynamic_quantize %arg0 along [1]
  // CHECK-NEXT: %[[D:.*]] = fp8moe.dequantize %[[Q]] by %[[S]] along 1
  // CHECK-NEXT: return %[[Q]], %[[S]], %[[D]]
  %c = fp8moe.contiguous %x : tensor<4096x2048xbf16> -> tensor<4096x2048xbf16>
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<4096x2048xbf16> -> tensor<4096x2048xf8E4M3FN>, tensor<4096xf32>
  // REMARK: [[@LINE+1]]:14: remark: [Passed] merged {{.*}}"not quantized again: the same values were computed before"
  %q1, %s1 = fp8moe.dynamic_quantize %c along [1] rounding pow2
      : tensor<4096x2048xbf16> -> tensor<4096x2048xf8E4M3FN>, tensor<4096xf32>
  %d = fp8moe.dequantize %q1 by %s1 along 1 direction quantize
      : tensor<4096x2048xf8E4M3FN>, tensor<4096xf32> -> tensor<4096x2048xbf16>
  return %q, %s, %d : tensor<4096x2048xf8E4M3FN>, tensor<4096xf32>, tensor<4096x2048xbf16>
}

// `scale` and a `quantize` by its result equal a `dynamic_quantize`.

// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<4096x2048xbf16>)
    -> (tensor<4096x2048xf8E4M3FN>, tensor<4096x2048xbf16>, tensor<4096xf32>) {
  // CHECK-NEXT: %[[Q:.*]], %[[S:.*]] = fp8moe.dynamic_quantize %arg0 along [1]
  // CHECK-NEXT: %[[D:.*]] = fp8moe.dequantize %[[Q]] by %[[S]] along 1
  // CHECK-NEXT: return %[[Q]], %[[D]], %[[S]]
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<4096x2048xbf16> -> tensor<4096x2048xf8E4M3FN>, tensor<4096xf32>
  %s1 = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN
      : tensor<4096x2048xbf16> -> tensor<4096xf32>
  %q1 = fp8moe.quantize %x by %s along 1
      : tensor<4096x2048xbf16>, tensor<4096xf32> -> tensor<4096x2048xf8E4M3FN>
  %d = fp8moe.dequantize %q1 by %s1 along 1 direction quantize
      : tensor<4096x2048xf8E4M3FN>, tensor<4096xf32> -> tensor<4096x2048xbf16>
  return %q, %d, %s1 : tensor<4096x2048xf8E4M3FN>, tensor<4096x2048xbf16>, tensor<4096xf32>
}

// A transposing copy of the data would take as long as a second quantization, so both stay.

// CHECK-LABEL: func.func @two_layouts
// PLACED-LABEL: func.func @two_layouts
func.func @two_layouts(%x: tensor<?x2048xbf16>)
    -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN, #col>) {
  // CHECK-NEXT: fp8moe.dynamic_quantize %arg0
  // CHECK-NEXT: fp8moe.dynamic_quantize %arg0
  // CHECK-NEXT: return
  // PLACED-NEXT: fp8moe.dynamic_quantize %arg0
  // PLACED-NEXT: fp8moe.dynamic_quantize %arg0
  // PLACED-NEXT: return
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
  // REMARK: [[@LINE+1]]:14: remark: [Missed] not-merged {{.*}}"quantized again: a copy of what the same quantization wrote before, in another layout, would take longer"
  %q1, %s1 = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN, #col>, tensor<?xf32>
  return %q, %q1 : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN, #col>
}

// Two quantizations of a tensor have equal scales, so operations that use either are merged.

// CHECK-LABEL: func.func @equal_scales
func.func @equal_scales(%x: tensor<?x2048xbf16>)
    -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xbf16, #col>, tensor<?x2048xbf16, #col>) {
  // CHECK-NEXT: %[[Q:.*]], %{{.*}} = fp8moe.dynamic_quantize %arg0
  // CHECK-NEXT: %[[Q1:.*]], %[[S1:.*]] = fp8moe.dynamic_quantize %arg0
  // CHECK-NEXT: %[[D:.*]] = fp8moe.dequantize %[[Q1]] by %[[S1]]
  // CHECK-NEXT: return %[[Q]], %[[Q1]], %[[D]], %[[D]]
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
  %q1, %s1 = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN, #col>, tensor<?xf32>
  %d = fp8moe.dequantize %q1 by %s1 along 1 direction quantize
      : tensor<?x2048xf8E4M3FN, #col>, tensor<?xf32> -> tensor<?x2048xbf16, #col>
  %e = fp8moe.dequantize %q1 by %s along 1 direction quantize
      : tensor<?x2048xf8E4M3FN, #col>, tensor<?xf32> -> tensor<?x2048xbf16, #col>
  return %q, %q1, %d, %e : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xbf16, #col>, tensor<?x2048xbf16, #col>
}

// CHECK-LABEL: func.func @equal_block_scales
func.func @equal_block_scales(%x: tensor<?x2048xbf16>)
    -> (tensor<?x2048xf8E4M3FN>, tensor<?x64xf8E8M0FNU>, tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xbf16, #col>, tensor<?x2048xbf16, #col>) {
  // CHECK: %[[Q1:.*]], %[[S1:.*]] = fp8moe.mx_quantize %arg0 {{.*}} -> tensor<?x2048xf8E4M3FN, #
  // CHECK-NEXT: %[[D:.*]] = fp8moe.mx_dequantize %[[Q1]] by %[[S1]]
  // CHECK-NEXT: return {{.*}}, %[[D]], %[[D]]
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?x64xf8E8M0FNU>
  %q1, %s1 = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN, #col>, tensor<?x64xf8E8M0FNU>
  %d = fp8moe.mx_dequantize %q1 by %s1 along 1
      : tensor<?x2048xf8E4M3FN, #col>, tensor<?x64xf8E8M0FNU> -> tensor<?x2048xbf16, #col>
  %e = fp8moe.mx_dequantize %q1 by %s along 1
      : tensor<?x2048xf8E4M3FN, #col>, tensor<?x64xf8E8M0FNU> -> tensor<?x2048xbf16, #col>
  return %q, %s, %q1, %d, %e : tensor<?x2048xf8E4M3FN>, tensor<?x64xf8E8M0FNU>, tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xbf16, #col>, tensor<?x2048xbf16, #col>
}

// Block scales in two layouts, row-major and blocked: one quantization and a copy of the scales.

// CHECK-LABEL: func.func @tiles
func.func @tiles(%x: tensor<4096x2048xbf16>)
    -> (tensor<4096x64xf8E8M0FNU>, tensor<4096x2048xf8E4M3FN>,
        tensor<4096x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>) {
  // CHECK-NEXT: %{{.*}}, %[[S:.*]] = fp8moe.mx_quantize
  // CHECK-NEXT: fp8moe.relayout %[[S]]
  // CHECK-NEXT: return
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<4096x2048xbf16> -> tensor<4096x2048xf8E4M3FN>, tensor<4096x64xf8E8M0FNU>
  %q1, %s1 = fp8moe.mx_quantize %x along [1] mode rceil : tensor<4096x2048xbf16>
      -> tensor<4096x2048xf8E4M3FN>, tensor<4096x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
  return %s, %q1, %s1 : tensor<4096x64xf8E8M0FNU>, tensor<4096x2048xf8E4M3FN>,
      tensor<4096x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
}

// A quantization along one axis merges into the one along both axes.

// CHECK-LABEL: func.func @pair
func.func @pair(%x: tensor<?x2048xbf16>, %ends: tensor<8xi32>)
    -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xbf16>) {
  // CHECK-NEXT: %[[Q:.*]]:2, %[[S:.*]]:2 = fp8moe.jagged_dynamic_quantize %arg0 groups(%arg1 : tensor<8xi32>) along [0, 1]
  // CHECK-NEXT: %[[D:.*]] = fp8moe.dequantize %[[Q]]#0 by %[[S]]#0 along 0
  // CHECK-NEXT: return %[[Q]]#1, %[[Q]]#0, %[[D]]
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
  %q1, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN, #col>, tensor<8x2048xf32>
  %q2, %s2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN, #col>, tensor<8x2048xf32>
  %d = fp8moe.dequantize %q2 by %s2 along 0 groups(%ends : tensor<8xi32>) direction quantize
      : tensor<?x2048xf8E4M3FN, #col>, tensor<8x2048xf32> -> tensor<?x2048xbf16>
  return %q, %q1, %d : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xbf16>
}

// CHECK-LABEL: func.func @different
func.func @different(%x: tensor<64x64xbf16>, %a: tensor<4xi32>, %b: tensor<4xi32>)
    -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<4x64xf32>, tensor<4x64xf32>) {
  // CHECK-COUNT-3: fp8moe.scale
  // CHECK-COUNT-2: fp8moe.jagged_dynamic_quantize
  // CHECK: return
  %s0 = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN : tensor<64x64xbf16> -> tensor<64xf32>
  %s1 = fp8moe.scale %x along 1 rounding none fp8 f8E4M3FN : tensor<64x64xbf16> -> tensor<64xf32>
  %s2 = fp8moe.scale %x along 1 rounding pow2 fp8 f8E5M2 : tensor<64x64xbf16> -> tensor<64xf32>
  %q3, %s3 = fp8moe.jagged_dynamic_quantize %x groups(%a : tensor<4xi32>) along [0] rounding pow2
      : tensor<64x64xbf16> -> tensor<64x64xf8E4M3FN>, tensor<4x64xf32>
  %q4, %s4 = fp8moe.jagged_dynamic_quantize %x groups(%b : tensor<4xi32>) along [0] rounding pow2
      : tensor<64x64xbf16> -> tensor<64x64xf8E4M3FN>, tensor<4x64xf32>
  return %s0, %s1, %s2, %s3, %s4 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>,
      tensor<4x64xf32>, tensor<4x64xf32>
}

}
