// RUN: fp8moe-opt %s --fp8moe-to-cpu | FileCheck %s

// Signed integers are lowered to signless ones and copied and padded like these.

// CHECK-LABEL: fp8moe_plan.program @pad
// CHECK: memref<?x64xsi32>
// CHECK-LABEL: llvm.func @pad_kernel
// CHECK-NOT: unrealized_conversion_cast
// CHECK: %[[ZERO:.*]] = llvm.mlir.constant(0 : i32) : i32
// CHECK: llvm.store %[[ZERO]], %{{.*}} : i32, !llvm.ptr
// CHECK-NOT: unrealized_conversion_cast
func.func @pad(%x: tensor<?x64xsi32>, %ends: tensor<4xi32>)
    -> tensor<?x64xsi32, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>> {
  %y = fp8moe.relayout %x groups(%ends : tensor<4xi32>)
      : tensor<?x64xsi32> -> tensor<?x64xsi32, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>>
  return %y : tensor<?x64xsi32, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>>
}
