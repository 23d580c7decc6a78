// RUN: fp8moe-opt %s --fp8moe-plan-cpu-workspaces --split-input-file --allow-unregistered-dialect | FileCheck %s

// Allocations at the top level of a kernel become workspaces of its program. Their sizes are
// computed in the program and passed to the kernel.
// CHECK-LABEL: fp8moe_plan.program @f
// CHECK:         %[[X:.*]] = fp8moe_plan.input "x"
// CHECK:         %[[M:.*]] = fp8moe_plan.dim %[[X]], 0
// CHECK:         %[[Y:.*]] = fp8moe_plan.output "y"
// CHECK:         %[[FIXED:.*]] = fp8moe_plan.workspace align 64 : memref<32x8xf64>
// CHECK:         %[[ROWS:.*]] = fp8moe_plan.dim %[[X]], 0
// CHECK:         %[[C2:.*]] = arith.constant 2 : index
// CHECK:         %[[TWICE:.*]] = arith.muli %[[ROWS]], %[[C2]]
// CHECK:         %[[OPEN:.*]] = fp8moe_plan.workspace sizes(%[[TWICE]]) align 64 : memref<?xf32>
// CHECK:         fp8moe_plan.launch @f_kernel
// CHECK-SAME:      args(%[[X]], %[[Y]], %[[FIXED]], %[[OPEN]], %[[M]], %[[TWICE]])
fp8moe_plan.program @f {
  %x = fp8moe_plan.input "x" align 4 : memref<?xf32>
  %m = fp8moe_plan.dim %x, 0 : memref<?xf32>
  %y = fp8moe_plan.output "y" align 4 : memref<8xf32>
  %c1 = arith.constant 1 : index
  fp8moe_plan.launch @f_kernel grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 args(%x, %y, %m) : memref<?xf32>, memref<8xf32>, index
}
// CHECK: func.func private @f_kernel(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64) attributes {entry_of = @f_0}
func.func private @f_kernel(!llvm.ptr, !llvm.ptr, i64) attributes {entry_of = @f_0}
// CHECK:       func.func @f_0(%{{.*}}: memref<?xf32>, %{{.*}}: memref<8xf32>, %[[A:.*]]: memref<32x8xf64>, %[[B:.*]]: memref<?xf32>)
// CHECK-NOT:     memref.alloc
// CHECK:         "test.use"(%[[A]], %[[B]])
func.func @f_0(%x: memref<?xf32>, %y: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %m = memref.dim %x, %c0 : memref<?xf32>
  %twice = arith.muli %m, %c2 : index
  %a = memref.alloc() : memref<32x8xf64>
  %b = memref.alloc(%twice) : memref<?xf32>
  "test.use"(%a, %b) : (memref<32x8xf64>, memref<?xf32>) -> ()
  return
}

// -----

// Two allocations stay in the kernel: one whose size is read from data, and one inside a loop.

// CHECK-LABEL: fp8moe_plan.program @g
// CHECK-NOT:     fp8moe_plan.workspace
// CHECK:         args(%{{.*}}) : memref<4xi32>
fp8moe_plan.program @g {
  %x = fp8moe_plan.input "x" align 4 : memref<4xi32>
  %c1 = arith.constant 1 : index
  fp8moe_plan.launch @g_kernel grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 args(%x) : memref<4xi32>
}
func.func private @g_kernel(!llvm.ptr) attributes {entry_of = @g_0}
// CHECK:       func.func @g_0(%{{[^,]*}}: memref<4xi32>)
// CHECK-COUNT-2: memref.alloc
func.func @g_0(%x: memref<4xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %end = memref.load %x[%c0] : memref<4xi32>
  %length = arith.index_cast %end : i32 to index
  %a = memref.alloc(%length) : memref<?xf32>
  "test.use"(%a) : (memref<?xf32>) -> ()
  scf.for %i = %c0 to %c4 step %c1 {
    %b = memref.alloc() : memref<8xf32>
    "test.use"(%b) : (memref<8xf32>) -> ()
  }
  return
}
