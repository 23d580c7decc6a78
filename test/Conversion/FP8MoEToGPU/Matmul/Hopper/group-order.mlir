// Where groups are the contraction, tiles take as long as their groups are. So the groups, where
// they are several and a table of them fits behind the tiles, are taken by length, longest first,
// and blocks take tiles to and fro.

// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize)" -o %t
// RUN: FileCheck %s --input-file=%t
// RUN: FileCheck %s --input-file=%t --check-prefix=PLAN

#columns = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>
#rows = #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // A thread for each group writes its length, its padded beginning and its number to where it
  // comes, behind the 231520 bytes of the tiles. Nine groups have room, as walks look behind the
  // last one.
  // CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_0
  // CHECK: %[[HAS_GROUP:.*]] = arith.cmpi slt, %[[THREAD:.*]], %c8_i32
  // CHECK: scf.if %[[HAS_GROUP]]
  // CHECK: %[[OWN:.*]]:3 = scf.for {{.*}} = %c0_i32 to %c8_i32
  // CHECK: %[[PLACE:.*]]:2 = scf.for {{.*}} = %c0_i32 to %c8_i32
  // CHECK: arith.muli %[[PLACE]]#0, %c12_i32
  // CHECK: llvm.store %[[OWN]]#0, {{.*}} !llvm.ptr<3>
  // CHECK: llvm.store %[[OWN]]#1, {{.*}} !llvm.ptr<3>
  // CHECK: llvm.store %[[THREAD]], {{.*}} !llvm.ptr<3>
  // CHECK: gpu.barrier
  // CHECK: nvvm.setmaxregister decrease
  // The first turn is to the tile as far from the end of the next ones as the block's first one is
  // from the beginning.
  // CHECK: %[[LEFT:.*]] = arith.subi %[[STEP:.*]], %[[BLOCK:.*]] : i32
  // CHECK: %[[TWICE:.*]] = arith.muli %[[LEFT]], %c2_i32
  // CHECK: arith.subi %[[TWICE]], %c1_i32

  // PLAN-LABEL: fp8moe_plan.program @experts
  // PLAN: fp8moe_plan.launch {{.*}}@grouped_matmul_k_grouped_0 {{.*}} shared 231628
  func.func @experts(%a: tensor<1408x?xf8E4M3FN, #rows>, %sa: tensor<8x1408xf32>,
      %b: tensor<?x2048xf8E4M3FN, #columns>, %sb: tensor<8x2048xf32>, %ends: tensor<8xi32>)
      -> tensor<8x1408x2048xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<8x1408xf32>, tensor<8x2048xf32>) direction dequantize
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<1408x?xf8E4M3FN, #rows>, tensor<?x2048xf8E4M3FN, #columns> -> tensor<8x1408x2048xbf16>
    return %o : tensor<8x1408x2048xbf16>
  }

  // Of an unknown number of groups there is no table.
  // CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_1
  // CHECK-NOT: llvm.store
  // CHECK: gpu.barrier

  // PLAN-LABEL: fp8moe_plan.program @unknown
  // PLAN: fp8moe_plan.launch {{.*}}@grouped_matmul_k_grouped_1 {{.*}} shared 231520
  func.func @unknown(%a: tensor<1408x?xf8E4M3FN, #rows>, %sa: tensor<?x1408xf32>,
      %b: tensor<?x2048xf8E4M3FN, #columns>, %sb: tensor<?x2048xf32>, %ends: tensor<?xi32>)
      -> tensor<?x1408x2048xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<?xi32>)
        scales(%sa, %sb : tensor<?x1408xf32>, tensor<?x2048xf32>) direction dequantize
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<1408x?xf8E4M3FN, #rows>, tensor<?x2048xf8E4M3FN, #columns> -> tensor<?x1408x2048xbf16>
    return %o : tensor<?x1408x2048xbf16>
  }
}
