// RUN: fp8moe-opt %s --convert-fp8moe-to-loops --canonicalize --cse --split-input-file | FileCheck %s

// Along the contiguous dimension, each row is one reduction over magnitude bits. The scale is
// f32(448 / max(amax, 1e-12)) rounded down to a power of two, or NaN.

// CHECK-LABEL: func @scale_rows(
// CHECK-SAME:    %[[X:.*]]: memref<?x64xbf16>, %[[S:.*]]: memref<?xf32>)
func.func @scale_rows(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
  // CHECK-DAG:  %[[MAX:.*]] = arith.constant 4.480000e+02 : f64
  // CHECK-DAG:  %[[LEAST:.*]] = arith.constant 9.9999999999999998E-13 : f64
  // CHECK-DAG:  %[[INF:.*]] = arith.constant 2139095040 : i32
  // CHECK-DAG:  %[[NAN:.*]] = arith.constant 0x7FC00000 : f32
  // CHECK:      scf.for %[[I:[^ ]*]] =
  // CHECK:        %[[AMAX:.*]] = scf.for %[[J:[^ ]*]] = {{.*}} iter_args(%[[SO_FAR:.*]] = %{{.*}}) -> (i32)
  // CHECK:          memref.load %[[X]][%[[I]], %[[J]]]
  // CHECK:          %[[ABS:.*]] = arith.andi
  // CHECK:          arith.maxui %[[SO_FAR]], %[[ABS]] : i32
  // CHECK:        %[[F32:.*]] = arith.bitcast %[[AMAX]] : i32 to f32
  // CHECK:        %[[F64:.*]] = arith.extf %[[F32]] : f32 to f64
  // CHECK:        %[[LESS:.*]] = arith.cmpf olt, %[[F64]], %[[LEAST]]
  // CHECK:        %[[DIVISOR:.*]] = arith.select %[[LESS]], %[[LEAST]], %[[F64]]
  // CHECK:        %[[QUOTIENT:.*]] = arith.divf %[[MAX]], %[[DIVISOR]] : f64
  // CHECK:        %[[SCALE:.*]] = arith.truncf %[[QUOTIENT]] : f64 to f32
  // CHECK:        %[[BITS:.*]] = arith.bitcast %[[SCALE]] : f32 to i32
  // CHECK:        %[[EXPONENT:.*]] = arith.andi %[[BITS]], %[[INF]]
  // CHECK:        %[[POW2:.*]] = arith.bitcast %[[EXPONENT]] : i32 to f32
  // CHECK:        %[[IS_NAN:.*]] = arith.cmpi ugt, %[[AMAX]], %[[INF]]
  // CHECK:        %[[RESULT:.*]] = arith.select %[[IS_NAN]], %[[NAN]], %[[POW2]]
  // CHECK:        memref.store %[[RESULT]], %[[S]][%[[I]]]
  %s = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN : tensor<?x64xbf16> -> tensor<?xf32>
  return %s : tensor<?xf32>
}

// -----

// Along the outer dimension, the loop goes over rows, and the output buffer holds the running amax
// of all columns. With `rounding none` the mantissa stays.

// CHECK-LABEL: func @scale_columns(
// CHECK-SAME:    %[[X:.*]]: memref<?x64xf32>, %[[S:.*]]: memref<64xf32>)
func.func @scale_columns(%x: tensor<?x64xf32>) -> tensor<64xf32> {
  // CHECK-DAG:  %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK-DAG:  %[[MAX:.*]] = arith.constant 5.734400e+04 : f64
  // CHECK:      scf.for %[[J:[^ ]*]] =
  // CHECK-NEXT:   memref.store %[[ZERO]], %[[S]][%[[J]]]
  // CHECK:      scf.for %[[I:[^ ]*]] =
  // CHECK-NEXT:   scf.for %[[J:[^ ]*]] =
  // CHECK:          memref.load %[[X]][%[[I]], %[[J]]]
  // CHECK:          memref.load %[[S]][%[[J]]]
  // CHECK:          arith.maxui
  // CHECK:          memref.store %{{.*}}, %[[S]][%[[J]]]
  // CHECK:      scf.for %[[J:[^ ]*]] =
  // CHECK:        %[[QUOTIENT:.*]] = arith.divf %[[MAX]]
  // CHECK:        %[[SCALE:.*]] = arith.truncf %[[QUOTIENT]]
  // CHECK-NOT:    arith.andi
  // CHECK:        arith.select %{{.*}}, %{{.*}}, %[[SCALE]]
  %s = fp8moe.scale %x along 0 rounding none fp8 f8E5M2 : tensor<?x64xf32> -> tensor<64xf32>
  return %s : tensor<64xf32>
}

// -----

// Values are clamped before the cast. The clamp keeps NaN.

// CHECK-LABEL: func @quantize(
// CHECK-SAME:    %[[X:.*]]: memref<?x64xbf16>, %[[S:.*]]: memref<?xf32>, %[[Q:.*]]: memref<?x64xf8E4M3FNUZ, strided<[1, ?]>>)
func.func @quantize(%x: tensor<?x64xbf16>, %s: tensor<?xf32>)
    -> tensor<?x64xf8E4M3FNUZ, #fp8moe.strided<[1, 0]>> {
  // CHECK-DAG:  %[[UPPER:.*]] = arith.constant 2.400000e+02 : f32
  // CHECK-DAG:  %[[LOWER:.*]] = arith.constant -2.400000e+02 : f32
  // CHECK:      scf.for %[[I:[^ ]*]] =
  // CHECK-NEXT:   %[[SCALE:.*]] = memref.load %[[S]][%[[I]]]
  // CHECK-NEXT:   scf.for %[[J:[^ ]*]] =
  // CHECK-NEXT:     memref.load %[[X]][%[[I]], %[[J]]]
  // CHECK:          %[[P:.*]] = arith.mulf %{{.*}}, %[[SCALE]]
  // CHECK:          %[[ABOVE:.*]] = arith.cmpf ogt, %[[P]], %[[UPPER]]
  // CHECK:          %[[C:.*]] = arith.select %[[ABOVE]], %[[UPPER]], %[[P]]
  // CHECK:          %[[BELOW:.*]] = arith.cmpf olt, %[[P]], %[[LOWER]]
  // CHECK:          %[[D:.*]] = arith.select %[[BELOW]], %[[LOWER]], %[[C]]
  // CHECK:          %[[CAST:.*]] = arith.truncf %[[D]] : f32 to f8E4M3FNUZ
  // CHECK:          memref.store %[[CAST]], %[[Q]][%[[I]], %[[J]]]
  %q = fp8moe.quantize %x by %s along 1 : tensor<?x64xbf16>, tensor<?xf32>
      -> tensor<?x64xf8E4M3FNUZ, #fp8moe.strided<[1, 0]>>
  return %q : tensor<?x64xf8E4M3FNUZ, #fp8moe.strided<[1, 0]>>
}

// -----

// The first index of a scale is the number of its group. Rows that belong to no group are zero.

// CHECK-LABEL: func @dequantize_groups(
// CHECK-SAME:    %[[Q:.*]]: memref<?x64xf8E4M3FN>, %[[S:.*]]: memref<4x64xf32>, %{{.*}}: memref<4xi32>, %[[X:.*]]: memref<?x64xbf16>)
func.func @dequantize_groups(%q: tensor<?x64xf8E4M3FN>, %s: tensor<4x64xf32>, %ends: tensor<4xi32>)
    -> tensor<?x64xbf16> {
  // CHECK-DAG:  %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
  // CHECK-DAG:  %[[ZERO:.*]] = arith.constant 0.000000e+00 : bf16
  // CHECK:      %[[LAST:.*]] = scf.for %[[G:[^ ]*]] = {{.*}} iter_args(%[[BEGIN:.*]] =
  // CHECK:        scf.for %[[I:[^ ]*]] = %[[BEGIN]] to
  // CHECK-NEXT:     scf.for %[[J:[^ ]*]] =
  // CHECK-NEXT:       %[[SCALE:.*]] = memref.load %[[S]][%[[G]], %[[J]]]
  // CHECK-NEXT:       %[[D:.*]] = arith.divf %[[ONE]], %[[SCALE]] : f32
  // CHECK:            arith.mulf %{{.*}}, %[[D]] : f32
  // CHECK:      scf.for %{{.*}} = %[[LAST]] to
  // CHECK:          memref.store %[[ZERO]], %[[X]]
  %x = fp8moe.dequantize %q by %s along 0 groups(%ends : tensor<4xi32>) direction quantize
      : tensor<?x64xf8E4M3FN>, tensor<4x64xf32> -> tensor<?x64xbf16>
  return %x : tensor<?x64xbf16>
}

// -----

// `direction dequantize` scales are factors already, so nothing is divided.

// CHECK-LABEL: func @dequantize_by_inverse(
func.func @dequantize_by_inverse(%q: tensor<8x64xf8E5M2>, %d: tensor<8xf32>) -> tensor<8x64xf32> {
  // CHECK-NOT:  arith.divf
  // CHECK:      return
  %x = fp8moe.dequantize %q by %d along 1 direction dequantize
      : tensor<8x64xf8E5M2>, tensor<8xf32> -> tensor<8x64xf32>
  return %x : tensor<8x64xf32>
}

// -----

// Padded groups. Data are written at the padded start of their group. The scales have one row a
// group, without padding.

#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>

// CHECK-LABEL: func @jagged(
// CHECK-SAME:    %[[X:.*]]: memref<?x8xbf16>, %{{.*}}: memref<3xi32>, %[[Q:[^:]*]]: memref<?x8xf8E4M3FN, strided<[1, ?]>>, %[[S:.*]]: memref<3x8xf32>)
func.func @jagged(%x: tensor<?x8xbf16>, %ends: tensor<3xi32>)
    -> (tensor<?x8xf8E4M3FN, #padded>, tensor<3x8xf32>) {
  // CHECK:      scf.for %[[G:[^ ]*]] = {{.*}} iter_args(%[[BEGIN:.*]] = %{{.*}}, %[[START:.*]] = %{{.*}})
  // CHECK:        arith.maxui
  // CHECK:        %[[SHIFT:.*]] = arith.subi %[[START]], %[[BEGIN]]
  // CHECK:        scf.for %[[I:[^ ]*]] = %[[BEGIN]] to
  // CHECK:            memref.load %[[S]][%[[G]],
  // CHECK:            %[[TO:.*]] = arith.addi %[[I]], %[[SHIFT]]
  // CHECK:            memref.store %{{.*}}, %[[Q]][%[[TO]],
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xi32>) along [0] rounding pow2
      : tensor<?x8xbf16> -> tensor<?x8xf8E4M3FN, #padded>, tensor<3x8xf32>
  return %q, %s : tensor<?x8xf8E4M3FN, #padded>, tensor<3x8xf32>
}

// -----

// Only axis 0 is quantized by groups. Axis 1 is quantized as a whole.

// CHECK-LABEL: func @jagged_and_rows(
// CHECK-SAME:    %[[X:.*]]: memref<?x8xbf16>, %{{.*}}: memref<3xi32>, %{{[^:]*}}: memref<?x8xf8E4M3FN>, %[[Q1:[^:]*]]: memref<?x8xf8E4M3FN>, %{{.*}}: memref<3x8xf32>, %[[S1:.*]]: memref<?xf32>)
func.func @jagged_and_rows(%x: tensor<?x8xbf16>, %ends: tensor<3xi32>)
    -> (tensor<?x8xf8E4M3FN>, tensor<?x8xf8E4M3FN>, tensor<3x8xf32>, tensor<?xf32>) {
  // CHECK:      %[[M:.*]] = memref.dim %[[X]]
  // CHECK:      scf.for %{{.*}} iter_args
  // CHECK:      scf.for %[[I:[^ ]*]] = %{{.*}} to %[[M]]
  // CHECK:        memref.store %{{.*}}, %[[S1]][%[[I]]]
  // CHECK:      memref.store %{{.*}}, %[[Q1]]
  %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xi32>) along [0, 1] rounding pow2
      : tensor<?x8xbf16>
      -> tensor<?x8xf8E4M3FN>, tensor<?x8xf8E4M3FN>, tensor<3x8xf32>, tensor<?xf32>
  return %q#0, %q#1, %s#0, %s#1
      : tensor<?x8xf8E4M3FN>, tensor<?x8xf8E4M3FN>, tensor<3x8xf32>, tensor<?xf32>
}
