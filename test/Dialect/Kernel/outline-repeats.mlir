// RUN: fp8moe-opt %s --fp8moe-outline-repeats | FileCheck %s

// RUN: fp8moe-opt %s --fp8moe-outline-repeats --mlir-use-nameloc-as-prefix \
// RUN:   | FileCheck %s --check-prefix=NAMES

gpu.module @kernels {
  // Two equal steps become calls of one function. Constants and values that differ are its
  // parameters. The second call takes a result of the first. The function returns every result that
  // any call needs.

  // CHECK-LABEL: gpu.func @steps(
  // CHECK-SAME: %[[X:.*]]: i32, %[[Y:.*]]: i32, %[[TO:.*]]: !llvm.ptr)
  // CHECK-DAG: %[[C7:.*]] = arith.constant 7
  // CHECK-DAG: %[[C9:.*]] = arith.constant 9
  // CHECK: %[[A:.*]]:2 = func.call @swizzle(%[[X]], %[[Y]], %[[C7]])
  // CHECK-NEXT: %[[B:.*]]:2 = func.call @swizzle(%[[A]]#1, %[[Y]], %[[C9]])
  // CHECK-NEXT: llvm.store %[[B]]#0, %[[TO]]
  // CHECK-NEXT: llvm.store %[[B]]#1, %[[TO]]
  // CHECK-NEXT: gpu.return
  // CHECK: func.func private @swizzle(
  // CHECK-SAME: %[[L:.*]]: i32, %[[R:.*]]: i32, %[[C:.*]]: i32) -> (i32, i32)
  // CHECK: %[[C3:.*]] = arith.constant 3
  // CHECK-NEXT: %[[PRODUCT:.*]] = arith.muli %[[L]], %[[C3]]
  // CHECK-NEXT: %[[SUM:.*]] = arith.addi %[[PRODUCT]], %[[R]]
  // CHECK-NEXT: %[[XOR:.*]] = arith.xori %[[SUM]], %[[C]]
  // CHECK: return %[[XOR]], %{{.*}} : i32, i32

  // A parameter has the name that its values have at the calls, if they have one.

  // NAMES-LABEL: gpu.func @steps
  // NAMES: %swizzle:2 = func.call @swizzle(%arg0, %columns,
  // NAMES: func.func private @swizzle(%offset: i32, %columns: i32, %arg2: i32
  gpu.func @steps(%x: i32, %y: i32 loc("columns"), %to: !llvm.ptr) {
    %c3 = arith.constant 3 : i32
    %c7 = arith.constant 7 : i32
    %c9 = arith.constant 9 : i32
    %0 = arith.muli %x, %c3 : i32 loc(#multiply_0)
    %1 = arith.addi %0, %y : i32 loc(#swizzle_0)
    %2 = arith.xori %1, %c7 : i32 loc(#swizzle_0)
    %3 = arith.subi %2, %y : i32 loc(#swizzle_0)
    %4 = arith.andi %3, %c7 : i32 loc(#swizzle_0)
    %5 = arith.ori %4, %y : i32 loc(#swizzle_0)
    %6 = arith.shli %5, %c7 : i32 loc(#swizzle_0)
    %7 = arith.shrui %6, %y : i32 loc(#swizzle_0)
    %8 = arith.maxsi %7, %c7 : i32 loc(#swizzle_0)
    %9 = arith.minsi %8, %y : i32 loc(#swizzle_0)
    %10 = arith.maxui %9, %c7 : i32 loc(#swizzle_0)
    %11 = arith.minui %10, %y : i32 loc(#swizzle_0)
    %12 = arith.divui %11, %c7 : i32 loc(#swizzle_0)
    %13 = arith.remui %12, %y : i32 loc(#swizzle_0)
    %14 = arith.divsi %13, %c7 : i32 loc(#swizzle_0)
    %15 = arith.remsi %14, %y : i32 loc(#swizzle_0)
    %16 = arith.shrsi %15, %c7 : i32 loc(#swizzle_0)
    %17 = arith.muli %16, %y : i32 loc(#swizzle_0)
    %18 = arith.addi %17, %c7 : i32 loc(#swizzle_0)
    %19 = arith.subi %18, %c3 : i32 loc(#offset)
    %20 = arith.muli %19, %c3 : i32 loc(#multiply_1)
    %21 = arith.addi %20, %y : i32 loc(#swizzle_1)
    %22 = arith.xori %21, %c9 : i32 loc(#swizzle_1)
    %23 = arith.subi %22, %y : i32 loc(#swizzle_1)
    %24 = arith.andi %23, %c9 : i32 loc(#swizzle_1)
    %25 = arith.ori %24, %y : i32 loc(#swizzle_1)
    %26 = arith.shli %25, %c9 : i32 loc(#swizzle_1)
    %27 = arith.shrui %26, %y : i32 loc(#swizzle_1)
    %28 = arith.maxsi %27, %c9 : i32 loc(#swizzle_1)
    %29 = arith.minsi %28, %y : i32 loc(#swizzle_1)
    %30 = arith.maxui %29, %c9 : i32 loc(#swizzle_1)
    %31 = arith.minui %30, %y : i32 loc(#swizzle_1)
    %32 = arith.divui %31, %c9 : i32 loc(#swizzle_1)
    %33 = arith.remui %32, %y : i32 loc(#swizzle_1)
    %34 = arith.divsi %33, %c9 : i32 loc(#swizzle_1)
    %35 = arith.remsi %34, %y : i32 loc(#swizzle_1)
    %36 = arith.shrsi %35, %c9 : i32 loc(#swizzle_1)
    %37 = arith.muli %36, %y : i32 loc(#swizzle_1)
    %38 = arith.addi %37, %c9 : i32 loc(#swizzle_1)
    %39 = arith.subi %38, %c3 : i32 loc(#swizzle_1)
    llvm.store %22, %to : i32, !llvm.ptr
    llvm.store %39, %to : i32, !llvm.ptr
    gpu.return
  }

  // Extracts become one vector.to_elements, so that steps differ in an operand only. Adjacent steps
  // stay separate calls. A step that consists of just another step of the same name is outlined
  // once.

  // CHECK-LABEL: gpu.func @elements(
  // CHECK: %[[E:.*]]:4 = vector.to_elements
  // CHECK-NEXT: func.call @[[F:power.*]](%[[E]]#0, %
  // CHECK-NEXT: func.call @[[F]](%[[E]]#1, %
  // CHECK-NEXT: func.call @[[F]](%[[E]]#2, %
  // CHECK-NEXT: gpu.return
  // CHECK: func.func private @[[F]](
  gpu.func @elements(%x: vector<4xf32>, %to: !llvm.ptr) {
    %0 = vector.extract %x[0] : f32 from vector<4xf32> loc(#power_0)
    %1 = arith.negf %0 : f32 loc(#power_0)
    %2 = arith.mulf %1, %1 : f32 loc(#power_0)
    %3 = arith.mulf %2, %2 : f32 loc(#power_0)
    %4 = arith.mulf %3, %3 : f32 loc(#power_0)
    %5 = arith.mulf %4, %4 : f32 loc(#power_0)
    %6 = arith.mulf %5, %5 : f32 loc(#power_0)
    llvm.store %6, %to : f32, !llvm.ptr loc(#power_0)
    llvm.store %5, %to : f32, !llvm.ptr loc(#power_0)
    %10 = vector.extract %x[1] : f32 from vector<4xf32> loc(#power_1)
    %11 = arith.negf %10 : f32 loc(#power_1)
    %12 = arith.mulf %11, %11 : f32 loc(#power_1)
    %13 = arith.mulf %12, %12 : f32 loc(#power_1)
    %14 = arith.mulf %13, %13 : f32 loc(#power_1)
    %15 = arith.mulf %14, %14 : f32 loc(#power_1)
    %16 = arith.mulf %15, %15 : f32 loc(#power_1)
    llvm.store %16, %to : f32, !llvm.ptr loc(#power_1)
    llvm.store %15, %to : f32, !llvm.ptr loc(#power_1)
    %20 = vector.extract %x[2] : f32 from vector<4xf32> loc(#power_2)
    %21 = arith.negf %20 : f32 loc(#power_2)
    %22 = arith.mulf %21, %21 : f32 loc(#power_2)
    %23 = arith.mulf %22, %22 : f32 loc(#power_2)
    %24 = arith.mulf %23, %23 : f32 loc(#power_2)
    %25 = arith.mulf %24, %24 : f32 loc(#power_2)
    %26 = arith.mulf %25, %25 : f32 loc(#power_2)
    llvm.store %26, %to : f32, !llvm.ptr loc(#power_2)
    llvm.store %25, %to : f32, !llvm.ptr loc(#power_2)
    gpu.return
  }

  // Steps with the same operations but a different data flow share no function.

  // CHECK-LABEL: gpu.func @wired_alike(
  // CHECK-COUNT-2: call @mix
  gpu.func @wired_alike(%x: i32, %y: i32, %to: !llvm.ptr) {
    %0 = arith.subi %x, %y : i32 loc(#mix_0)
    %1 = arith.muli %y, %0 : i32 loc(#mix_0)
    %2 = arith.xori %0, %1 : i32 loc(#mix_0)
    %3 = arith.andi %1, %2 : i32 loc(#mix_0)
    %4 = arith.ori %2, %3 : i32 loc(#mix_0)
    %5 = arith.shli %3, %4 : i32 loc(#mix_0)
    %6 = arith.shrui %4, %5 : i32 loc(#mix_0)
    %7 = arith.shrsi %5, %6 : i32 loc(#mix_0)
    %8 = arith.divui %6, %7 : i32 loc(#mix_0)
    %9 = arith.divsi %7, %8 : i32 loc(#mix_0)
    %10 = arith.remui %8, %9 : i32 loc(#mix_0)
    %11 = arith.remsi %9, %10 : i32 loc(#mix_0)
    %12 = arith.maxsi %10, %11 : i32 loc(#mix_0)
    %13 = arith.minsi %11, %12 : i32 loc(#mix_0)
    %14 = arith.maxui %12, %13 : i32 loc(#mix_0)
    %15 = arith.minui %13, %14 : i32 loc(#mix_0)
    llvm.store %15, %to : i32, !llvm.ptr loc(#mix_0)
    %16 = arith.subi %x, %y : i32 loc(#mix_1)
    %17 = arith.muli %y, %16 : i32 loc(#mix_1)
    %18 = arith.xori %16, %17 : i32 loc(#mix_1)
    %19 = arith.andi %17, %18 : i32 loc(#mix_1)
    %20 = arith.ori %18, %19 : i32 loc(#mix_1)
    %21 = arith.shli %19, %20 : i32 loc(#mix_1)
    %22 = arith.shrui %20, %21 : i32 loc(#mix_1)
    %23 = arith.shrsi %21, %22 : i32 loc(#mix_1)
    %24 = arith.divui %22, %23 : i32 loc(#mix_1)
    %25 = arith.divsi %23, %24 : i32 loc(#mix_1)
    %26 = arith.remui %24, %25 : i32 loc(#mix_1)
    %27 = arith.remsi %25, %26 : i32 loc(#mix_1)
    %28 = arith.maxsi %26, %27 : i32 loc(#mix_1)
    %29 = arith.minsi %27, %28 : i32 loc(#mix_1)
    %30 = arith.maxui %28, %29 : i32 loc(#mix_1)
    %31 = arith.minui %29, %30 : i32 loc(#mix_1)
    llvm.store %31, %to : i32, !llvm.ptr loc(#mix_1)
    gpu.return
  }

  // CHECK-LABEL: gpu.func @wired_otherwise(
  // CHECK-NOT: call
  gpu.func @wired_otherwise(%x: i32, %y: i32, %to: !llvm.ptr) {
    %0 = arith.subi %x, %y : i32 loc(#mix_2)
    %1 = arith.muli %y, %0 : i32 loc(#mix_2)
    %2 = arith.xori %0, %1 : i32 loc(#mix_2)
    %3 = arith.andi %1, %2 : i32 loc(#mix_2)
    %4 = arith.ori %2, %3 : i32 loc(#mix_2)
    %5 = arith.shli %3, %4 : i32 loc(#mix_2)
    %6 = arith.shrui %4, %5 : i32 loc(#mix_2)
    %7 = arith.shrsi %5, %6 : i32 loc(#mix_2)
    %8 = arith.divui %6, %7 : i32 loc(#mix_2)
    %9 = arith.divsi %7, %8 : i32 loc(#mix_2)
    %10 = arith.remui %8, %9 : i32 loc(#mix_2)
    %11 = arith.remsi %9, %10 : i32 loc(#mix_2)
    %12 = arith.maxsi %10, %11 : i32 loc(#mix_2)
    %13 = arith.minsi %11, %12 : i32 loc(#mix_2)
    %14 = arith.maxui %12, %13 : i32 loc(#mix_2)
    %15 = arith.minui %13, %14 : i32 loc(#mix_2)
    llvm.store %15, %to : i32, !llvm.ptr loc(#mix_2)
    %16 = arith.subi %x, %y : i32 loc(#mix_3)
    %17 = arith.muli %y, %16 : i32 loc(#mix_3)
    %18 = arith.xori %16, %17 : i32 loc(#mix_3)
    %19 = arith.andi %17, %18 : i32 loc(#mix_3)
    %20 = arith.ori %18, %19 : i32 loc(#mix_3)
    %21 = arith.shli %19, %20 : i32 loc(#mix_3)
    %22 = arith.shrui %20, %21 : i32 loc(#mix_3)
    %23 = arith.shrsi %21, %22 : i32 loc(#mix_3)
    %24 = arith.divui %22, %23 : i32 loc(#mix_3)
    %25 = arith.divsi %23, %24 : i32 loc(#mix_3)
    %26 = arith.remui %24, %25 : i32 loc(#mix_3)
    %27 = arith.remsi %25, %26 : i32 loc(#mix_3)
    %28 = arith.maxsi %26, %27 : i32 loc(#mix_3)
    %29 = arith.minsi %27, %28 : i32 loc(#mix_3)
    %30 = arith.maxui %28, %29 : i32 loc(#mix_3)
    %31 = arith.minui %30, %29 : i32 loc(#mix_3)
    llvm.store %31, %to : i32, !llvm.ptr loc(#mix_3)
    gpu.return
  }

  // These extracts stay: the aggregate is an array, the index is dynamic or out of bounds, or the
  // vector is scalable.

  // CHECK-LABEL: gpu.func @other_aggregates(
  // CHECK: llvm.extractvalue %{{.*}}[0] : !llvm.array<2 x i32>
  // CHECK: vector.extract %{{.*}}[%{{.*}}] : f32 from vector<4xf32>
  // CHECK: vector.extract %{{.*}}[0] : f32 from vector<[4]xf32>
  // CHECK: vector.extract %{{.*}}[-1] : f32 from vector<4xf32>
  // CHECK-NEXT: gpu.return
  gpu.func @other_aggregates(%array: !llvm.array<2 x i32>, %vector: vector<4xf32>, %scalable: vector<[4]xf32>, %i: index) {
    %0 = llvm.extractvalue %array[0] : !llvm.array<2 x i32>
    %1 = vector.extract %vector[%i] : f32 from vector<4xf32>
    %2 = vector.extract %scalable[0] : f32 from vector<[4]xf32>
    %3 = vector.extract %vector[-1] : f32 from vector<4xf32> loc(fused<distinct[99]<42 : i32>>["file":1:1])
    gpu.return
  }
}

#swizzle_0 = loc(fused<distinct[0]<"swizzle">>["file":1:1])
#offset = loc("offset"(#swizzle_0))
#swizzle_1 = loc(fused<distinct[1]<"swizzle">>["file":1:1])
#multiply_0 = loc(fused<distinct[2]<"multiply">>[#swizzle_0])
#multiply_1 = loc(fused<distinct[3]<"multiply">>[#swizzle_1])
#power_0 = loc(fused<distinct[4]<"power">>["file":1:1])
#power_1 = loc(fused<distinct[5]<"power">>["file":1:1])
#power_around_2 = loc(fused<distinct[6]<"power">>["file":1:1])
#power_2 = loc(fused<distinct[7]<"power">>[#power_around_2])
#mix_0 = loc(fused<distinct[8]<"mix">>["file":1:1])
#mix_1 = loc(fused<distinct[9]<"mix">>["file":1:1])
#mix_2 = loc(fused<distinct[10]<"mix">>["file":1:1])
#mix_3 = loc(fused<distinct[11]<"mix">>["file":1:1])
