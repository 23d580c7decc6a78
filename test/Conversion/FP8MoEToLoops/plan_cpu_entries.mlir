// RUN: fp8moe-opt %s --fp8moe-plan-cpu-entries | FileCheck %s --check-prefix=PLAN
// RUN: fp8moe-opt %s --fp8moe-plan-cpu-entries --convert-fp8moe-to-loops --fp8moe-define-cpu-entries --canonicalize | FileCheck %s --check-prefix=ENTRY

// The program takes the function's name. The kernel's parameters are all pointers, then the dynamic
// sizes and strides of the buffers.

// PLAN-LABEL: fp8moe_plan.program @columns
// PLAN:         %[[X:.*]] = fp8moe_plan.input "x" align 4 : memref<?x64xf32>
// PLAN:         %[[M:.*]] = fp8moe_plan.dim %[[X]], 0
// PLAN:         %[[R:.*]] = fp8moe_plan.output "r" sizes(%[[M]]) strides(%[[PITCH:.*]]) align 4 : memref<?x64xf32, strided<[1, ?]>>
// PLAN:         %[[M_AGAIN:.*]] = fp8moe_plan.dim %[[X]], 0
// PLAN:         %[[ONE:.*]] = arith.constant 1 : index
// PLAN:         fp8moe_plan.launch @columns_kernel grid(%[[ONE]], %[[ONE]], %[[ONE]]) block(1, 1, 1) shared 0
// PLAN-SAME:      args(%[[X]], %[[R]], %[[M_AGAIN]], %[[M]], %[[PITCH]])
// PLAN:       func.func private @columns_kernel(!llvm.ptr, !llvm.ptr, i64, i64, i64) attributes {entry_of = @columns_0}
// PLAN:       func.func @columns_0(%{{.*}}: tensor<?x64xf32>

// The kernel rebuilds both memrefs. The input is dense, so its strides follow from its inner sizes.

// ENTRY:       func.func @columns_kernel(%[[X:.*]]: !llvm.ptr {llvm.noalias}, %[[R:.*]]: !llvm.ptr {llvm.noalias}, %[[XM:.*]]: i64, %[[RM:.*]]: i64, %[[PITCH:.*]]: i64)
// ENTRY-DAG:     %[[C1:.*]] = arith.constant 1 : i64
// ENTRY-DAG:     %[[C64:.*]] = arith.constant 64 : i64
// ENTRY:         llvm.insertvalue %[[X]], %{{.*}}[1]
// ENTRY:         llvm.insertvalue %[[XM]], %{{.*}}[3, 0]
// ENTRY:         llvm.insertvalue %[[C64]], %{{.*}}[4, 0]
// ENTRY:         llvm.insertvalue %[[C64]], %{{.*}}[3, 1]
// ENTRY:         %[[XD:.*]] = llvm.insertvalue %[[C1]], %{{.*}}[4, 1]
// ENTRY:         %[[XB:.*]] = builtin.unrealized_conversion_cast %[[XD]] : {{.*}} to memref<?x64xf32>
// ENTRY:         llvm.insertvalue %[[R]], %{{.*}}[1]
// ENTRY:         llvm.insertvalue %[[RM]], %{{.*}}[3, 0]
// ENTRY:         llvm.insertvalue %[[C1]], %{{.*}}[4, 0]
// ENTRY:         %[[RD:.*]] = llvm.insertvalue %[[PITCH]], %{{.*}}[4, 1]
// ENTRY:         %[[RB:.*]] = builtin.unrealized_conversion_cast %[[RD]] : {{.*}} to memref<?x64xf32, strided<[1, ?]>>
// ENTRY:         call @columns_0(%[[XB]], %[[RB]])
// ENTRY:       func.func private @columns_0(
// ENTRY-SAME:    llvm.linkage = #llvm.linkage<internal>
func.func @columns(%x: tensor<?x64xf32> {fp8moe.name = "x"})
    -> (tensor<?x64xf32, #fp8moe.strided<[1, 0]>> {fp8moe.name = "r"}) {
  %r = fp8moe.relayout %x : tensor<?x64xf32> -> tensor<?x64xf32, #fp8moe.strided<[1, 0]>>
  return %r : tensor<?x64xf32, #fp8moe.strided<[1, 0]>>
}

// Kernel names are made unique when a function already has the name that a kernel would get.

// PLAN:       func.func private @copy_kernel_0(
// PLAN:       func.func private @copy_kernel_kernel(
func.func @copy(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @copy_kernel(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// PLAN-NOT: program @helper
func.func private @helper(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// The output may alias the addend, so neither pointer is noalias.

// ENTRY:       func.func @sum_kernel(%{{[^:]*}}: !llvm.ptr {llvm.noalias}, %{{[^:]*}}: !llvm.ptr {llvm.noalias}, %{{[^:]*}}: !llvm.ptr, %{{[^:]*}}: !llvm.ptr)
func.func @sum(%a: tensor<4x32xbf16>, %b: tensor<32x16xbf16>, %c: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %y = fp8moe.linear %a, %b accumulate(%c : tensor<4x16xf32>)
      : tensor<4x32xbf16>, tensor<32x16xbf16> -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// Linkers read "@" as the start of a version, and LLVM reserves "llvm." for intrinsics. Names of
// kernels avoid both. Programs keep the function's name.

// PLAN:       fp8moe_plan.program @"copy@v2"
// PLAN:         fp8moe_plan.launch @copy_v2_kernel
// PLAN:       func.func private @copy_v2_kernel({{.*}}) attributes {entry_of = @copy_v2}
// PLAN:       func.func @copy_v2(
func.func @"copy@v2"(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = fp8moe.relayout %x : tensor<4x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// PLAN:       fp8moe_plan.program @llvm.copy
// PLAN:         fp8moe_plan.launch @_llvm.copy_kernel
func.func @llvm.copy(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = fp8moe.relayout %x : tensor<4x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
