// RUN: fp8moe-opt %s --convert-fp8moe-to-loops --canonicalize --cse --split-input-file | FileCheck %s

// Mode rceil, in blocks of 32 along a row of 80; the last block has 16. The scale is the exponent of
// amax * (1/448), plus one unless the mantissa is zero. NaN and infinity give 255.

// CHECK-LABEL: func @rceil(
// CHECK-SAME:    %[[X:.*]]: memref<?x80xbf16>, %[[Q:.*]]: memref<?x80xf8E4M3FN>, %[[S:.*]]: memref<?x3xf8E8M0FNU>)
func.func @rceil(%x: tensor<?x80xbf16>) -> (tensor<?x80xf8E4M3FN>, tensor<?x3xf8E8M0FNU>) {
  // CHECK-DAG:  %[[RECIPROCAL:.*]] = arith.constant 0.00223214296 : f32
  // CHECK-DAG:  %[[C80:.*]] = arith.constant 80 : index
  // CHECK-DAG:  %[[C255:.*]] = arith.constant 255 : i32
  // CHECK-DAG:  %[[C254:.*]] = arith.constant 254 : i32
  // CHECK:      scf.for %[[I:[^ ]*]] =
  // CHECK-NEXT:   scf.for %[[B:[^ ]*]] =
  // CHECK:          %[[FROM:.*]] = arith.muli %[[B]], %{{.*}}
  // CHECK:          %[[FULL:.*]] = arith.addi %[[FROM]], %{{.*}}
  // CHECK:          %[[TO:.*]] = arith.minsi %[[FULL]], %[[C80]]
  // CHECK:          %[[AMAX:.*]] = scf.for %{{.*}} = %[[FROM]] to %[[TO]]
  // CHECK:          %[[F32:.*]] = arith.bitcast %[[AMAX]] : i32 to f32
  // CHECK:          arith.mulf %[[F32]], %[[RECIPROCAL]]
  // CHECK:          %[[UP:.*]] = arith.extui %{{.*}} : i1 to i32
  // CHECK:          %[[FINITE_BYTE:.*]] = arith.addi %{{.*}}, %[[UP]]
  // CHECK:          %[[BYTE:.*]] = arith.select %{{.*}}, %[[FINITE_BYTE]], %[[C255]]
  // CHECK:          arith.subi %[[C254]], %[[BYTE]]
  // CHECK:          %[[E8M0:.*]] = arith.bitcast %{{.*}} : i8 to f8E8M0FNU
  // CHECK:          memref.store %[[E8M0]], %[[S]][%[[I]], %[[B]]]
  // CHECK:          scf.for %[[J:[^ ]*]] = %[[FROM]] to %[[TO]]
  // CHECK:            memref.store %{{.*}}, %[[Q]][%[[I]], %[[J]]]
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x80xbf16> -> tensor<?x80xf8E4M3FN>, tensor<?x3xf8E8M0FNU>
  return %q, %s : tensor<?x80xf8E4M3FN>, tensor<?x3xf8E8M0FNU>
}

// -----

// Mode floor. The scale is the exponent of amax less 8 (that of 448), and at least 0. Along
// dimension 0 a block is 32 rows, and blocks are the last dimension of the scales.

// CHECK-LABEL: func @floor(
// CHECK-SAME:    memref<64x8xf32>, %{{.*}}: memref<64x8xf8E4M3FN>, %[[S:.*]]: memref<8x2xf8E8M0FNU>)
func.func @floor(%x: tensor<64x8xf32>) -> (tensor<64x8xf8E4M3FN>, tensor<8x2xf8E8M0FNU>) {
  // CHECK-DAG:  %[[C0:.*]] = arith.constant 0 : i32
  // CHECK-DAG:  %[[C8:.*]] = arith.constant 8 : i32
  // CHECK:      scf.for %[[B:[^ ]*]] =
  // CHECK-NEXT:   scf.for %[[J:[^ ]*]] =
  // CHECK:          %[[EXPONENT:.*]] = arith.shrui
  // CHECK:          %[[LESS:.*]] = arith.subi %[[EXPONENT]], %[[C8]]
  // CHECK:          arith.maxsi %[[LESS]], %[[C0]]
  // CHECK:          memref.store %{{.*}}, %[[S]][%[[J]], %[[B]]]
  %q, %s = fp8moe.mx_quantize %x along [0] mode floor
      : tensor<64x8xf32> -> tensor<64x8xf8E4M3FN>, tensor<8x2xf8E8M0FNU>
  return %q, %s : tensor<64x8xf8E4M3FN>, tensor<8x2xf8E8M0FNU>
}

// -----

// Groups cut the dimension of the blocks. The scale columns of each group start at a multiple of 4.

#blocked = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>

// CHECK-LABEL: func @groups(
func.func @groups(%x: tensor<64x8xf32>, %ends: tensor<2xi32>)
    -> (tensor<64x8xf8E4M3FN>, tensor<8x12xf8E8M0FNU, #blocked>) {
  // CHECK-DAG:  %[[C4:.*]] = arith.constant 4 : index
  // CHECK-DAG:  %[[C32:.*]] = arith.constant 32 : index
  // CHECK:      %[[LAST:.*]]:2 = scf.for %{{.*}} iter_args(%[[BEGIN:.*]] = %{{.*}}, %[[START:.*]] = %{{.*}})
  // CHECK:        %[[END:.*]] = arith.minsi
  // CHECK:        %[[LENGTH:.*]] = arith.subi %[[END]], %[[BEGIN]]
  // CHECK:        %[[BLOCKS:.*]] = arith.divui %{{.*}}, %[[C32]]
  // CHECK:        scf.for %[[B:[^ ]*]] = %{{.*}} to %[[BLOCKS]]
  // CHECK:          arith.addi %[[B]], %[[START]]
  // CHECK:          memref.store %{{.*}} : memref<1536xf8E8M0FNU>
  // CHECK:          memref.store %{{.*}} : memref<64x8xf8E4M3FN>
  // CHECK:        %[[COLUMNS:.*]] = arith.muli %{{.*}}, %[[C4]]
  // CHECK-NEXT:   %[[NEXT:.*]] = arith.addi %[[START]], %[[COLUMNS]]
  // CHECK-NEXT:   scf.yield %[[END]], %[[NEXT]]
  // CHECK:      scf.for %{{.*}} = %[[LAST]]#0 to
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil groups(%ends : tensor<2xi32>)
      : tensor<64x8xf32> -> tensor<64x8xf8E4M3FN>, tensor<8x12xf8E8M0FNU, #blocked>
  return %q, %s : tensor<64x8xf8E4M3FN>, tensor<8x12xf8E8M0FNU, #blocked>
}
