// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --fp8moe-plan-cpu-entries --canonicalize | FileCheck %s

// Conditions that types leave open become `require` operations, which the host checks before any
// launch. Here a cast to a static size requires that size.

// CHECK-LABEL: fp8moe_plan.program @cast
// CHECK:         %[[N:.*]] = fp8moe_plan.dim %{{.*}}, 1
// CHECK:         %[[IS_8:.*]] = arith.cmpi eq, %[[N]], %c8
// CHECK:         fp8moe_plan.require %[[IS_8]], "tensor.cast: dimension 1 must be 8"
// CHECK:         fp8moe_plan.output "result0" sizes(%{{.*}}) align 4 : memref<?x8xf32>
func.func @cast(%x: tensor<?x?xf32>) -> tensor<?x8xf32> {
  %r = tensor.cast %x : tensor<?x?xf32> to tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// -----

// A cast to a dynamic size requires nothing. The result has the input's size.

// CHECK-LABEL: fp8moe_plan.program @forget
// CHECK-NOT:     require
// CHECK:         fp8moe_plan.output "result0" sizes(%c4) align 4 : memref<?x8xf32>
func.func @forget(%x: tensor<4x8xf32>) -> tensor<?x8xf32> {
  %r = tensor.cast %x : tensor<4x8xf32> to tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// -----

// A split requires that the size divides.

// CHECK-LABEL: fp8moe_plan.program @split
// CHECK:         %[[M:.*]] = fp8moe_plan.dim %{{.*}}, 0
// CHECK:         %[[REST:.*]] = arith.remsi %[[M]], %c2
// CHECK:         %[[DIVIDES:.*]] = arith.cmpi eq, %[[REST]], %c0
// CHECK:         fp8moe_plan.require %[[DIVIDES]], "fp8moe.reshape: the elements of dimensions 0 to 0 do not fill dimensions 0 to 1 of the result"
func.func @split(%x: tensor<?x8xf32>) -> tensor<?x2x8xf32> {
  %r = fp8moe.reshape %x : tensor<?x8xf32> -> tensor<?x2x8xf32>
  return %r : tensor<?x2x8xf32>
}

// -----

// Merging dimensions requires nothing.

// CHECK-LABEL: fp8moe_plan.program @merge
// CHECK-NOT:     require
func.func @merge(%x: tensor<?x2x8xf32>) -> tensor<?x8xf32> {
  %r = fp8moe.reshape %x : tensor<?x2x8xf32> -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// -----

// Conditions of operations inside a region are checked as if the region always ran.

// CHECK-LABEL: fp8moe_plan.program @branch
// CHECK:         fp8moe_plan.require %{{.*}}, "fp8moe.dequantize: dimension 0 of operand 1 and dimension 0 of operand 0 must be equal"
func.func @branch(%q: tensor<?x4xf8E4M3FN>, %s: tensor<?xf32>) -> tensor<4x4xbf16> {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %m = tensor.dim %q, %c0 : tensor<?x4xf8E4M3FN>
  %many = arith.cmpi sge, %m, %c8 : index
  %r = scf.if %many -> tensor<4x4xbf16> {
    %x = fp8moe.dequantize %q by %s along 1 direction quantize
        : tensor<?x4xf8E4M3FN>, tensor<?xf32> -> tensor<?x4xbf16>
    %y = tensor.cast %x : tensor<?x4xbf16> to tensor<4x4xbf16>
    scf.yield %y : tensor<4x4xbf16>
  } else {
    %x = fp8moe.dequantize %q by %s along 1 direction dequantize
        : tensor<?x4xf8E4M3FN>, tensor<?xf32> -> tensor<?x4xbf16>
    %y = tensor.cast %x : tensor<?x4xbf16> to tensor<4x4xbf16>
    scf.yield %y : tensor<4x4xbf16>
  }
  return %r : tensor<4x4xbf16>
}

// -----

// A loop-carried tensor whose size every iteration keeps has its initial size.

// CHECK-LABEL: fp8moe_plan.program @loop
// CHECK:         %[[M:.*]] = fp8moe_plan.dim %{{.*}}, 0
// CHECK-NOT:     require
// CHECK:         fp8moe_plan.output "result0" sizes(%[[M]])
func.func @loop(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x) -> tensor<?x8xbf16> {
    %n = fp8moe.linear %h, %w : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
    scf.yield %n : tensor<?x8xbf16>
  }
  return %r : tensor<?x8xbf16>
}

// -----

// The second tensor may differ in size from the first. The program requires that they agree.

// CHECK-LABEL: fp8moe_plan.program @loop_over_two
// CHECK:         %[[X:.*]] = fp8moe_plan.input "arg0"
// CHECK:         %[[M:.*]] = fp8moe_plan.dim %[[X]], 0
// CHECK:         %[[Y:.*]] = fp8moe_plan.input "arg1"
// CHECK:         %[[N:.*]] = fp8moe_plan.dim %[[Y]], 0
// CHECK:         %[[EQUAL:.*]] = arith.cmpi eq, %[[N]], %[[M]]
// CHECK:         fp8moe_plan.require %[[EQUAL]], "scf.for: dimension 0 of iteration argument #0 must be the same in every iteration"
// CHECK:         fp8moe_plan.output "result0" sizes(%[[M]])
func.func @loop_over_two(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x) -> tensor<?x8xbf16> {
    scf.yield %y : tensor<?x8xbf16>
  }
  return %r : tensor<?x8xbf16>
}

// -----

func.func @growing(%x: tensor<4x8xbf16>, %y: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %a = tensor.cast %x : tensor<4x8xbf16> to tensor<?x8xbf16>
  %b = tensor.cast %y : tensor<8x8xbf16> to tensor<?x8xbf16>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %a) -> tensor<?x8xbf16> {
    // expected-error @below {{changes the size of dimension 0 of iteration argument #0 from 4 to 8; write the iterations one after another, or keep the size}}
    scf.yield %b : tensor<?x8xbf16>
  }
  return %r : tensor<?x8xbf16>
}

// -----

// Both branches compute the same size, each from values of its own.

// CHECK-LABEL: fp8moe_plan.program @branches
// CHECK:         fp8moe_plan.output "result0" sizes(
func.func @branches(%x: tensor<?x8xbf16>, %ends: tensor<4xi32>, %c: tensor<1xi32>)
    -> tensor<?x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %number = tensor.extract %c[%c0] : tensor<1xi32>
  %first = arith.cmpi eq, %number, %zero : i32
  %r = scf.if %first -> tensor<?x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>> {
    %a = fp8moe.relayout %x groups(%ends : tensor<4xi32>) : tensor<?x8xbf16>
        -> tensor<?x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
    scf.yield %a : tensor<?x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
  } else {
    %b = fp8moe.relayout %x groups(%ends : tensor<4xi32>) : tensor<?x8xbf16>
        -> tensor<?x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
    scf.yield %b : tensor<?x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
  }
  return %r : tensor<?x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
}

// -----

// A condition that the host cannot evaluate before the launch is an error.

func.func @unknown(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>, %c: tensor<i1>) -> tensor<4x4xf32> {
  %first = tensor.extract %c[] : tensor<i1>
  // expected-note @below {{both branches must give tensors whose sizes follow alike from the sizes of the inputs}}
  %r = scf.if %first -> tensor<?x4xf32> {
    scf.yield %x : tensor<?x4xf32>
  } else {
    scf.yield %y : tensor<?x4xf32>
  }
  // expected-error @below {{needs the size of a value of type 'tensor<?x4xf32>' before the program runs, but it does not follow from the sizes of the inputs; give it a static shape}}
  %z = tensor.cast %r : tensor<?x4xf32> to tensor<4x4xf32>
  return %z : tensor<4x4xf32>
}
