// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fold-views))' | FileCheck %s
// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fold-views))' \
// RUN:   --remark-format=emitRemark --remarks-filter=fp8moe-layout -o /dev/null 2>&1 \
// RUN: | FileCheck %s --check-prefix=REMARK
// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fold-views))' -o %t.once
// RUN: fp8moe-opt %t.once --pass-pipeline='builtin.module(func.func(fp8moe-fold-views))' | diff %t.once -

#col = #fp8moe.strided<[1, 0]>
#ecol = #fp8moe.strided<[0, 2, 1]>
#rev = #fp8moe.strided<[2, 1, 0]>

// The data keep their layout, and the copy of the input is removed.

// CHECK-LABEL: func.func @through_copies
func.func @through_copies(%x: tensor<?x64xbf16>) -> (tensor<64x?xf8E4M3FN>, tensor<64xf32>) {
  // CHECK-NEXT: %[[Q:.*]], %[[S:.*]] = fp8moe.dynamic_quantize %arg0 along [0] rounding pow2 : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<64xf32>
  // CHECK-NEXT: %[[T:.*]] = fp8moe.transpose %[[Q]] [1, 0] : tensor<?x64xf8E4M3FN, #fp8moe.strided<[1, 0]>> -> tensor<64x?xf8E4M3FN>
  // CHECK-NEXT: return %[[T]], %[[S]]
  %t = fp8moe.transpose %x [1, 0] : tensor<?x64xbf16> -> tensor<64x?xbf16, #col>
  %c = fp8moe.contiguous %t : tensor<64x?xbf16, #col> -> tensor<64x?xbf16>
  // REMARK: [[@LINE+1]]:12: remark: [Passed] transpose-sunk {{.*}}"transpose moved below the kernel, which reads the tensor before it"
  %q, %s = fp8moe.dynamic_quantize %c along [1] rounding pow2
      : tensor<64x?xbf16> -> tensor<64x?xf8E4M3FN>, tensor<64xf32>
  return %q, %s : tensor<64x?xf8E4M3FN>, tensor<64xf32>
}

// Padded groups, alignment and explicit strides follow their dimension.

// CHECK-LABEL: func.func @layouts
func.func @layouts(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>)
    -> (tensor<64x224xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 16>>>,
        tensor<64x100xf8E4M3FN, #fp8moe.strided<[0, 1], strides = [112, 1]>>) {
  // CHECK-NEXT: fp8moe.jagged_dynamic_quantize %arg0 groups(%arg1 : tensor<8xi32>) along [0] rounding pow2 : tensor<100x64xbf16> -> tensor<224x64xf8E4M3FN, #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 16>>>, tensor<8x64xf32>
  // CHECK-NEXT: fp8moe.transpose
  // CHECK-NEXT: fp8moe.jagged_dynamic_quantize %arg0 groups(%arg1 : tensor<8xi32>) along [0, 1] rounding pow2 : tensor<100x64xbf16> -> tensor<100x64xf8E4M3FN, #fp8moe.strided<[1, 0], strides = [1, 112]>>, tensor<100x64xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<8x64xf32>, tensor<100xf32>
  %t = fp8moe.transpose %x [1, 0] : tensor<100x64xbf16> -> tensor<64x100xbf16, #col>
  %q, %s = fp8moe.jagged_dynamic_quantize %t groups(%ends : tensor<8xi32>) along [1] rounding pow2
      : tensor<64x100xbf16, #col>
      -> tensor<64x224xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 16>>>,
         tensor<8x64xf32>
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %t groups(%ends : tensor<8xi32>)
      along [1, 0] rounding pow2 : tensor<64x100xbf16, #col>
      -> tensor<64x100xf8E4M3FN, #fp8moe.strided<[0, 1], strides = [112, 1]>>,
         tensor<64x100xf8E4M3FN>, tensor<8x64xf32>, tensor<100xf32>
  return %q, %q0 : tensor<64x224xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 16>>>,
                   tensor<64x100xf8E4M3FN, #fp8moe.strided<[0, 1], strides = [112, 1]>>
}

// CHECK-LABEL: func.func @scales_and_casts
func.func @scales_and_casts(%x: tensor<100x64xbf16>, %ends: tensor<8xi32>, %d: tensor<100xf32>)
    -> (tensor<64x100xf8E4M3FN>, tensor<64x100xbf16>) {
  // CHECK-NEXT: %[[S:.*]] = fp8moe.jagged_scale %arg0 groups(%arg1 : tensor<8xi32>) along 0
  // CHECK-NEXT: %[[Q:.*]] = fp8moe.quantize %arg0 by %[[S]] along 0 groups(%arg1 : tensor<8xi32>)
  // CHECK-NEXT: %[[QT:.*]] = fp8moe.transpose %[[Q]] [1, 0]
  // CHECK-NEXT: %[[R:.*]] = fp8moe.scale %arg0 along 1
  // CHECK-NEXT: %[[D:.*]] = fp8moe.dequantize %[[Q]] by %[[R]] along 1 direction quantize
  // CHECK-NEXT: %[[DT:.*]] = fp8moe.transpose %[[D]] [1, 0]
  // CHECK-NEXT: return %[[QT]], %[[DT]]
  %t = fp8moe.transpose %x [1, 0] : tensor<100x64xbf16> -> tensor<64x100xbf16, #col>
  %s = fp8moe.jagged_scale %t groups(%ends : tensor<8xi32>) along 1 rounding pow2 fp8 f8E4M3FN
      : tensor<64x100xbf16, #col> -> tensor<8x64xf32>
  %q = fp8moe.quantize %t by %s along 1 groups(%ends : tensor<8xi32>)
      : tensor<64x100xbf16, #col>, tensor<8x64xf32> -> tensor<64x100xf8E4M3FN>
  %r = fp8moe.scale %t along 0 rounding pow2 fp8 f8E4M3FN
      : tensor<64x100xbf16, #col> -> tensor<100xf32>
  %b = fp8moe.dequantize %q by %r along 0 direction quantize
      : tensor<64x100xf8E4M3FN>, tensor<100xf32> -> tensor<64x100xbf16>
  return %q, %b : tensor<64x100xf8E4M3FN>, tensor<64x100xbf16>
}

// For expert weights, block scales stay one matrix per expert, also blocked ones.

// CHECK-LABEL: func.func @experts
func.func @experts(%w: tensor<8x64x128xbf16>)
    -> (tensor<8x128x64xbf16>, tensor<8x128x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>) {
  // CHECK-NEXT: %[[Q:.*]], %[[S:.*]] = fp8moe.mx_quantize %arg0 along [1] mode rceil square : tensor<8x64x128xbf16> -> tensor<8x64x128xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<8x128x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
  // CHECK-NEXT: %[[D:.*]] = fp8moe.mx_dequantize %[[Q]] by %[[S]] along 1
  // CHECK-NEXT: %[[T:.*]] = fp8moe.transpose %[[D]] [0, 2, 1]
  // CHECK-NEXT: return %[[T]], %[[S]]
  %t = fp8moe.transpose %w [0, 2, 1] : tensor<8x64x128xbf16> -> tensor<8x128x64xbf16, #ecol>
  %q, %s = fp8moe.mx_quantize %t along [2] mode rceil square : tensor<8x128x64xbf16, #ecol>
      -> tensor<8x128x64xf8E4M3FN>, tensor<8x128x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
  %d = fp8moe.mx_dequantize %q by %s along 2
      : tensor<8x128x64xf8E4M3FN>, tensor<8x128x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
      -> tensor<8x128x64xbf16>
  return %d, %s : tensor<8x128x64xbf16>, tensor<8x128x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
}

// Scales in another order are transposed, if that needs no copy.

// CHECK-LABEL: func.func @scales_undone
func.func @scales_undone(%w: tensor<8x64x128xbf16>, %s: tensor<8x64xf32>)
    -> (tensor<64x8x128xf8E4M3FN>, tensor<8x64xf32>, tensor<64x8x128xf8E4M3FN>) {
  // CHECK-NEXT: %[[Q:.*]], %[[S:.*]] = fp8moe.dynamic_quantize %arg0 along [2] {{.*}}, tensor<8x64xf32>
  // CHECK-NEXT: %[[QT:.*]] = fp8moe.transpose %[[Q]] [1, 0, 2]
  // CHECK-NEXT: %[[R:.*]] = fp8moe.quantize %arg0 by %arg1 along 2
  // CHECK-NEXT: %[[RT:.*]] = fp8moe.transpose %[[R]] [1, 0, 2]
  // CHECK-NEXT: return %[[QT]], %[[S]], %[[RT]]
  %t = fp8moe.transpose %w [1, 0, 2]
      : tensor<8x64x128xbf16> -> tensor<64x8x128xbf16, #fp8moe.strided<[1, 0, 2]>>
  %q, %ts = fp8moe.dynamic_quantize %t along [2] rounding pow2
      : tensor<64x8x128xbf16, #fp8moe.strided<[1, 0, 2]>>
      -> tensor<64x8x128xf8E4M3FN>, tensor<64x8xf32>
  %u = fp8moe.transpose %ts [1, 0] : tensor<64x8xf32> -> tensor<8x64xf32, #col>
  %uc = fp8moe.contiguous %u : tensor<8x64xf32, #col> -> tensor<8x64xf32>
  %v = fp8moe.transpose %s [1, 0] : tensor<8x64xf32> -> tensor<64x8xf32, #col>
  %vc = fp8moe.contiguous %v : tensor<64x8xf32, #col> -> tensor<64x8xf32>
  %r = fp8moe.quantize %t by %vc along 2
      : tensor<64x8x128xbf16, #fp8moe.strided<[1, 0, 2]>>, tensor<64x8xf32>
      -> tensor<64x8x128xf8E4M3FN>
  return %q, %uc, %r : tensor<64x8x128xf8E4M3FN>, tensor<8x64xf32>, tensor<64x8x128xf8E4M3FN>
}

// The transpose of merged experts and the merge both vanish. (Layout placement takes the copy.)

// CHECK-LABEL: func.func @merged
func.func @merged(%w: tensor<8x64x128xbf16>) -> (tensor<8x128x64xf8E4M3FN>, tensor<512xf32>) {
  // CHECK-NEXT: %[[Q:.*]], %[[S:.*]] = fp8moe.dynamic_quantize %arg0 along [2]
  // CHECK-NEXT: %[[SM:.*]] = fp8moe.reshape %[[S]] : tensor<8x64xf32> -> tensor<512xf32>
  // CHECK-NEXT: %[[T:.*]] = fp8moe.transpose %[[Q]] [0, 2, 1]
  // CHECK-NEXT: %[[C:.*]] = fp8moe.relayout %[[T]]
  // CHECK-NEXT: return %[[C]], %[[SM]]
  %m = fp8moe.reshape %w : tensor<8x64x128xbf16> -> tensor<512x128xbf16>
  %t = fp8moe.transpose %m [1, 0] : tensor<512x128xbf16> -> tensor<128x512xbf16, #col>
  %q, %s = fp8moe.dynamic_quantize %t along [0] rounding pow2
      : tensor<128x512xbf16, #col> -> tensor<128x512xf8E4M3FN, #col>, tensor<512xf32>
  %u = fp8moe.transpose %q [1, 0] : tensor<128x512xf8E4M3FN, #col> -> tensor<512x128xf8E4M3FN>
  %e = fp8moe.reshape %u : tensor<512x128xf8E4M3FN> -> tensor<8x64x128xf8E4M3FN>
  %et = fp8moe.transpose %e [0, 2, 1] : tensor<8x64x128xf8E4M3FN> -> tensor<8x128x64xf8E4M3FN, #ecol>
  %ec = fp8moe.contiguous %et : tensor<8x128x64xf8E4M3FN, #ecol> -> tensor<8x128x64xf8E4M3FN>
  return %ec, %s : tensor<8x128x64xf8E4M3FN>, tensor<512xf32>
}

//===----------------------------------------------------------------------===//
// Transposes that stay
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @kept
func.func @kept(%x: tensor<64x128xbf16>, %w: tensor<8x64x128xbf16>, %ends: tensor<4xi32>)
    -> (tensor<128x64xf8E4M3FN>, tensor<64x8x128xf8E4M3FN>, tensor<64x8xf32>,
        tensor<64x8x128xf8E4M3FN>, tensor<128x64xf8E4M3FN>) {
  %t = fp8moe.transpose %x [1, 0] : tensor<64x128xbf16> -> tensor<128x64xbf16, #col>
  %v = fp8moe.transpose %w [1, 0, 2]
      : tensor<8x64x128xbf16> -> tensor<64x8x128xbf16, #fp8moe.strided<[1, 0, 2]>>
  // CHECK: fp8moe.mx_quantize %{{.*}} along [1] mode rceil groups
  // REMARK: [[@LINE+1]]:12: remark: [Missed] transpose-kept {{.*}}"transpose kept above the kernel: the groups of its MX blocks are ranges of rows"
  %q, %s = fp8moe.mx_quantize %t along [1] mode rceil groups(%ends : tensor<4xi32>)
      : tensor<128x64xbf16, #col>
      -> tensor<128x64xf8E4M3FN>, tensor<640x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
  // CHECK: fp8moe.dynamic_quantize %{{.*}} along [2] rounding pow2 : tensor<64x8x128xbf16
  // REMARK: [[@LINE+1]]:14: remark: [Missed] transpose-kept {{.*}}its scales would have to be copied"
  %q1, %s1 = fp8moe.dynamic_quantize %v along [2] rounding pow2
      : tensor<64x8x128xbf16, #fp8moe.strided<[1, 0, 2]>>
      -> tensor<64x8x128xf8E4M3FN>, tensor<64x8xf32>
  // CHECK: fp8moe.mx_quantize %{{.*}} along [1] mode rceil square
  // REMARK: [[@LINE+1]]:14: remark: [Missed] transpose-kept {{.*}}its blocks span two dimensions, which must be the last ones"
  %q2, %s2 = fp8moe.mx_quantize %v along [1] mode rceil square
      : tensor<64x8x128xbf16, #fp8moe.strided<[1, 0, 2]>>
      -> tensor<64x8x128xf8E4M3FN>, tensor<64x128x1xf8E8M0FNU>
  // CHECK: fp8moe.dynamic_quantize %{{.*}} along [1] rounding pow2 tiles
  // REMARK: [[@LINE+1]]:14: remark: [Missed] transpose-kept {{.*}}its tile was chosen for the transposed tensor"
  %q3, %s3 = fp8moe.dynamic_quantize %t along [1] rounding pow2
      tiles [#fp8moe.two_pass<columns = 64, threads = 256>] : tensor<128x64xbf16, #col> -> tensor<128x64xf8E4M3FN>, tensor<128xf32>
  return %q, %q1, %s1, %q2, %q3 : tensor<128x64xf8E4M3FN>, tensor<64x8x128xf8E4M3FN>,
      tensor<64x8xf32>, tensor<64x8x128xf8E4M3FN>, tensor<128x64xf8E4M3FN>
}

// The square block spans the dimension that the transpose moves, so the transpose stays.
// CHECK-LABEL: func.func @square_of_moved_rows
// CHECK:         fp8moe.mx_quantize %{{.*}} along [2] mode rceil square : tensor<96x40x64xbf16
func.func @square_of_moved_rows(%x: tensor<40x96x64xbf16>) -> tensor<96x40x64xf8E4M3FN> {
  %t = fp8moe.transpose %x [1, 0, 2]
      : tensor<40x96x64xbf16> -> tensor<96x40x64xbf16, #fp8moe.strided<[1, 0, 2]>>
  %q, %s = fp8moe.mx_quantize %t along [2] mode rceil square
      : tensor<96x40x64xbf16, #fp8moe.strided<[1, 0, 2]>>
      -> tensor<96x40x64xf8E4M3FN>, tensor<96x40x2xf8E8M0FNU>
  return %q : tensor<96x40x64xf8E4M3FN>
}

// The copy of the input is also the scale operand. Only the input is replaced.
// CHECK-LABEL: func.func @its_own_scale
// CHECK:         %[[COPY:.*]] = fp8moe.{{contiguous|relayout}}
// CHECK:         fp8moe.quantize %arg0 by %[[COPY]] along 1 groups
func.func @its_own_scale(%x: tensor<5x64xf32>, %ends: tensor<64xi32>) -> tensor<64x5xf8E4M3FN> {
  %t = fp8moe.transpose %x [1, 0] : tensor<5x64xf32> -> tensor<64x5xf32, #col>
  %c = fp8moe.contiguous %t : tensor<64x5xf32, #col> -> tensor<64x5xf32>
  %q = fp8moe.quantize %c by %c along 0 groups(%ends : tensor<64xi32>)
      : tensor<64x5xf32>, tensor<64x5xf32> -> tensor<64x5xf8E4M3FN>
  return %q : tensor<64x5xf8E4M3FN>
}
