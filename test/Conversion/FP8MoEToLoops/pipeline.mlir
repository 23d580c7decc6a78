// RUN: fp8moe-opt %s --inline --symbol-dce --fp8moe-plan-cpu-entries --convert-fp8moe-to-loops --fp8moe-define-cpu-entries --fp8moe-loops-to-llvm > %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: FileCheck %s --input-file=%t.mlir --check-prefix=CALLS

// The CPU pipeline goes from tensors to the LLVM dialect. The host program keeps its arithmetic.
// The functions call only each other, malloc and free.

// CHECK:       fp8moe_plan.program @step
// CHECK:         arith.constant 1 : index
// CHECK:         fp8moe_plan.launch @step_kernel
// CHECK:       llvm.func @step_kernel(
// CHECK-SAME:    !llvm.ptr {llvm.noalias}
// CHECK:         llvm.call @step_0(
// CHECK:       llvm.func internal @step_0(
// CHECK:         llvm.call @malloc
// CHECK:         llvm.call @free
// CHECK-NOT:   unrealized_conversion_cast
// CHECK-NOT:   f8E4M3FN
// CHECK-NOT:   bf16 to f32

// CALLS-NOT:   llvm.call @{{[^msf]}}
// CALLS-NOT:   llvm.call @memref
// CALLS-NOT:   llvm.call @__

func.func private @to_columns(%x: tensor<?x64xbf16>)
    -> tensor<?x64xbf16, #fp8moe.strided<[1, 0]>> {
  %r = fp8moe.relayout %x : tensor<?x64xbf16> -> tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
  return %r : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
}

func.func @step(%x: tensor<?x64xbf16>, %ends: tensor<4xi32>)
    -> (tensor<?x64xf8E4M3FN>, tensor<4x64xf32>) {
  %c = call @to_columns(%x) : (tensor<?x64xbf16>) -> tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
  %q, %s = fp8moe.jagged_dynamic_quantize %c groups(%ends : tensor<4xi32>) along [0] rounding pow2
      : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>> -> tensor<?x64xf8E4M3FN>, tensor<4x64xf32>
  return %q, %s : tensor<?x64xf8E4M3FN>, tensor<4x64xf32>
}
