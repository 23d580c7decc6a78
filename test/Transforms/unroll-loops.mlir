// GPU programs have no loops, so loops with known trip counts are unrolled. The CPU keeps them.

// RUN: fp8moe-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(fp8moe-unroll-loops))' | FileCheck %s

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @layers
// CHECK-NEXT:    %[[A:.*]] = fp8moe.linear %arg0, %arg1
// CHECK-NEXT:    %[[B:.*]] = fp8moe.linear %[[A]], %arg1
// CHECK-NEXT:    %[[C:.*]] = fp8moe.linear %[[B]], %arg1
// CHECK-NEXT:    return %[[C]]
func.func @layers(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x) -> (tensor<?x64xbf16>) {
    %n = fp8moe.linear %h, %w : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
    scf.yield %n : tensor<?x64xbf16>
  }
  return %r : tensor<?x64xbf16>
}

// Two nested loops of two iterations, in which every second layer has other weights.
// CHECK-LABEL: func.func @nested
// CHECK-NEXT:    %[[A:.*]] = fp8moe.linear %arg0, %arg1
// CHECK-NEXT:    %[[B:.*]] = fp8moe.linear %[[A]], %arg2
// CHECK-NEXT:    %[[C:.*]] = fp8moe.linear %[[B]], %arg1
// CHECK-NEXT:    %[[D:.*]] = fp8moe.linear %[[C]], %arg2
// CHECK-NEXT:    return %[[D]]
func.func @nested(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>, %v: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x) -> (tensor<?x64xbf16>) {
    %s = scf.for %j = %c0 to %c2 step %c1 iter_args(%g = %h) -> (tensor<?x64xbf16>) {
      %even = arith.cmpi eq, %j, %c0 : index
      %n = scf.if %even -> tensor<?x64xbf16> {
        %y = fp8moe.linear %g, %w : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
        scf.yield %y : tensor<?x64xbf16>
      } else {
        %y = fp8moe.linear %g, %v : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
        scf.yield %y : tensor<?x64xbf16>
      }
      scf.yield %n : tensor<?x64xbf16>
    }
    scf.yield %s : tensor<?x64xbf16>
  }
  return %r : tensor<?x64xbf16>
}

// A body that only permutes values: after an odd number of iterations they are exchanged.
// CHECK-LABEL: func.func @exchanged
// CHECK-NEXT:    return %arg1, %arg0
func.func @exchanged(%x: tensor<?x64xbf16>, %z: tensor<?x64xbf16>) -> (tensor<?x64xbf16>, tensor<?x64xbf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x, %g = %z) -> (tensor<?x64xbf16>, tensor<?x64xbf16>) {
    scf.yield %g, %h : tensor<?x64xbf16>, tensor<?x64xbf16>
  }
  return %r#0, %r#1 : tensor<?x64xbf16>, tensor<?x64xbf16>
}

// Too many operations, or an unknown number of iterations: the loop stays, and the lowering refuses
// it.
// CHECK-LABEL: func.func @kept
// CHECK:         scf.for
// CHECK:         scf.for
func.func @kept(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %many = arith.constant 100000 : index
  %tokens = tensor.dim %x, %c0 : tensor<?x64xbf16>
  %r = scf.for %i = %c0 to %many step %c1 iter_args(%h = %x) -> (tensor<?x64xbf16>) {
    %n = fp8moe.linear %h, %w : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
    scf.yield %n : tensor<?x64xbf16>
  }
  %s = scf.for %i = %c0 to %tokens step %c1 iter_args(%h = %r) -> (tensor<?x64xbf16>) {
    %n = fp8moe.linear %h, %w : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
    scf.yield %n : tensor<?x64xbf16>
  }
  return %s : tensor<?x64xbf16>
}
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
// CHECK-LABEL: func.func @on_the_cpu
// CHECK:         scf.for
func.func @on_the_cpu(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x) -> (tensor<?x64xbf16>) {
    %n = fp8moe.linear %h, %w : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
    scf.yield %n : tensor<?x64xbf16>
  }
  return %r : tensor<?x64xbf16>
}
}

// -----

// The bounds of the inner loop become constants when the outer loop is unrolled.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @triangle
// CHECK-NOT:     scf.for
// CHECK-COUNT-3: fp8moe.linear
// CHECK-NOT:     fp8moe.linear
func.func @triangle(%x: tensor<128x128xbf16>, %w: tensor<128x128xbf16>) -> tensor<128x128xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x) -> (tensor<128x128xbf16>) {
    %k = scf.for %j = %c0 to %i step %c1 iter_args(%l = %h) -> (tensor<128x128xbf16>) {
      %n = fp8moe.linear %l, %w : tensor<128x128xbf16>, tensor<128x128xbf16> -> tensor<128x128xbf16>
      scf.yield %n : tensor<128x128xbf16>
    }
    scf.yield %k : tensor<128x128xbf16>
  }
  return %r : tensor<128x128xbf16>
}
}
