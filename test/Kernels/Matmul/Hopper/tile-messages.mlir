// Cooperative consumers would be idle while they search their next tile. The producer has found it
// already and passes it on in 32 bytes beside the tile's first stage.

// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize)" | FileCheck %s

#rows = #fp8moe.strided<[0, 1], align = 16>
#columns = #fp8moe.strided<[0, 2, 1], align = 16>
#group_rows = #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>
#group_columns = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: gpu.func @grouped_matmul_0
  // The message is written after the stage is released and before it is filled.
  // CHECK: fp8moe_kernel.set_registers decrease
  // CHECK: fp8moe_kernel.wait_parity
  // CHECK: %[[MESSAGE:.*]] = vector.from_elements %[[STAGES:[^,]+]],
  // CHECK: llvm.store %[[MESSAGE]], {{.*}} vector<4xi32>, !llvm.ptr<3>
  // CHECK: scf.for %{{.*}} = %c0_i32 to %[[STAGES]]
  // CHECK: fp8moe_kernel.arrive_expect_tx %{{.*}}, %c40960_i32
  // After the last tile, the producer signals an empty stage. Its message has zero stages.
  // CHECK: fp8moe_kernel.wait_parity
  // CHECK: llvm.store %cst, {{.*}} vector<4xi32>, !llvm.ptr<3>
  // CHECK: fp8moe_kernel.arrive_expect_tx %{{.*}}, %c0_i32

  // Consumers take tiles until a message has zero stages.
  // CHECK: fp8moe_kernel.set_registers increase
  // CHECK: fp8moe_kernel.wait_parity
  // CHECK: %[[WORDS:.*]] = llvm.load {{.*}} : !llvm.ptr<3> -> vector<4xi32>
  // CHECK: %[[WORD:.*]] = vector.extract %[[WORDS]][0]
  // CHECK: %[[UNIFORM:[^,]+]], %{{.*}} = gpu.shuffle idx %[[WORD]], %c0_i32
  // CHECK: scf.while (%[[STAGES:[^ ]+]] = %[[UNIFORM]],
  // CHECK-NEXT: arith.cmpi sgt, %[[STAGES]], %c0_i32
  // Scales are loaded from global memory before the stages, and stored to shared memory after them.
  // CHECK-COUNT-3: llvm.load {{.*}} : !llvm.ptr<1> -> f32
  // CHECK: scf.for %{{.*}} = %c0_i32 to %
  // CHECK: fp8moe_kernel.arrive %
  // CHECK: fp8moe_kernel.named_barrier
  // CHECK: llvm.store {{.*}} : f32, !llvm.ptr<3>
  // CHECK: fp8moe_kernel.tensor_store
  func.func @forward(%a: tensor<?x1024xf8E4M3FN, #rows>, %sa: tensor<?xf32>,
      %b: tensor<8x1024x768xf8E4M3FN, #columns>, %sb: tensor<8x768xf32>, %ends: tensor<8xi32>)
      -> tensor<?x768xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<?xf32>, tensor<8x768xf32>) direction dequantize accumulation promoted
        tiles [#fp8moe.wgmma<rows = 128, columns = 192, stages = 4, schedule = cooperative>]
        : tensor<?x1024xf8E4M3FN, #rows>, tensor<8x1024x768xf8E4M3FN, #columns> -> tensor<?x768xbf16>
    return %o : tensor<?x768xbf16>
  }

  // A K-grouped message also has the group's begin and end within its stages, in two words of its
  // second half.
  // CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_1
  // CHECK: fp8moe_kernel.set_registers decrease
  // CHECK: vector.from_elements
  // CHECK: %[[HALF:.*]] = vector.from_elements %{{.*}}, %{{.*}}, %{{.*}}, %c0_i32
  // CHECK: llvm.store %[[HALF]], {{.*}} vector<4xi32>, !llvm.ptr<3>
  // CHECK: fp8moe_kernel.set_registers increase
  // CHECK: gpu.shuffle idx
  func.func @gradient(%a: tensor<768x?xf8E4M3FN, #group_rows>, %sa: tensor<8x768xf32>,
      %b: tensor<?x1024xf8E4M3FN, #group_columns>, %sb: tensor<8x1024xf32>, %ends: tensor<8xi32>)
      -> tensor<8x768x1024xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<8x768xf32>, tensor<8x1024xf32>) direction dequantize accumulation promoted
        tiles [#fp8moe.wgmma<rows = 128, columns = 192, stages = 4, schedule = cooperative>]
        : tensor<768x?xf8E4M3FN, #group_rows>, tensor<?x1024xf8E4M3FN, #group_columns> -> tensor<8x768x1024xbf16>
    return %o : tensor<8x768x1024xbf16>
  }

  // With fast accumulation, consumers find their tiles themselves.
  // CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_2
  // CHECK: fp8moe_kernel.set_registers decrease
  // CHECK-NOT: vector.from_elements
  // CHECK: fp8moe_kernel.set_registers increase
  // CHECK-NOT: gpu.shuffle
  // CHECK: gpu.return
  func.func @fast_gradient(%a: tensor<768x?xf8E4M3FN, #group_rows>, %sa: tensor<8x768xf32>,
      %b: tensor<?x1024xf8E4M3FN, #group_columns>, %sb: tensor<8x1024xf32>, %ends: tensor<8xi32>)
      -> tensor<8x768x1024xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<8x768xf32>, tensor<8x1024xf32>) direction dequantize
        tiles [#fp8moe.wgmma<rows = 128, columns = 192, stages = 4, schedule = cooperative>]
        : tensor<768x?xf8E4M3FN, #group_rows>, tensor<?x1024xf8E4M3FN, #group_columns> -> tensor<8x768x1024xbf16>
    return %o : tensor<8x768x1024xbf16>
  }
}
