// RUN: fp8moe-opt %s --convert-fp8moe-to-loops --canonicalize --cse --split-input-file | FileCheck %s

// The view reinterprets the input's memory. Only the returned value is copied, by a loop nest in
// the memory order of the result.

#col = #fp8moe.strided<[1, 0]>

// CHECK-LABEL: func @transpose(
// CHECK-SAME:    %[[X:.*]]: memref<4x8xbf16>, %[[R:.*]]: memref<8x4xbf16, strided<[1, 8]>>)
func.func @transpose(%x: tensor<4x8xbf16>) -> tensor<8x4xbf16, #col> {
  // CHECK-DAG:  %[[C4:.*]] = arith.constant 4 : index
  // CHECK-DAG:  %[[C8:.*]] = arith.constant 8 : index
  // CHECK:      %[[V:.*]] = memref.reinterpret_cast %[[X]] to offset: [0], sizes: [8, 4], strides: [1, 8]
  // CHECK:      scf.for %[[J:[^ ]*]] = %{{.*}} to %[[C4]]
  // CHECK-NEXT:   scf.for %[[I:[^ ]*]] = %{{.*}} to %[[C8]]
  // CHECK-NEXT:     %[[E:.*]] = memref.load %[[V]][%[[I]], %[[J]]]
  // CHECK-NEXT:     memref.store %[[E]], %[[R]][%[[I]], %[[J]]]
  %t = fp8moe.transpose %x [1, 0] : tensor<4x8xbf16> -> tensor<8x4xbf16, #col>
  return %t : tensor<8x4xbf16, #col>
}

// -----

// CHECK-LABEL: func @merge_dynamic(
// CHECK-SAME:    %[[X:.*]]: memref<?x16x32xf32>, %[[S:.*]]: memref<?xf32>)
func.func @merge_dynamic(%x: tensor<?x16x32xf32>) -> tensor<?xf32> {
  // CHECK:      %[[E:.*]] = memref.dim %[[X]]
  // CHECK:      %[[ROWS:.*]] = arith.muli %[[E]], %{{.*}} : index
  // CHECK:      %[[V:.*]] = memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[ROWS]], 32], strides: [32, 1]
  // CHECK-SAME:   to memref<?x32xf32>
  // CHECK:      memref.load %[[V]]
  %v = fp8moe.reshape %x : tensor<?x16x32xf32> -> tensor<?x32xf32>
  %s = fp8moe.scale %v along 1 rounding pow2 fp8 f8E4M3FN : tensor<?x32xf32> -> tensor<?xf32>
  return %s : tensor<?xf32>
}

// -----

// A reshape of a tensor with padded rows keeps the row stride of 48.

#pitched = #fp8moe.strided<[0, 1], strides = [48, 1]>
#split = #fp8moe.strided<[0, 1, 2], strides = [48, 16, 1]>

// CHECK-LABEL: func @split_pitched(
// CHECK-SAME:    %[[X:.*]]: memref<?x32xf32, strided<[48, 1]>>
func.func @split_pitched(%x: tensor<?x32xf32, #pitched>) -> tensor<?x16xf32> {
  // CHECK:      %[[M:.*]] = memref.dim %[[X]]
  // CHECK:      memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[M]], 2, 16], strides: [48, 16, 1]
  %v = fp8moe.reshape %x : tensor<?x32xf32, #pitched> -> tensor<?x2x16xf32, #split>
  %s = fp8moe.scale %v along 1 rounding pow2 fp8 f8E4M3FN
      : tensor<?x2x16xf32, #split> -> tensor<?x16xf32>
  return %s : tensor<?x16xf32>
}

// -----

// A select between tensors becomes a select between their buffers.

// CHECK-LABEL: func @select(
// CHECK-SAME:    %[[FLAG:.*]]: i1, %[[X:.*]]: memref<4xf32>, %[[Y:.*]]: memref<4xf32>, %[[S:.*]]: memref<f32>)
func.func @select(%flag: i1, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<f32> {
  // CHECK:      %[[Z:.*]] = arith.select %[[FLAG]], %[[X]], %[[Y]] : memref<4xf32>
  // CHECK:      memref.load %[[Z]]
  %z = arith.select %flag, %x, %y : tensor<4xf32>
  %s = fp8moe.scale %z along 0 rounding pow2 fp8 f8E4M3FN : tensor<4xf32> -> tensor<f32>
  return %s : tensor<f32>
}

// -----

// CHECK-LABEL: func @extract(
// CHECK-SAME:    %[[FLAGS:.*]]: memref<2xi1>, %[[X:.*]]: memref<4xf32>, %[[Y:.*]]: memref<4xf32>, %[[S:.*]]: memref<f32>)
func.func @extract(%flags: tensor<2xi1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<f32> {
  // CHECK:      %[[FLAG:.*]] = memref.load %[[FLAGS]][%{{.*}}] : memref<2xi1>
  // CHECK:      arith.select %[[FLAG]], %[[X]], %[[Y]]
  %c1 = arith.constant 1 : index
  %flag = tensor.extract %flags[%c1] : tensor<2xi1>
  %z = arith.select %flag, %x, %y : tensor<4xf32>
  %s = fp8moe.scale %z along 0 rounding pow2 fp8 f8E4M3FN : tensor<4xf32> -> tensor<f32>
  return %s : tensor<f32>
}
