// RUN: fp8moe-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(func.func(fp8moe-fuse-quantize))' | FileCheck %s
// RUN: fp8moe-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(func.func(fp8moe-fuse-quantize))' \
// RUN:   --remark-format=emitRemark --remarks-filter=fp8moe-layout -o /dev/null 2>&1 \
// RUN: | FileCheck %s --check-prefix=REMARK

// In the fused operation columns come before rows, in whichever order they were written.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @rows_before_columns
  func.func @rows_before_columns(%w: tensor<128x768x2048xbf16>)
      -> (tensor<128x768x2048xf8E4M3FN>, tensor<128x768x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>) {
    // CHECK-NEXT: %[[Q:.*]]:2, %{{.*}}:2 = fp8moe.dynamic_quantize %arg0 along [1, 2] rounding pow2
    // CHECK-NEXT: return %[[Q]]#1, %[[Q]]#0
    %q:2, %s:2 = fp8moe.dynamic_quantize %w along [2, 1] rounding pow2 : tensor<128x768x2048xbf16>
        -> tensor<128x768x2048xf8E4M3FN>, tensor<128x768x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<128x768xf32>, tensor<128x2048xf32>
    return %q#0, %q#1 : tensor<128x768x2048xf8E4M3FN>, tensor<128x768x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>
  }
}

// -----

// No kernel on this target quantizes both axes, so both operations stay and may read different
// layouts.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_100a">} {
  // CHECK-LABEL: func.func @no_kernel_for_both
  func.func @no_kernel_for_both(%x: tensor<?x64xbf16, #col>, %ends: tensor<3xi32>)
      -> (tensor<?x64xf8E4M3FN, #col>, tensor<?x64xf8E4M3FN>) {
    // CHECK-NEXT: fp8moe.jagged_dynamic_quantize %arg0 groups(%arg1 : tensor<3xi32>) along [0] rounding pow2
    // CHECK-NEXT: fp8moe.dynamic_quantize %arg0 along [1] rounding pow2
    // CHECK-NEXT: return
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xi32>) along [0, 1] rounding pow2
        : tensor<?x64xbf16, #col> -> tensor<?x64xf8E4M3FN, #col>, tensor<?x64xf8E4M3FN>, tensor<3x64xf32>, tensor<?xf32>
    return %q#0, %q#1 : tensor<?x64xf8E4M3FN, #col>, tensor<?x64xf8E4M3FN>
  }
}

// -----

// The scales have another user, which takes those of the fused operation.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @scale_and_cast
  func.func @scale_and_cast(%x: tensor<?x64xbf16>) -> (tensor<?xf32>, tensor<?x64xf8E4M3FN>) {
    // CHECK-NEXT: %[[Q:.*]], %[[S:.*]] = fp8moe.dynamic_quantize %arg0 along [1] rounding pow2 : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    // CHECK-NEXT: return %[[S]], %[[Q]]
    %s = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN : tensor<?x64xbf16> -> tensor<?xf32>
    %q = fp8moe.quantize %x by %s along 1
        : tensor<?x64xbf16>, tensor<?xf32> -> tensor<?x64xf8E4M3FN>
    return %s, %q : tensor<?xf32>, tensor<?x64xf8E4M3FN>
  }

  // CHECK-LABEL: func.func @jagged_scale_and_cast
  func.func @jagged_scale_and_cast(%x: tensor<?x64xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x64xf8E5M2>, tensor<8x64xf32>) {
    // CHECK-NEXT: fp8moe.jagged_dynamic_quantize %arg0 groups(%arg1 : tensor<8xi32>) along [0] rounding none
    %s = fp8moe.jagged_scale %x groups(%ends : tensor<8xi32>) along 0 rounding none fp8 f8E5M2
        : tensor<?x64xbf16> -> tensor<8x64xf32>
    %q = fp8moe.quantize %x by %s along 0 groups(%ends : tensor<8xi32>)
        : tensor<?x64xbf16>, tensor<8x64xf32> -> tensor<?x64xf8E5M2>
    return %q, %s : tensor<?x64xf8E5M2>, tensor<8x64xf32>
  }

  // No fusion: the scales are for another FP8 type, axis, grouping or tensor.
  // CHECK-LABEL: func.func @other_scales
  func.func @other_scales(%x: tensor<64x64xbf16>, %y: tensor<64x64xbf16>,
                          %a: tensor<64xi32>, %b: tensor<64xi32>)
      -> (tensor<64x64xf8E5M2>, tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>,
          tensor<64x64xf8E4M3FN>) {
    // CHECK-NOT: dynamic_quantize
    // CHECK: return
    %s = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN : tensor<64x64xbf16> -> tensor<64xf32>
    %j = fp8moe.jagged_scale %x groups(%a : tensor<64xi32>) along 0 rounding pow2 fp8 f8E4M3FN
        : tensor<64x64xbf16> -> tensor<64x64xf32>
    %q0 = fp8moe.quantize %x by %s along 1
        : tensor<64x64xbf16>, tensor<64xf32> -> tensor<64x64xf8E5M2>
    %q1 = fp8moe.quantize %x by %s along 0
        : tensor<64x64xbf16>, tensor<64xf32> -> tensor<64x64xf8E4M3FN>
    %q2 = fp8moe.quantize %x by %j along 0 groups(%b : tensor<64xi32>)
        : tensor<64x64xbf16>, tensor<64x64xf32> -> tensor<64x64xf8E4M3FN>
    %q3 = fp8moe.quantize %y by %s along 1
        : tensor<64x64xbf16>, tensor<64xf32> -> tensor<64x64xf8E4M3FN>
    return %q0, %q1, %q2, %q3 : tensor<64x64xf8E5M2>, tensor<64x64xf8E4M3FN>,
                                tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>
  }

  // Jagged columns and rows are fused on sm_90a. Nothing else is.
  // CHECK-LABEL: func.func @groups_and_rows
  func.func @groups_and_rows(%x: tensor<?x2048xbf16>, %ends: tensor<16xi32>)
      -> (tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>) {
    // CHECK: %[[Q:.*]]:2, %{{.*}}:2 = fp8moe.jagged_dynamic_quantize %arg0 groups(%arg1 : tensor<16xi32>) along [0, 1]
    // CHECK: return %[[Q]]#1, %[[Q]]#0
    // REMARK: [[@LINE+3]]:16: remark: [Passed] fused
    %q1, %s1 = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
    %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<16xi32>) along [0]
        rounding pow2
        : tensor<?x2048xbf16>
        -> tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<16x2048xf32>
    return %q1, %q0 : tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0]>>
  }

  // No fusion: the bytes of a row, 2^64 + 8192, overflow 64 bits.
  // CHECK-LABEL: func.func @uncountable_rows
  func.func @uncountable_rows(%x: tensor<?x4611686018427389952xf32>, %ends: tensor<16xi32>)
      -> (tensor<?x4611686018427389952xf8E4M3FN>,
          tensor<?x4611686018427389952xf8E4M3FN, #fp8moe.strided<[1, 0]>>) {
    // CHECK: dynamic_quantize {{.*}} along [1] rounding
    // CHECK: dynamic_quantize {{.*}} along [0] rounding
    %q1, %s1 = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x4611686018427389952xf32> -> tensor<?x4611686018427389952xf8E4M3FN>, tensor<?xf32>
    %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<16xi32>) along [0]
        rounding pow2
        : tensor<?x4611686018427389952xf32>
        -> tensor<?x4611686018427389952xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<16x4611686018427389952xf32>
    return %q1, %q0 : tensor<?x4611686018427389952xf8E4M3FN>,
                      tensor<?x4611686018427389952xf8E4M3FN, #fp8moe.strided<[1, 0]>>
  }

  // CHECK-LABEL: func.func @two_axes_gpu
  func.func @two_axes_gpu(%x: tensor<?x64xbf16>)
      -> (tensor<?x64xf8E4M3FN>, tensor<?x64xf8E4M3FN>) {
    // CHECK: along [1]
    // REMARK: [[@LINE+4]]:16: remark: [Missed] not-fused
    // CHECK: along [0]
    %q1, %s1 = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    %q0, %s0 = fp8moe.dynamic_quantize %x along [0] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<64xf32>
    return %q1, %q0 : tensor<?x64xf8E4M3FN>, tensor<?x64xf8E4M3FN>
  }
}

// -----

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
  // Quantizations of a tensor and of its copy are fused.
  // CHECK-LABEL: func.func @two_axes
  func.func @two_axes(%x: tensor<?x64xbf16>)
      -> (tensor<?x64xf8E4M3FN>, tensor<?x64xf8E4M3FN, #col>, tensor<64xf32>) {
    // Columns come before rows.
    // CHECK: %[[Q:.*]]:2, %[[S:.*]]:2 = fp8moe.dynamic_quantize %arg0 along [0, 1] rounding pow2 : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<?x64xf8E4M3FN>, tensor<64xf32>, tensor<?xf32>
    // CHECK: return %[[Q]]#1, %[[Q]]#0, %[[S]]#0
    %q1, %s1 = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    %c = fp8moe.relayout %x : tensor<?x64xbf16> -> tensor<?x64xbf16, #col>
    %q0, %s0 = fp8moe.dynamic_quantize %c along [0] rounding pow2
        : tensor<?x64xbf16, #col> -> tensor<?x64xf8E4M3FN, #col>, tensor<64xf32>
    return %q1, %q0, %s0
        : tensor<?x64xf8E4M3FN>, tensor<?x64xf8E4M3FN, #col>, tensor<64xf32>
  }

  // The jagged axis comes first, in whichever order the axes were written.
  // CHECK-LABEL: func.func @jagged_second
  func.func @jagged_second(%x: tensor<?x64xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>, tensor<?x64xf8E4M3FN>, tensor<8x64xf32>) {
    // CHECK: %[[Q:.*]]:2, %[[S:.*]]:2 = fp8moe.jagged_dynamic_quantize %arg0 groups(%arg1 : tensor<8xi32>) along [0, 1]
    // CHECK: return %[[Q]]#1, %[[S]]#1, %[[Q]]#0, %[[S]]#0
    %q1, %s1 = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
        rounding pow2 : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<8x64xf32>
    return %q1, %s1, %q0, %s0 : tensor<?x64xf8E4M3FN>, tensor<?xf32>,
                                tensor<?x64xf8E4M3FN>, tensor<8x64xf32>
  }

  // No fusion: another rounding gives other values, and a given tile belongs to one operation.
  // CHECK-LABEL: func.func @not_alike
  func.func @not_alike(%x: tensor<64x64xbf16>, %y: tensor<64x64xbf16>) {
    // CHECK-COUNT-4: dynamic_quantize {{.*}} along [{{[01]}}]
    %q1, %s1 = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<64x64xbf16> -> tensor<64x64xf8E4M3FN>, tensor<64xf32>
    %q0, %s0 = fp8moe.dynamic_quantize %x along [0] rounding none
        : tensor<64x64xbf16> -> tensor<64x64xf8E4M3FN>, tensor<64xf32>
    %q3, %s3 = fp8moe.dynamic_quantize %y along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
        : tensor<64x64xbf16> -> tensor<64x64xf8E4M3FN>, tensor<64xf32>
    %q2, %s2 = fp8moe.dynamic_quantize %y along [0] rounding pow2
        : tensor<64x64xbf16> -> tensor<64x64xf8E4M3FN>, tensor<64xf32>
    return
  }
}

// -----

#col = #fp8moe.strided<[1, 0]>
#padded = #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // The quantization writes the padded groups itself, also through a transpose.
  // CHECK-LABEL: func.func @padding
  func.func @padding(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> tensor<64x224xf8E4M3FN, #padded> {
    // CHECK-NEXT: %[[Q:.*]], %{{.*}} = fp8moe.jagged_dynamic_quantize {{.*}} -> tensor<224x64xf8E4M3FN, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>>
    // CHECK-NEXT: %[[T:.*]] = fp8moe.transpose %[[Q]] [1, 0]
    // CHECK-NEXT: return %[[T]]
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
        rounding pow2 : tensor<100x64xbf16> -> tensor<100x64xf8E4M3FN, #col>, tensor<8x64xf32>
    %t = fp8moe.transpose %q [1, 0] : tensor<100x64xf8E4M3FN, #col> -> tensor<64x100xf8E4M3FN>
    // REMARK: [[@LINE+1]]:10: remark: [Passed] copy-removed
    %p = fp8moe.relayout %t groups(%ends : tensor<8xi32>)
        : tensor<64x100xf8E4M3FN> -> tensor<64x224xf8E4M3FN, #padded>
    return %p : tensor<64x224xf8E4M3FN, #padded>
  }

  // No fusion: the packed data are used, too, or the padding has other groups.
  // CHECK-LABEL: func.func @padding_kept
  func.func @padding_kept(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>, %other: tensor<8xi32>)
      -> (tensor<100x64xf8E4M3FN>, tensor<224x64xf8E4M3FN, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>,
          tensor<224x64xf8E4M3FN, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>) {
    // CHECK-COUNT-2: relayout
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
        rounding pow2 : tensor<100x64xbf16> -> tensor<100x64xf8E4M3FN>, tensor<8x64xf32>
    %p = fp8moe.relayout %q groups(%ends : tensor<8xi32>) : tensor<100x64xf8E4M3FN>
        -> tensor<224x64xf8E4M3FN, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
    %r, %rs = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
        rounding none : tensor<100x64xbf16> -> tensor<100x64xf8E4M3FN>, tensor<8x64xf32>
    %o = fp8moe.relayout %r groups(%other : tensor<8xi32>) : tensor<100x64xf8E4M3FN>
        -> tensor<224x64xf8E4M3FN, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
    return %q, %p, %o : tensor<100x64xf8E4M3FN>,
        tensor<224x64xf8E4M3FN, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>,
        tensor<224x64xf8E4M3FN, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
  }
}

// -----

#padded = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
  // No fusion: one relayout packs to another number of rows, which the quantization cannot write.
  // CHECK-LABEL: func.func @packed_to_other_rows
  // CHECK:         jagged_dynamic_quantize {{.*}} -> tensor<224x64xf8E4M3FN, #{{.*}}>
  // CHECK-COUNT-2: relayout
  func.func @packed_to_other_rows(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> (tensor<100x64xf8E4M3FN>, tensor<99x64xf8E4M3FN>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
        : tensor<100x64xbf16> -> tensor<224x64xf8E4M3FN, #padded>, tensor<8x64xf32>
    %a = fp8moe.relayout %q groups(%ends : tensor<8xi32>) : tensor<224x64xf8E4M3FN, #padded> -> tensor<100x64xf8E4M3FN>
    %b = fp8moe.relayout %q groups(%ends : tensor<8xi32>) : tensor<224x64xf8E4M3FN, #padded> -> tensor<99x64xf8E4M3FN>
    return %a, %b : tensor<100x64xf8E4M3FN>, tensor<99x64xf8E4M3FN>
  }

  // CHECK-LABEL: func.func @packed_to_other_rows_first
  // CHECK:         jagged_dynamic_quantize {{.*}} -> tensor<224x64xf8E4M3FN, #{{.*}}>
  // CHECK-COUNT-2: relayout
  func.func @packed_to_other_rows_first(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>) -> (tensor<100x64xf8E4M3FN>, tensor<99x64xf8E4M3FN>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
        : tensor<100x64xbf16> -> tensor<224x64xf8E4M3FN, #padded>, tensor<8x64xf32>
    %b = fp8moe.relayout %q groups(%ends : tensor<8xi32>) : tensor<224x64xf8E4M3FN, #padded> -> tensor<99x64xf8E4M3FN>
    %a = fp8moe.relayout %q groups(%ends : tensor<8xi32>) : tensor<224x64xf8E4M3FN, #padded> -> tensor<100x64xf8E4M3FN>
    return %a, %b : tensor<100x64xf8E4M3FN>, tensor<99x64xf8E4M3FN>
  }
}
