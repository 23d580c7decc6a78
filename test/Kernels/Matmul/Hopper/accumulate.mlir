// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// The addend is copied to the f32 result, unless both are the same memory. TMA then adds the
// products of each tile to it.

#columns = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @gradient(%a: tensor<1408x4096xf8E4M3FN>, %sa: tensor<8x1408xf32>, %b: tensor<4096x2048xf8E4M3FN, #columns>,
      %sb: tensor<8x2048xf32>, %c: tensor<8x1408x2048xf32>, %ends: tensor<8xi32>) -> tensor<8x1408x2048xf32> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<8x1408xf32>, tensor<8x2048xf32>) direction quantize
        accumulate(%c : tensor<8x1408x2048xf32>)
        tiles [#fp8moe.wgmma<rows = 128, columns = 160, stages = 5, schedule = ping_pong>]
        : tensor<1408x4096xf8E4M3FN>, tensor<4096x2048xf8E4M3FN, #columns> -> tensor<8x1408x2048xf32>
    return %o : tensor<8x1408x2048xf32>
  }

  // Tiles with rows of another group are added by threads instead of TMA.
  func.func @forward(%a: tensor<?x2048xf8E4M3FN>, %sa: tensor<?xf32>,
      %b: tensor<8x2048x1408xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, %sb: tensor<8x1408xf32>, %c: tensor<?x1408xf32>,
      %ends: tensor<8xi32>) -> tensor<?x1408xf32> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<?xf32>, tensor<8x1408xf32>) direction quantize accumulate(%c : tensor<?x1408xf32>)
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<?x2048xf8E4M3FN>, tensor<8x2048x1408xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x1408xf32>
    return %o : tensor<?x1408xf32>
  }
}

// The copy runs only if the two addresses differ.
// CHECK-LABEL: gpu.func @copy_vectors_0
// CHECK-DAG:     %[[FROM:.*]] = llvm.ptrtoint
// CHECK-DAG:     %[[TO:.*]] = llvm.ptrtoint
// CHECK:         %[[ELSEWHERE:.*]] = arith.cmpi ne, %[[FROM]], %[[TO]]
// CHECK-NEXT:    scf.if %[[ELSEWHERE]]
// CHECK:           scf.for
// CHECK:             %[[WORDS:.*]] = scf.if
// CHECK:               llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:             llvm.store %[[WORDS]], %{{.*}} {alignment = 16 : i64}

// A tile of an empty group adds nothing.
// CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_1
// CHECK-NOT:     fp8moe_kernel.tensor_store
// CHECK-COUNT-2: fp8moe_kernel.wgmma_results
// CHECK:         fp8moe_kernel.async_proxy_fence
// CHECK:         %[[HAS_PRODUCTS:.*]] = arith.cmpi ne, %{{.*}}, %c0_i32
// CHECK-NEXT:    %[[ADDS:.*]] = arith.andi %[[HAS_PRODUCTS]]
// CHECK-NEXT:    scf.if %[[ADDS]]
// CHECK:           fp8moe_kernel.tensor_add {{.*}} evict_first
// CHECK-NOT:     fp8moe_kernel.tensor_store

// CHECK-LABEL: gpu.func @copy_vectors_2
// CHECK-LABEL: gpu.func @grouped_matmul_3
// CHECK:         fp8moe_kernel.tensor_add
// CHECK:         %[[STAGED:.*]] = llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         %[[BEFORE:.*]] = llvm.load %[[PLACE:.*]] {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-DAG:     %[[TERM:.*]] = llvm.bitcast %[[STAGED]] : vector<4xi32> to vector<4xf32>
// CHECK-DAG:     %[[TOTAL:.*]] = llvm.bitcast %[[BEFORE]] : vector<4xi32> to vector<4xf32>
// CHECK:         %[[SUM:.*]] = arith.addf %[[TERM]], %[[TOTAL]] : vector<4xf32>
// CHECK:         %[[SUM_WORDS:.*]] = llvm.bitcast %[[SUM]] : vector<4xf32> to vector<4xi32>
// CHECK:         llvm.store %[[SUM_WORDS]], %[[PLACE]] {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>

// CHECK-LABEL: fp8moe_plan.program @gradient
// CHECK:         %[[SUMS:.*]] = fp8moe_plan.input "arg4"
// CHECK:         %[[RESULT:.*]] = fp8moe_plan.output "result0" may_overwrite(%[[SUMS]]
// CHECK:         fp8moe_plan.launch @{{.*}}::@copy_vectors_0 {{.*}} args(%[[SUMS]], %[[RESULT]]
// CHECK:         fp8moe_plan.launch @{{.*}}::@grouped_matmul_k_grouped_1
