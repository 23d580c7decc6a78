// With a dynamic number of rows, a matmul has kernels with several tiles. The host computes each
// one's time from its waves and launches the fastest.

// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize)" -o %t
// RUN: FileCheck %s --input-file=%t
// RUN: grep -e "program @" -e launch %t | FileCheck %s --check-prefix=LAUNCH

#expert_columns = #fp8moe.strided<[0, 2, 1]>
#columns = #fp8moe.strided<[1, 0]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // Four groups add two partial tiles on average, with a standard deviation of 0.58. That is 182 or
  // 329 more rows, depending on the tile.
  // CHECK-LABEL: fp8moe_plan.program @any_rows
  // CHECK: %[[M:.*]] = fp8moe_plan.dim
  // CHECK: %[[SMS:.*]] = fp8moe_plan.device_attr multiprocessors
  // CHECK: %[[UP:.*]] = arith.ceildivsi %[[M]], %c128
  // CHECK: %[[WHOLE:.*]] = arith.muli %[[UP]], %c128
  // CHECK: %[[PER_WAVE:.*]] = arith.muli %[[SMS]], %c128
  // CHECK: %[[FEW:.*]] = arith.addi %[[M]], %c182
  // CHECK: %[[COVERED:.*]] = arith.maxsi %[[WHOLE]], %[[FEW]]
  // CHECK: %[[TILES:.*]] = arith.muli %[[COVERED]], %c4
  // CHECK: %[[WAVES:.*]] = arith.ceildivsi %[[TILES]], %[[PER_WAVE]]
  // CHECK: arith.addi %[[M]], %c329
  // CHECK: %[[MORE:.*]] = arith.ceildivsi %{{.*}}, %[[PER_WAVE]]
  // CHECK: %[[BOTH:.*]] = arith.addi %[[WAVES]], %[[MORE]]
  // CHECK: %[[TIME:.*]] = arith.muli %[[BOTH]], %c
  // Exactly one kernel is launched: a tie goes to the first.
  // CHECK: %[[OTHERS:.*]] = arith.minsi %[[SECOND:.*]], %[[THIRD:.*]] :
  // CHECK: arith.cmpi sle, %[[TIME]], %[[OTHERS]]
  // CHECK: %[[BEATS:.*]] = arith.cmpi slt, %[[SECOND]], %[[TIME]]
  // CHECK: %[[TIES:.*]] = arith.cmpi sle, %[[SECOND]], %[[THIRD]]
  // CHECK: arith.andi %[[BEATS]], %[[TIES]]
  // CHECK: %[[BEFORE:.*]] = arith.minsi %[[TIME]], %[[SECOND]]
  // CHECK: arith.cmpi slt, %[[THIRD]], %[[BEFORE]]
  // Each kernel has tensor maps for its own tile.
  // CHECK: fp8moe_plan.tensor_map {{.*}} box(128, [[A:[0-9]+]])
  // CHECK: fp8moe_plan.tensor_map {{.*}} box(128, [[B:[0-9]+]], 1)
  // CHECK: fp8moe_plan.launch
  // CHECK: fp8moe_plan.tensor_map
  // CHECK: fp8moe_plan.launch
  // LAUNCH: program @any_rows
  // LAUNCH: launch {{.*}}@grouped_matmul_[[FIRST:[0-9]+]] {{.*}} when(
  // LAUNCH-NOT: @grouped_matmul_[[FIRST]]
  // LAUNCH: launch {{.*}}@grouped_matmul_{{[0-9]+}} {{.*}} when(
  func.func @any_rows(%a: tensor<?x16384xf8E4M3FN>, %sa: tensor<?xf32>,
      %b: tensor<4x16384x512xf8E4M3FN, #expert_columns>, %sb: tensor<4x512xf32>,
      %ends: tensor<4xi32>) -> tensor<?x512xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
        scales(%sa, %sb : tensor<?xf32>, tensor<4x512xf32>)
        direction quantize accumulation fast
        : tensor<?x16384xf8E4M3FN>, tensor<4x16384x512xf8E4M3FN, #expert_columns>
        -> tensor<?x512xbf16>
    return %o : tensor<?x512xbf16>
  }

  // A static number of rows is decided at compile time.
  // LAUNCH: program @known_rows
  // LAUNCH-NEXT: launch {{.*}}@grouped_matmul_
  // LAUNCH-NOT: launch
  func.func @known_rows(%a: tensor<4096x16384xf8E4M3FN>, %sa: tensor<4096xf32>,
      %b: tensor<4x16384x512xf8E4M3FN, #expert_columns>, %sb: tensor<4x512xf32>,
      %ends: tensor<4xi32>) -> tensor<4096x512xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
        scales(%sa, %sb : tensor<4096xf32>, tensor<4x512xf32>)
        direction quantize accumulation fast
        : tensor<4096x16384xf8E4M3FN>, tensor<4x16384x512xf8E4M3FN, #expert_columns>
        -> tensor<4096x512xbf16>
    return %o : tensor<4096x512xbf16>
  }

  // The tile of wgrad does not depend on the number of tokens.
  // LAUNCH: program @gradient
  // LAUNCH-NEXT: launch {{.*}}@grouped_matmul_k_grouped_
  // LAUNCH-NOT: launch
  func.func @gradient(%a: tensor<512x?xf8E4M3FN>, %sa: tensor<4x512xf32>,
      %b: tensor<?x16384xf8E4M3FN, #columns>, %sb: tensor<4x16384xf32>,
      %ends: tensor<4xi32>) -> tensor<4x512x16384xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
        scales(%sa, %sb : tensor<4x512xf32>, tensor<4x16384xf32>)
        direction quantize accumulation fast
        : tensor<512x?xf8E4M3FN>, tensor<?x16384xf8E4M3FN, #columns>
        -> tensor<4x512x16384xbf16>
    return %o : tensor<4x512x16384xbf16>
  }

  // Each group adds half a tile, also for a dynamic number of groups.
  // CHECK-LABEL: fp8moe_plan.program @any_groups
  // CHECK: %[[E:.*]] = fp8moe_plan.dim %{{.*}}, 0 {{.*}}
  // CHECK: %[[RAGGED:.*]] = arith.muli %{{.*}}, %c64
  // CHECK: arith.addi %{{.*}}, %[[RAGGED]]
  // LAUNCH: program @any_groups
  // LAUNCH: launch {{.*}}@grouped_matmul_{{[0-9]+}} {{.*}} when(
  func.func @any_groups(%a: tensor<?x16384xf8E4M3FN>, %sa: tensor<?xf32>,
      %b: tensor<?x16384x512xf8E4M3FN, #expert_columns>, %sb: tensor<?x512xf32>,
      %ends: tensor<?xi32>) -> tensor<?x512xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<?xi32>)
        scales(%sa, %sb : tensor<?xf32>, tensor<?x512xf32>)
        direction quantize accumulation fast
        : tensor<?x16384xf8E4M3FN>, tensor<?x16384x512xf8E4M3FN, #expert_columns>
        -> tensor<?x512xbf16>
    return %o : tensor<?x512xbf16>
  }
}
