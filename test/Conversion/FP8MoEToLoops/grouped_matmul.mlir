// RUN: fp8moe-opt %s --convert-fp8moe-to-loops --canonicalize --cse --split-input-file | FileCheck %s

// Each sum runs over K in ascending order. 16 columns are summed at a time in a vector. Each sum is
// rounded once, then multiplied by its two scales.

#weights = #fp8moe.strided<[0, 2, 1]>

// CHECK-LABEL: func @forward(
// CHECK-SAME:    %[[A:[^:]*]]: memref<?x64xf8E4M3FN>, %[[SA:[^:]*]]: memref<?xf32>, %[[B:[^:]*]]: memref<4x64x40xf8E5M2, strided<[2560, 1, 64]>>, %[[SB:[^:]*]]: memref<4x40xf32>, %{{.*}}: memref<4xi32>, %[[O:[^:]*]]: memref<?x40xbf16>)
func.func @forward(%a: tensor<?x64xf8E4M3FN>, %sa: tensor<?xf32>,
                   %b: tensor<4x64x40xf8E5M2, #weights>, %sb: tensor<4x40xf32>,
                   %ends: tensor<4xi32>) -> tensor<?x40xbf16> {
  // CHECK-DAG:  %[[C0:.*]] = arith.constant 0 : index
  // CHECK-DAG:  %[[C64:.*]] = arith.constant 64 : index
  // CHECK-DAG:  %[[ZERO:.*]] = arith.constant 0.000000e+00 : bf16
  // CHECK-DAG:  %[[ROWS:.*]] = memref.alloc() : memref<32x64xf64>
  // CHECK-DAG:  %[[COLS:.*]] = memref.alloc() : memref<64x16xf64>
  // CHECK:      %[[LAST:.*]] = scf.for %[[G:[^ ]*]] =
  // CHECK:        memref.load %[[A]]
  // CHECK:        memref.load %[[B]][%[[G]],
  // CHECK:        %[[SUM:.*]] = scf.for %[[K:[^ ]*]] = %[[C0]] to %[[C64]] {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (vector<16xf64>)
  // CHECK:          %[[ROW:.*]] = memref.load %[[ROWS]][%{{.*}}, %[[K]]]
  // CHECK:          %[[COL:.*]] = vector.load %[[COLS]][%[[K]], %[[C0]]]
  // CHECK:          %[[SPLAT:.*]] = vector.broadcast %[[ROW]]
  // CHECK:          %[[P:.*]] = arith.mulf %[[SPLAT]], %[[COL]] : vector<16xf64>
  // CHECK:          arith.addf %[[ACC]], %[[P]] : vector<16xf64>
  // CHECK:        %[[ONE:.*]] = vector.extract %[[SUM]]
  // CHECK:        %[[F32:.*]] = arith.truncf %[[ONE]] : f64 to f32
  // CHECK:        memref.load %[[SA]]
  // CHECK:        %[[DA:.*]] = arith.divf
  // CHECK:        %[[SCALED:.*]] = arith.mulf %[[F32]], %[[DA]] : f32
  // CHECK:        memref.load %[[SB]][%[[G]],
  // CHECK:        %[[DB:.*]] = arith.divf
  // CHECK:        %[[BOTH:.*]] = arith.mulf %[[SCALED]], %[[DB]] : f32
  // CHECK:        %[[OUT:.*]] = arith.truncf %[[BOTH]] : f32 to bf16
  // CHECK:        memref.store %[[OUT]], %[[O]]
  // CHECK:      scf.for %{{.*}} = %[[LAST]] to
  // CHECK:          memref.store %[[ZERO]], %[[O]]
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<4x40xf32>) direction quantize accumulation fast
      : tensor<?x64xf8E4M3FN>, tensor<4x64x40xf8E5M2, #weights> -> tensor<?x40xbf16>
  return %o : tensor<?x40xbf16>
}

// -----

// bf16 operands have no scales. An empty group gives zeros.

// CHECK-LABEL: func @weight_gradient(
// CHECK-SAME:    memref<32x?xbf16>, %{{[^:]*}}: memref<?x64xbf16, strided<[1, ?]>>, %{{.*}}: memref<4xi32>, %[[O:[^:]*]]: memref<4x32x64xf32>)
func.func @weight_gradient(%a: tensor<32x?xbf16>, %b: tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>,
                           %ends: tensor<4xi32>) -> tensor<4x32x64xf32> {
  // CHECK-DAG:  %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK:      scf.for %[[G:[^ ]*]] = {{.*}} iter_args(%[[BEGIN:.*]] =
  // CHECK:        %[[LENGTH:.*]] = arith.subi %{{.*}}, %[[BEGIN]]
  // CHECK:        %[[EMPTY:.*]] = arith.cmpi eq, %[[LENGTH]]
  // CHECK:        %[[SUM:.*]] = arith.truncf %{{.*}} : f64 to f32
  // CHECK-NEXT:   %[[VALUE:.*]] = arith.select %[[EMPTY]], %[[ZERO]], %[[SUM]]
  // CHECK:        memref.store %[[VALUE]], %[[O]][%[[G]],
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>) accumulation fast
      : tensor<32x?xbf16>, tensor<?x64xbf16, #fp8moe.strided<[1, 0]>> -> tensor<4x32x64xf32>
  return %o : tensor<4x32x64xf32>
}

// -----

// The product is added in f32 to the addend. Rows that belong to no group keep the addend's values.

// CHECK-LABEL: func @accumulate(
// CHECK-SAME:    %[[C:[^:]*]]: memref<?x40xbf16>, %{{[^:]*}}: memref<4xi32>, %[[O:[^:]*]]: memref<?x40xbf16>)
func.func @accumulate(%a: tensor<?x64xbf16>, %b: tensor<4x64x40xbf16>, %c: tensor<?x40xbf16>,
                      %ends: tensor<4xi32>) -> tensor<?x40xbf16> {
  // CHECK:      %[[LAST:.*]] = scf.for %{{.*}} =
  // CHECK:        %[[F32:.*]] = arith.truncf %{{.*}} : f64 to f32
  // CHECK:        %[[OLD:.*]] = memref.load %[[C]][%[[ROW:.*]], %[[COLUMN:.*]]]
  // CHECK:        %[[SUM:.*]] = arith.addf %{{.*}}, %[[F32]] : f32
  // CHECK:        %[[OUT:.*]] = arith.truncf %[[SUM]] : f32 to bf16
  // CHECK:        memref.store %[[OUT]], %[[O]][%[[ROW]], %[[COLUMN]]]
  // CHECK:      scf.for %{{.*}} = %[[LAST]] to
  // CHECK:          %[[KEPT:.*]] = memref.load %[[C]][%[[I:.*]], %[[J:.*]]]
  // CHECK:          memref.store %[[KEPT]], %[[O]][%[[I]], %[[J]]]
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>) accumulate(%c : tensor<?x40xbf16>)
      : tensor<?x64xbf16>, tensor<4x64x40xbf16> -> tensor<?x40xbf16>
  return %o : tensor<?x40xbf16>
}

// -----

// A dense matmul reads no offsets and has one loop over all rows.

// CHECK-LABEL: func @linear(
// CHECK-NOT: memref<{{.*}}xi32
// CHECK: scf.for
// CHECK: arith.mulf {{.*}} : vector<16xf64>
// CHECK: arith.addf {{.*}} : vector<16xf64>
// CHECK: arith.truncf {{.*}} : f64 to f32
// CHECK-NOT: arith.mulf
// CHECK: arith.truncf {{.*}} : f32 to bf16
// CHECK: return
func.func @linear(%a: tensor<?x?xbf16>, %b: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  %y = fp8moe.linear %a, %b : tensor<?x?xbf16>, tensor<?x?xbf16> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

// -----

// With scales of A only, the sum is multiplied once.

// CHECK-LABEL: func @scales_of_a(
// CHECK-SAME:    %[[SA:[^:]*]]: memref<?xf32>
// CHECK:      arith.addf {{.*}} : vector<16xf64>
// CHECK:      %[[F32:.*]] = arith.truncf %{{.*}} : f64 to f32
// CHECK:      memref.load %[[SA]]
// CHECK-NEXT: %[[DA:.*]] = arith.divf
// CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %[[F32]], %[[DA]] : f32
// CHECK-NEXT: arith.truncf %[[SCALED]] : f32 to bf16
func.func @scales_of_a(%a: tensor<?x64xf8E4M3FN>, %b: tensor<4x64x40xf8E4M3FN>, %ends: tensor<4xi32>,
                       %sa: tensor<?xf32>) -> tensor<?x40xbf16> {
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>) scales(%sa : tensor<?xf32>) direction quantize
      : tensor<?x64xf8E4M3FN>, tensor<4x64x40xf8E4M3FN> -> tensor<?x40xbf16>
  return %o : tensor<?x40xbf16>
}
