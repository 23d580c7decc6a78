// In a K-grouped matmul, a tile's time is proportional to the length of its group. Blocks therefore
// take the longest groups first, and reverse their direction every round. The order is a table in
// shared memory. It is used if there are several groups and the table fits behind the stages.

// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize)" -o %t
// RUN: FileCheck %s --input-file=%t
// RUN: FileCheck %s --input-file=%t --check-prefix=PLAN

#columns = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>
#rows = #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // One thread per group writes its length, padded start and number to its sorted place, behind the
  // 231520 bytes of the stages. The table has room for nine groups, as the search reads one entry
  // behind the last.
  // CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_0
  // CHECK: %[[HAS_GROUP:.*]] = arith.cmpi slt, %[[THREAD:.*]], %c8_i32
  // CHECK: scf.if %[[HAS_GROUP]]
  // CHECK: %[[OWN:.*]]:3 = scf.for {{.*}} = %c0_i32 to %c8_i32
  // Longer groups come first. Equally long groups keep their order.
  // CHECK: %[[PLACE:.*]]:2 = scf.for %[[OTHER:.*]] = %c0_i32 to %c8_i32
  // CHECK: %[[LENGTH:.*]] = arith.subi
  // CHECK: arith.cmpi slt, %[[OWN]]#0, %[[LENGTH]]
  // CHECK: arith.cmpi eq, %[[LENGTH]], %[[OWN]]#0
  // CHECK: arith.cmpi slt, %[[OTHER]], %[[THREAD]]
  // CHECK: arith.muli %[[PLACE]]#0, %c12_i32
  // CHECK: llvm.store %[[OWN]]#0, {{.*}} !llvm.ptr<3>
  // CHECK: llvm.store %[[OWN]]#1, {{.*}} !llvm.ptr<3>
  // CHECK: llvm.store %[[THREAD]], {{.*}} !llvm.ptr<3>
  // CHECK: gpu.barrier
  // CHECK: fp8moe_kernel.set_registers decrease
  // The first step is 2 * (blocks - block) - 1, so that the second round runs in reverse.
  // CHECK: %[[LEFT:.*]] = arith.subi %[[STEP:.*]], %[[BLOCK:.*]] : i32
  // CHECK: %[[TWICE:.*]] = arith.muli %[[LEFT]], %c2_i32
  // CHECK: %[[FIRST:.*]] = arith.subi %[[TWICE]], %c1_i32
  // CHECK-COUNT-2: llvm.load {{.*}} : !llvm.ptr<3> -> i32
  // Two steps together advance by two rounds.
  // CHECK: scf.while (%[[TILE:[^ ]+]] = %[[BLOCK]], %[[TURN:[^ ]+]] = %[[FIRST]],
  // CHECK: arith.addi %[[TILE]], %[[TURN]]
  // CHECK: %[[STEPS:.*]] = arith.muli %[[STEP]], %c2_i32
  // CHECK: arith.subi %[[STEPS]], %[[TURN]]

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

  // A dynamic number of groups gets no table.
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

  // One group needs no order.
  // PLAN-LABEL: fp8moe_plan.program @one
  // PLAN: fp8moe_plan.launch {{.*}}@grouped_matmul_k_grouped_2 {{.*}} shared 231520 args
  func.func @one(%a: tensor<1408x?xf8E4M3FN, #rows>, %sa: tensor<1x1408xf32>,
      %b: tensor<?x2048xf8E4M3FN, #columns>, %sb: tensor<1x2048xf32>, %ends: tensor<1xi32>)
      -> tensor<1x1408x2048xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<1xi32>)
        scales(%sa, %sb : tensor<1x1408xf32>, tensor<1x2048xf32>) direction dequantize
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<1408x?xf8E4M3FN, #rows>, tensor<?x2048xf8E4M3FN, #columns> -> tensor<1x1408x2048xbf16>
    return %o : tensor<1x1408x2048xbf16>
  }

  // 64 groups get a table, 65 do not.
  // PLAN-LABEL: fp8moe_plan.program @most
  // PLAN: fp8moe_plan.launch {{.*}}@grouped_matmul_k_grouped_3 {{.*}} shared 232300 args
  func.func @most(%a: tensor<1408x?xf8E4M3FN, #rows>, %sa: tensor<64x1408xf32>,
      %b: tensor<?x2048xf8E4M3FN, #columns>, %sb: tensor<64x2048xf32>, %ends: tensor<64xi32>)
      -> tensor<64x1408x2048xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<64xi32>)
        scales(%sa, %sb : tensor<64x1408xf32>, tensor<64x2048xf32>) direction dequantize
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<1408x?xf8E4M3FN, #rows>, tensor<?x2048xf8E4M3FN, #columns> -> tensor<64x1408x2048xbf16>
    return %o : tensor<64x1408x2048xbf16>
  }

  // PLAN-LABEL: fp8moe_plan.program @too_many
  // PLAN: fp8moe_plan.launch {{.*}}@grouped_matmul_k_grouped_4 {{.*}} shared 231520 args
  func.func @too_many(%a: tensor<1408x?xf8E4M3FN, #rows>, %sa: tensor<65x1408xf32>,
      %b: tensor<?x2048xf8E4M3FN, #columns>, %sb: tensor<65x2048xf32>, %ends: tensor<65xi32>)
      -> tensor<65x1408x2048xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<65xi32>)
        scales(%sa, %sb : tensor<65x1408xf32>, tensor<65x2048xf32>) direction dequantize
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<1408x?xf8E4M3FN, #rows>, tensor<?x2048xf8E4M3FN, #columns> -> tensor<65x1408x2048xbf16>
    return %o : tensor<65x1408x2048xbf16>
  }

  // With this tile, 36 groups have room, 37 do not.
  // PLAN-LABEL: fp8moe_plan.program @room
  // PLAN: fp8moe_plan.launch {{.*}}@grouped_matmul_k_grouped_5 {{.*}} shared 232444 args
  func.func @room(%a: tensor<1408x?xf8E4M3FN, #rows>, %sa: tensor<36x1408xf32>,
      %b: tensor<?x2048xf8E4M3FN, #columns>, %sb: tensor<36x2048xf32>, %ends: tensor<36xi32>)
      -> tensor<36x1408x2048xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<36xi32>)
        scales(%sa, %sb : tensor<36x1408xf32>, tensor<36x2048xf32>) direction dequantize
        tiles [#fp8moe.wgmma<rows = 128, columns = 256, stages = 4, schedule = cooperative>]
        : tensor<1408x?xf8E4M3FN, #rows>, tensor<?x2048xf8E4M3FN, #columns> -> tensor<36x1408x2048xbf16>
    return %o : tensor<36x1408x2048xbf16>
  }

  // PLAN-LABEL: fp8moe_plan.program @no_room
  // PLAN: fp8moe_plan.launch {{.*}}@grouped_matmul_k_grouped_6 {{.*}} shared 232000 args
  func.func @no_room(%a: tensor<1408x?xf8E4M3FN, #rows>, %sa: tensor<37x1408xf32>,
      %b: tensor<?x2048xf8E4M3FN, #columns>, %sb: tensor<37x2048xf32>, %ends: tensor<37xi32>)
      -> tensor<37x1408x2048xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<37xi32>)
        scales(%sa, %sb : tensor<37x1408xf32>, tensor<37x2048xf32>) direction dequantize
        tiles [#fp8moe.wgmma<rows = 128, columns = 256, stages = 4, schedule = cooperative>]
        : tensor<1408x?xf8E4M3FN, #rows>, tensor<?x2048xf8E4M3FN, #columns> -> tensor<37x1408x2048xbf16>
    return %o : tensor<37x1408x2048xbf16>
  }
}
