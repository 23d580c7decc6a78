// RUN: fp8moe-opt %s --canonicalize | FileCheck %s

// A condition that folds to true is not checked at run time.

// CHECK-LABEL: fp8moe_plan.program @require
fp8moe_plan.program @require {
  %x = fp8moe_plan.input "x" align 4 : memref<?xf32>
  %y = fp8moe_plan.input "y" align 4 : memref<?xf32>
  %a = fp8moe_plan.dim %x, 0 : memref<?xf32>
  %b = fp8moe_plan.dim %y, 0 : memref<?xf32>
  // CHECK: %[[OK:.*]] = arith.cmpi eq
  %ok = arith.cmpi eq, %a, %b : index
  // CHECK: fp8moe_plan.require %[[OK]], "x and y must have equal sizes"
  fp8moe_plan.require %ok, "x and y must have equal sizes"
  %true = arith.constant true
  // CHECK-NOT: fp8moe_plan.require
  fp8moe_plan.require %true, "never fails"
}
