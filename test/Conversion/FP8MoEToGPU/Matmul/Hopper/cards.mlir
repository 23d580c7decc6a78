// One artifact serves an H100 and an H200. Where the blocks of a long matmul get out of
// step, operands are read again, for which an H100 has too little memory bandwidth: it
// takes wider tiles. The host reads what card it is.

// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles))" | FileCheck %s --check-prefix=TILES
// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize)" -o %t
// RUN: grep -A 60 "fp8moe_plan.program" %t | FileCheck %s

#columns = #fp8moe.strided<[1, 0]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // TILES-LABEL: func.func @known_rows
  // TILES: tiles [#fp8moe.wgmma<rows = 128, columns = 256, stages = 4, schedule = cooperative> for memory_bandwidth up_to 4000, #fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>] :
  // CHECK-LABEL: fp8moe_plan.program @known_rows
  // CHECK-DAG: %[[BANDWIDTH:.*]] = fp8moe_plan.device_attr memory_bandwidth
  // CHECK-DAG: %[[IS_H100:.*]] = arith.cmpi sle, %[[BANDWIDTH]], %c4000000000000
  // CHECK-DAG: %[[IS_OTHER:.*]] = arith.cmpi sgt, %[[BANDWIDTH]], %c4000000000000
  // CHECK: fp8moe_plan.launch {{.*}} when(%[[IS_H100]])
  // CHECK: fp8moe_plan.launch {{.*}} when(%[[IS_OTHER]])
  func.func @known_rows(%g: tensor<28672x8192xbf16, #columns>, %x: tensor<8192x8192xbf16>) -> tensor<28672x8192xbf16> {
    %y = fp8moe.linear %g, %x : tensor<28672x8192xbf16, #columns>, tensor<8192x8192xbf16> -> tensor<28672x8192xbf16>
    return %y : tensor<28672x8192xbf16>
  }

  // A short one is over before its blocks are out of step: one tile serves both.
  // TILES-LABEL: func.func @short
  // TILES: tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>] :
  func.func @short(%x: tensor<8192x3584xbf16>, %w: tensor<3584x8192xbf16, #columns>) -> tensor<8192x8192xbf16> {
    %y = fp8moe.linear %x, %w : tensor<8192x3584xbf16>, tensor<3584x8192xbf16, #columns> -> tensor<8192x8192xbf16>
    return %y : tensor<8192x8192xbf16>
  }

  // Among tiles for any number of rows, those of another card take forever.
  // CHECK-LABEL: fp8moe_plan.program @any_rows
  // CHECK-DAG: %[[BANDWIDTH:.*]] = fp8moe_plan.device_attr memory_bandwidth
  // CHECK-DAG: %[[IS_H100:.*]] = arith.cmpi sle, %[[BANDWIDTH]], %c4000000000000
  // CHECK-DAG: %[[FOREVER:.*]] = arith.constant 9223372036854775807 : index
  // CHECK: arith.select %[[IS_H100]], %{{.*}}, %[[FOREVER]]
  func.func @any_rows(%g: tensor<?x8192xbf16>, %w: tensor<8192x28672xbf16>) -> tensor<?x28672xbf16> {
    %y = fp8moe.linear %g, %w
        tiles least_waves [
            #fp8moe.wgmma<rows = 128, columns = 256, stages = 4, schedule = cooperative> for memory_bandwidth up_to 4000 wave 200,
            #fp8moe.wgmma<rows = 64, columns = 128, stages = 8, schedule = ping_pong> wave 150,
            #fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong> for memory_bandwidth above 4000 wave 100]
        : tensor<?x8192xbf16>, tensor<8192x28672xbf16> -> tensor<?x28672xbf16>
    return %y : tensor<?x28672xbf16>
  }
}
