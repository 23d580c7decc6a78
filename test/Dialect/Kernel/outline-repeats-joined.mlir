// RUN: fp8moe-opt %s --fp8moe-outline-repeats | FileCheck %s

// A fused location belongs to the last operation of the first step and to the first one of the
// second step. The steps overlap, so they are not outlined as repeats.

// CHECK-LABEL: gpu.func @joined(
// CHECK-NOT: func.call
// CHECK: gpu.return
// CHECK-NOT: func.func
gpu.module @kernels {
  gpu.func @joined(%x: i32, %to: !llvm.ptr) {
    %0 = arith.addi %x, %x : i32 loc(#first)
    %1 = arith.addi %0, %0 : i32 loc(#first)
    %2 = arith.addi %1, %1 : i32 loc(#first)
    %3 = arith.addi %2, %2 : i32 loc(#first)
    %4 = arith.addi %3, %3 : i32 loc(#first)
    %5 = arith.addi %4, %4 : i32 loc(#first)
    %6 = arith.addi %5, %5 : i32 loc(#first)
    %7 = arith.addi %6, %6 : i32 loc(#first)
    %8 = arith.addi %7, %7 : i32 loc(#first)
    %9 = arith.addi %8, %8 : i32 loc(#first)
    %10 = arith.addi %9, %9 : i32 loc(#first)
    %11 = arith.addi %10, %10 : i32 loc(#first)
    %12 = arith.addi %11, %11 : i32 loc(#first)
    %13 = arith.addi %12, %12 : i32 loc(#first)
    %14 = arith.addi %13, %13 : i32 loc(#both)
    %15 = arith.addi %14, %14 : i32 loc(#second)
    %16 = arith.addi %15, %15 : i32 loc(#second)
    %17 = arith.addi %16, %16 : i32 loc(#second)
    %18 = arith.addi %17, %17 : i32 loc(#second)
    %19 = arith.addi %18, %18 : i32 loc(#second)
    %20 = arith.addi %19, %19 : i32 loc(#second)
    %21 = arith.addi %20, %20 : i32 loc(#second)
    %22 = arith.addi %21, %21 : i32 loc(#second)
    %23 = arith.addi %22, %22 : i32 loc(#second)
    %24 = arith.addi %23, %23 : i32 loc(#second)
    %25 = arith.addi %24, %24 : i32 loc(#second)
    %26 = arith.addi %25, %25 : i32 loc(#second)
    %27 = arith.addi %26, %26 : i32 loc(#second)
    %28 = arith.addi %27, %27 : i32 loc(#second)
    llvm.store %28, %to : i32, !llvm.ptr
    gpu.return
  }
}

#first = loc(fused<distinct[0]<"double">>["file":1:1])
#second = loc(fused<distinct[1]<"double">>["file":1:1])
#both = loc(fused[#first, #second])
