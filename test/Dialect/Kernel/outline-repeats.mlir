// RUN: fp8moe-opt %s --fp8moe-outline-repeats | FileCheck %s

// RUN: fp8moe-opt %s --fp8moe-outline-repeats --mlir-use-nameloc-as-prefix \
// RUN:   | FileCheck %s --check-prefix=NAMES

gpu.module @kernels {
  // Different constants and values are parameters, equal constants are not. The second call reads the
  // result of the first one. The function has the name of the innermost step of its operations.

  // CHECK-LABEL: gpu.func @steps(
  // CHECK-SAME: %[[X:.*]]: i32, %[[Y:.*]]: i32, %[[TO:.*]]: !llvm.ptr)
  // CHECK-DAG: %[[C7:.*]] = arith.constant 7
  // CHECK-DAG: %[[C9:.*]] = arith.constant 9
  // CHECK: %[[A:.*]] = func.call @swizzle(%[[X]], %[[Y]], %[[C7]])
  // CHECK-NEXT: %[[B:.*]] = func.call @swizzle(%[[A]], %[[Y]], %[[C9]])
  // CHECK-NEXT: llvm.store %[[B]], %[[TO]]
  // CHECK-NEXT: gpu.return
  // CHECK: func.func private @swizzle(
  // CHECK-SAME: %[[L:.*]]: i32, %[[R:.*]]: i32, %[[C:.*]]: i32) -> i32
  // CHECK: %[[C3:.*]] = arith.constant 3
  // CHECK-NEXT: %[[PRODUCT:.*]] = arith.muli %[[L]], %[[C3]]
  // CHECK-NEXT: %[[SUM:.*]] = arith.addi %[[PRODUCT]], %[[R]]
  // CHECK-NEXT: arith.xori %[[SUM]], %[[C]]
  // CHECK: return

  // NAMES-LABEL: gpu.func @steps
  // NAMES: %swizzle = func.call @swizzle(%arg0, %columns,
  // NAMES: %swizzle_{{[0-9]*}} = func.call @swizzle(%swizzle, %columns,
  // NAMES: func.func private @swizzle(%arg0: i32, %columns: i32,
  gpu.func @steps(%x: i32, %y: i32 loc("columns"), %to: !llvm.ptr) {
    %c3 = arith.constant 3 : i32
    %c7 = arith.constant 7 : i32
    %c9 = arith.constant 9 : i32
    %0 = arith.muli %x, %c3 : i32 loc(#inner)
    %1 = arith.addi %0, %y : i32 loc(#outer)
    %2 = arith.xori %1, %c7 : i32 loc(#outer)
    %3 = arith.subi %2, %y : i32 loc(#outer)
    %4 = arith.andi %3, %c7 : i32
    %5 = arith.ori %4, %y : i32
    %6 = arith.shli %5, %c7 : i32
    %7 = arith.shrui %6, %y : i32
    %8 = arith.maxsi %7, %c7 : i32
    %9 = arith.minsi %8, %y : i32
    %10 = arith.maxui %9, %c7 : i32
    %11 = arith.minui %10, %y : i32
    %12 = arith.divui %11, %c7 : i32
    %13 = arith.remui %12, %y : i32
    %14 = arith.divsi %13, %c7 : i32
    %15 = arith.remsi %14, %y : i32
    %16 = arith.shrsi %15, %c7 : i32
    %17 = arith.muli %16, %y : i32
    %18 = arith.addi %17, %c7 : i32
    %19 = arith.subi %18, %c3 : i32
    %20 = arith.muli %19, %c3 : i32 loc(#inner)
    %21 = arith.addi %20, %y : i32 loc(#outer)
    %22 = arith.xori %21, %c9 : i32 loc(#outer)
    %23 = arith.subi %22, %y : i32 loc(#outer)
    %24 = arith.andi %23, %c9 : i32
    %25 = arith.ori %24, %y : i32
    %26 = arith.shli %25, %c9 : i32
    %27 = arith.shrui %26, %y : i32
    %28 = arith.maxsi %27, %c9 : i32
    %29 = arith.minsi %28, %y : i32
    %30 = arith.maxui %29, %c9 : i32
    %31 = arith.minui %30, %y : i32
    %32 = arith.divui %31, %c9 : i32
    %33 = arith.remui %32, %y : i32
    %34 = arith.divsi %33, %c9 : i32
    %35 = arith.remsi %34, %y : i32
    %36 = arith.shrsi %35, %c9 : i32
    %37 = arith.muli %36, %y : i32
    %38 = arith.addi %37, %c9 : i32
    %39 = arith.subi %38, %c3 : i32
    llvm.store %39, %to : i32, !llvm.ptr
    gpu.return
  }

  // Elements of a vector differ by their numbers only when one operation takes all of them.

  // CHECK-LABEL: gpu.func @elements(
  // CHECK: %[[E:.*]]:4 = vector.to_elements
  // CHECK-NEXT: func.call @[[F:part.*]](%[[E]]#0, %
  // CHECK-NEXT: func.call @[[F]](%[[E]]#1, %
  // CHECK-NEXT: func.call @[[F]](%[[E]]#2, %
  // CHECK-NEXT: gpu.return
  // CHECK: func.func private @[[F]](
  gpu.func @elements(%x: vector<4xf32>, %to: !llvm.ptr) {
    %0 = vector.extract %x[0] : f32 from vector<4xf32>
    %1 = arith.negf %0 : f32
    %2 = arith.mulf %1, %1 : f32
    %3 = arith.mulf %2, %2 : f32
    %4 = arith.mulf %3, %3 : f32
    %5 = arith.mulf %4, %4 : f32
    %6 = arith.mulf %5, %5 : f32
    llvm.store %6, %to : f32, !llvm.ptr
    llvm.store %5, %to : f32, !llvm.ptr
    %10 = vector.extract %x[1] : f32 from vector<4xf32>
    %11 = arith.negf %10 : f32
    %12 = arith.mulf %11, %11 : f32
    %13 = arith.mulf %12, %12 : f32
    %14 = arith.mulf %13, %13 : f32
    %15 = arith.mulf %14, %14 : f32
    %16 = arith.mulf %15, %15 : f32
    llvm.store %16, %to : f32, !llvm.ptr
    llvm.store %15, %to : f32, !llvm.ptr
    %20 = vector.extract %x[2] : f32 from vector<4xf32>
    %21 = arith.negf %20 : f32
    %22 = arith.mulf %21, %21 : f32
    %23 = arith.mulf %22, %22 : f32
    %24 = arith.mulf %23, %23 : f32
    %25 = arith.mulf %24, %24 : f32
    %26 = arith.mulf %25, %25 : f32
    llvm.store %26, %to : f32, !llvm.ptr
    llvm.store %25, %to : f32, !llvm.ptr
    gpu.return
  }

  // Operations of the same names that refer to each other otherwise are no repeat.

  // CHECK-LABEL: gpu.func @wired_alike(
  // CHECK-COUNT-2: call @part
  gpu.func @wired_alike(%x: i32, %y: i32, %to: !llvm.ptr) {
    %0 = arith.subi %x, %y : i32
    %1 = arith.muli %y, %0 : i32
    %2 = arith.xori %0, %1 : i32
    %3 = arith.andi %1, %2 : i32
    %4 = arith.ori %2, %3 : i32
    %5 = arith.shli %3, %4 : i32
    %6 = arith.shrui %4, %5 : i32
    %7 = arith.shrsi %5, %6 : i32
    %8 = arith.divui %6, %7 : i32
    %9 = arith.divsi %7, %8 : i32
    %10 = arith.remui %8, %9 : i32
    %11 = arith.remsi %9, %10 : i32
    %12 = arith.maxsi %10, %11 : i32
    %13 = arith.minsi %11, %12 : i32
    %14 = arith.maxui %12, %13 : i32
    %15 = arith.minui %13, %14 : i32
    %16 = arith.addi %14, %15 : i32
    llvm.store %16, %to : i32, !llvm.ptr
    %17 = arith.subi %x, %y : i32
    %18 = arith.muli %y, %17 : i32
    %19 = arith.xori %17, %18 : i32
    %20 = arith.andi %18, %19 : i32
    %21 = arith.ori %19, %20 : i32
    %22 = arith.shli %20, %21 : i32
    %23 = arith.shrui %21, %22 : i32
    %24 = arith.shrsi %22, %23 : i32
    %25 = arith.divui %23, %24 : i32
    %26 = arith.divsi %24, %25 : i32
    %27 = arith.remui %25, %26 : i32
    %28 = arith.remsi %26, %27 : i32
    %29 = arith.maxsi %27, %28 : i32
    %30 = arith.minsi %28, %29 : i32
    %31 = arith.maxui %29, %30 : i32
    %32 = arith.minui %30, %31 : i32
    %33 = arith.addi %31, %32 : i32
    llvm.store %33, %to : i32, !llvm.ptr
    gpu.return
  }

  // CHECK-LABEL: gpu.func @wired_otherwise(
  // CHECK-NOT: call
  gpu.func @wired_otherwise(%x: i32, %y: i32, %to: !llvm.ptr) {
    %0 = arith.subi %x, %y : i32
    %1 = arith.muli %y, %0 : i32
    %2 = arith.xori %0, %1 : i32
    %3 = arith.andi %1, %2 : i32
    %4 = arith.ori %2, %3 : i32
    %5 = arith.shli %3, %4 : i32
    %6 = arith.shrui %4, %5 : i32
    %7 = arith.shrsi %5, %6 : i32
    %8 = arith.divui %6, %7 : i32
    %9 = arith.divsi %7, %8 : i32
    %10 = arith.remui %8, %9 : i32
    %11 = arith.remsi %9, %10 : i32
    %12 = arith.maxsi %10, %11 : i32
    %13 = arith.minsi %11, %12 : i32
    %14 = arith.maxui %12, %13 : i32
    %15 = arith.minui %13, %14 : i32
    %16 = arith.addi %14, %15 : i32
    llvm.store %16, %to : i32, !llvm.ptr
    %17 = arith.subi %y, %x : i32
    %18 = arith.muli %17, %y : i32
    %19 = arith.xori %18, %17 : i32
    %20 = arith.andi %19, %18 : i32
    %21 = arith.ori %20, %19 : i32
    %22 = arith.shli %21, %20 : i32
    %23 = arith.shrui %22, %21 : i32
    %24 = arith.shrsi %23, %22 : i32
    %25 = arith.divui %24, %23 : i32
    %26 = arith.divsi %25, %24 : i32
    %27 = arith.remui %26, %25 : i32
    %28 = arith.remsi %27, %26 : i32
    %29 = arith.maxsi %28, %27 : i32
    %30 = arith.minsi %29, %28 : i32
    %31 = arith.maxui %30, %29 : i32
    %32 = arith.minui %31, %30 : i32
    %33 = arith.addi %32, %31 : i32
    llvm.store %33, %to : i32, !llvm.ptr
    gpu.return
  }

  // Only elements that are there, of structs and vectors of known length, become results of one operation.

  // CHECK-LABEL: gpu.func @other_aggregates(
  // CHECK: llvm.extractvalue %{{.*}}[0] : !llvm.array<2 x i32>
  // CHECK: llvm.extractelement
  // CHECK: vector.extract %{{.*}}[0] : f32 from vector<[4]xf32>
  // CHECK-NEXT: gpu.return
  gpu.func @other_aggregates(%array: !llvm.array<2 x i32>, %vector: vector<4xf32>, %scalable: vector<[4]xf32>) {
    %c9 = arith.constant 9 : i32
    %0 = llvm.extractvalue %array[0] : !llvm.array<2 x i32>
    %1 = llvm.extractelement %vector[%c9 : i32] : vector<4xf32>
    %2 = vector.extract %scalable[0] : f32 from vector<[4]xf32>
    gpu.return
  }
}

#outer = loc(fused<"swizzle">["file":1:1])
#inner = loc(fused<"multiply">[#outer])
