// RUN: fp8moe-opt %s --canonicalize --cse --split-input-file | FileCheck %s

gpu.module @kernels {
  gpu.func @k(%m: i64, %n: i64) kernel {
    gpu.return
  }
}

// Static extents fold to constants, and extents of an output to its operands.
// CHECK-LABEL: program @fold_extents
fp8moe_plan.program @fold_extents {
  // CHECK-DAG: %[[C8:.*]] = arith.constant 8 : index
  // CHECK-DAG: %[[X:.*]] = fp8moe_plan.input "x"
  %x = fp8moe_plan.input "x" align 16 : memref<?x8xbf16>
  // CHECK: %[[M:.*]] = fp8moe_plan.dim %[[X]], 0
  %m = fp8moe_plan.dim %x, 0 : memref<?x8xbf16>
  %n = fp8moe_plan.dim %x, 1 : memref<?x8xbf16>
  %o = fp8moe_plan.output "o" sizes(%m) strides(%m) align 16
      : memref<8x?xbf16, strided<[?, 1]>>
  %om = fp8moe_plan.dim %o, 1 : memref<8x?xbf16, strided<[?, 1]>>
  %os = fp8moe_plan.stride %o, 0 : memref<8x?xbf16, strided<[?, 1]>>
  %xs = fp8moe_plan.stride %x, 0 : memref<?x8xbf16>
  %c1 = arith.constant 1 : index
  // CHECK: launch @kernels::@k {{.*}} args(%[[C8]], %[[M]])
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%n, %om) : index, index
  // CHECK: launch @kernels::@k {{.*}} args(%[[M]], %[[C8]])
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%os, %xs) : index, index
}

// -----

gpu.module @kernels {
  gpu.func @k(%s: i64) kernel {
    gpu.return
  }
}

// CHECK-LABEL: program @identity_stride
fp8moe_plan.program @identity_stride {
  // CHECK-DAG: %[[C8:.*]] = arith.constant 8 : index
  // CHECK-DAG: %[[X:.*]] = fp8moe_plan.input "x"
  %x = fp8moe_plan.input "x" align 16 : memref<?x?x8xbf16>
  %s = fp8moe_plan.stride %x, 0 : memref<?x?x8xbf16>
  %c1 = arith.constant 1 : index
  // CHECK: %[[D:.*]] = fp8moe_plan.dim %[[X]], 1
  // CHECK: %[[S:.*]] = arith.muli %[[D]], %[[C8]] : index
  // CHECK: launch @kernels::@k {{.*}} args(%[[S]])
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%s) : index
}

// A stride whose static factors overflow an i64 is not folded.

// CHECK-LABEL: program @huge_stride
fp8moe_plan.program @huge_stride {
  %x = fp8moe_plan.input "x" align 16 : memref<?x?x4611686018427387904x8xbf16>
  %c1 = arith.constant 1 : index
  // CHECK: %[[S:.*]] = fp8moe_plan.stride
  %s = fp8moe_plan.stride %x, 0 : memref<?x?x4611686018427387904x8xbf16>
  // CHECK: launch @kernels::@k {{.*}} args(%[[S]])
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%s) : index
}

// -----

// Unused inputs and outputs stay, as they are the program's interface. An unused workspace is
// erased.
// CHECK-LABEL: program @unused
fp8moe_plan.program @unused {
  // CHECK-NEXT: fp8moe_plan.input "x"
  %x = fp8moe_plan.input "x" align 4 : memref<8xf32>
  // CHECK-NEXT: fp8moe_plan.input "y"
  %y = fp8moe_plan.input "y" align 4 : memref<8xf32>
  // CHECK-NEXT: fp8moe_plan.output "o"
  %o = fp8moe_plan.output "o" align 4 : memref<8xf32>
  // CHECK-NEXT: }
  %t = fp8moe_plan.workspace align 4 : memref<8xf32>
}

// -----

gpu.module @kernels {
  gpu.func @k(%t: !llvm.ptr) kernel {
    gpu.return
  }
}

// Common subexpression elimination merges neither equal launches nor equal workspaces.
// CHECK-LABEL: program @not_common
fp8moe_plan.program @not_common {
  // CHECK-DAG: %[[T0:.*]] = fp8moe_plan.workspace
  // CHECK-DAG: %[[T1:.*]] = fp8moe_plan.workspace
  %t0 = fp8moe_plan.workspace align 4 : memref<8xf32>
  %t1 = fp8moe_plan.workspace align 4 : memref<8xf32>
  %c1 = arith.constant 1 : index
  // CHECK: launch {{.*}} args(%[[T0]])
  // CHECK: launch {{.*}} args(%[[T0]])
  // CHECK: launch {{.*}} args(%[[T1]])
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%t0) : memref<8xf32>
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%t0) : memref<8xf32>
  fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
      args(%t1) : memref<8xf32>
}

// -----

gpu.module @kernels {
  gpu.func @never() kernel {
    gpu.return
  }
  gpu.func @always() kernel {
    gpu.return
  }
}

// CHECK-LABEL: program @constant_launches
fp8moe_plan.program @constant_launches {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %true = arith.constant true
  %false = arith.constant false
  // CHECK-NOT: @never
  fp8moe_plan.launch @kernels::@never grid(%c1, %c0, %c1) block(1, 1, 1) shared 0
  fp8moe_plan.launch @kernels::@never grid(%c1, %c1, %c1) block(1, 1, 1)
      shared 0 when(%false)
  // CHECK: fp8moe_plan.launch @kernels::@always grid({{.*}}) block(1, 1, 1) shared 0{{$}}
  fp8moe_plan.launch @kernels::@always grid(%c1, %c1, %c1) block(1, 1, 1)
      shared 0 when(%true)
  // CHECK-NOT: @never
}
