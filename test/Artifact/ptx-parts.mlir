// Kernels are optimized and translated to PTX in parallel, each in a module of its own. The joined
// PTX has one header, shared declarations once, and the kernels in source order.

// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=sm_90a kind=ptx output=%t.ptx" -o /dev/null
// RUN: FileCheck %s --input-file=%t.ptx --implicit-check-not=.version --implicit-check-not=.extern
// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=sm_90a kind=ptx output=%t.alone.ptx" -o /dev/null --mlir-disable-threading
// RUN: cmp %t.ptx %t.alone.ptx

// CHECK:      .version
// CHECK:      .target sm_90a
// CHECK-DAG:  .extern .shared .align 16 .b8 dynamic[];
// CHECK-DAG:  .global .align 4 .u32 of_first;
// CHECK:      .visible .entry first(
// CHECK:      st.shared
// CHECK:      .global .align 4 .u32 of_second;
// CHECK:      .visible .entry second(
// CHECK:      st.shared

gpu.module @kernels {
  llvm.mlir.global external @dynamic() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
  llvm.mlir.global internal @of_first(0 : i32) {addr_space = 1 : i32} : i32
  llvm.mlir.global internal @of_second(0 : i32) {addr_space = 1 : i32} : i32

  llvm.func @first() attributes {gpu.kernel, nvvm.kernel} {
    %one = llvm.mlir.constant(1 : i32) : i32
    %count = llvm.mlir.addressof @of_first : !llvm.ptr<1>
    %old = llvm.atomicrmw add %count, %one monotonic : !llvm.ptr<1>, i32
    %shared = llvm.mlir.addressof @dynamic : !llvm.ptr<3>
    llvm.store %old, %shared : i32, !llvm.ptr<3>
    llvm.return
  }
  llvm.func @second() attributes {gpu.kernel, nvvm.kernel} {
    %one = llvm.mlir.constant(1 : i32) : i32
    %count = llvm.mlir.addressof @of_second : !llvm.ptr<1>
    %old = llvm.atomicrmw add %count, %one monotonic : !llvm.ptr<1>, i32
    %shared = llvm.mlir.addressof @dynamic : !llvm.ptr<3>
    llvm.store %old, %shared : i32, !llvm.ptr<3>
    llvm.return
  }
}
