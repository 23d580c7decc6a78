// All row operations have one kernel design: each thread computes 16 bytes of a row.
// RUN: fp8moe-opt %s --fp8moe-attach-target=chip=sm_90a --convert-fp8moe-to-gpu | FileCheck %s
// RUN: fp8moe-opt %s --fp8moe-attach-target=chip=gfx942 --convert-fp8moe-to-gpu | FileCheck %s

// An index outside of the input gives a row of zeros.
// CHECK-LABEL: gpu.func @rows_0
//       CHECK:   %[[NUMBER:.*]] = llvm.load {{.*}} -> i32
//       CHECK:   %[[ROW:.*]] = arith.extsi %[[NUMBER]] : i32 to i64
//       CHECK:   %[[EXISTS:.*]] = arith.cmpi ult, %[[ROW]],
//       CHECK:   scf.if %[[EXISTS]] -> (vector<4xi32>)

// CHECK-LABEL: gpu.func @rows_1
//       CHECK:   llvm.call_intrinsic "llvm.exp2"

// CHECK-LABEL: fp8moe_plan.program @gather
//       CHECK:   fp8moe_plan.launch @fp8moe_kernels::@rows_0
func.func @gather(%x: tensor<?x64xbf16>, %rows: tensor<?xi32>) -> tensor<?x64xbf16> {
  %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x64xbf16> -> tensor<?x64xbf16>
  return %r : tensor<?x64xbf16>
}

// CHECK-LABEL: fp8moe_plan.program @swiglu
//       CHECK:   fp8moe_plan.launch @fp8moe_kernels::@rows_1
func.func @swiglu(%h: tensor<?x128xbf16>) -> tensor<?x64xbf16> {
  %a = fp8moe.swiglu %h : tensor<?x128xbf16> -> tensor<?x64xbf16>
  return %a : tensor<?x64xbf16>
}
