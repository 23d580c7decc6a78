// RUN: fp8moe-opt %s --convert-fp8moe-to-loops --canonicalize --cse --split-input-file --allow-unregistered-dialect | FileCheck %s

// A returned result is computed in the output's buffer, even when another operation reads it.
// Intermediate results get buffers of their own. A value that is returned twice is copied to the
// second output.

// CHECK-LABEL: func @in_place(
// CHECK-SAME:    %[[X:[^:]*]]: memref<4x8xf32> {fp8moe.name = "x"},
// CHECK-SAME:    %[[S:[^:]*]]: memref<8xf32> {fp8moe.name = "s"},
// CHECK-SAME:    %[[AGAIN:[^:]*]]: memref<8xf32>) {
func.func @in_place(%x: tensor<4x8xf32> {fp8moe.name = "x"})
    -> (tensor<8xf32> {fp8moe.name = "s"}, tensor<8xf32>) {
  // CHECK:      %[[C:.*]] = memref.alloc() : memref<32xf32>
  // CHECK:      %[[COL:.*]] = memref.reinterpret_cast %[[C]] to offset: [0], sizes: [4, 8], strides: [1, 4]
  // CHECK:      memref.store %{{.*}}, %[[COL]]
  // CHECK:      memref.load %[[COL]]
  // CHECK:      memref.store %{{.*}}, %[[S]]
  // CHECK:      }
  // CHECK:      scf.for %[[I:[^ ]*]] =
  // CHECK-NEXT:   %[[E:.*]] = memref.load %[[S]][%[[I]]]
  // CHECK-NEXT:   memref.store %[[E]], %[[AGAIN]][%[[I]]]
  // CHECK:      return
  %c = fp8moe.relayout %x : tensor<4x8xf32> -> tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
  %s = fp8moe.scale %c along 0 rounding pow2 fp8 f8E4M3FN
      : tensor<4x8xf32, #fp8moe.strided<[1, 0]>> -> tensor<8xf32>
  return %s, %s : tensor<8xf32>, tensor<8xf32>
}

// -----

// Results of structured control flow become memrefs.

// CHECK-LABEL: func @branch(
// CHECK-SAME:    %[[COND:[^:]*]]: i1, %[[X:[^:]*]]: memref<?x8xf32>, %[[S:[^:]*]]: memref<?xf32>)
func.func @branch(%cond: i1, %x: tensor<?x8xf32>) -> tensor<?xf32> {
  // CHECK:      %[[IF:.*]] = scf.if %[[COND]] -> (memref<?xf32>) {
  // CHECK:        %[[ALLOC:.*]] = memref.alloc(%{{.*}}) : memref<?xf32>
  // CHECK:        scf.yield %[[ALLOC]]
  // CHECK:      memref.load %[[IF]]
  // CHECK:      memref.store %{{.*}}, %[[S]]
  %s = scf.if %cond -> tensor<?xf32> {
    %0 = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN : tensor<?x8xf32> -> tensor<?xf32>
    scf.yield %0 : tensor<?xf32>
  } else {
    %0 = fp8moe.scale %x along 1 rounding none fp8 f8E4M3FN : tensor<?x8xf32> -> tensor<?xf32>
    scf.yield %0 : tensor<?xf32>
  }
  return %s : tensor<?xf32>
}

// -----

// tensor.dim becomes memref.dim.

// CHECK-LABEL: func @size(
// CHECK-SAME:    %[[X:[^:]*]]: memref<?x8xf32>, %[[S:[^:]*]]: memref<1xf32>
func.func @size(%x: tensor<?x8xf32>, %s: tensor<1xf32>) -> tensor<1xf32> {
  // CHECK:      %[[DIM:.*]] = memref.dim %[[X]]
  // CHECK:      "test.use"(%[[DIM]])
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x8xf32>
  "test.use"(%d) : (index) -> ()
  return %s : tensor<1xf32>
}

// -----

// Unreachable blocks are erased, even if their values depend on each other in a cycle.

// CHECK-LABEL: func @unreachable(
// CHECK-NOT:   ^bb
func.func @unreachable(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
^bb1:
  %0 = fp8moe.transpose %1 [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
  %1 = fp8moe.transpose %0 [1, 0] : tensor<4x8xf32, #fp8moe.strided<[1, 0]>> -> tensor<8x4xf32>
  %2 = fp8moe.relayout %0 : tensor<4x8xf32, #fp8moe.strided<[1, 0]>> -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
