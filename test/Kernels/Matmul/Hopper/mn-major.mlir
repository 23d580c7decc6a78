// bf16 operands may be MN-major, that is contiguous along rows of A or columns of B. TMA copies
// boxes of 64 of these by 64 elements of K, and wgmma reads them transposed.

// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize)" -o %t
// RUN: FileCheck %s --input-file=%t
// RUN: FileCheck %s --input-file=%t --check-prefix=PLAN

#rows = #fp8moe.strided<[0, 1], strides = [?, 1], align = 16>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // Both operands have 16 KiB a stage and share an mbarrier. B takes two copies: from the tile's
  // first column, and from 64 columns further.
  // CHECK-LABEL: gpu.func @grouped_matmul_0
  // CHECK-SAME: %[[A:.*]]: !llvm.ptr {fp8moe_plan.tensor_map}, %[[B:.*]]: !llvm.ptr {fp8moe_plan.tensor_map}, %[[C:.*]]: !llvm.ptr {fp8moe_plan.tensor_map}
  // CHECK-DAG: %[[DESCRIPTOR:.*]] = arith.constant 4611686293305360384 : i64
  // CHECK-DAG: %[[TRANSPOSED:.*]] = arith.constant 4611686293338849280 : i64
  // CHECK: fp8moe_kernel.arrive_expect_tx %[[FULL:.*]], %c32768_i32
  // CHECK: fp8moe_kernel.tensor_load {{.*}} from %[[A]][%[[ALONG:.*]], %{{.*}}] signals %[[FULL]]
  // CHECK: fp8moe_kernel.tensor_load {{.*}} from %[[B]][%[[COLUMN:.*]], %[[ALONG]], %[[GROUP:.*]]] signals %[[FULL]]
  // CHECK: %[[NEXT:.*]] = arith.addi %[[COLUMN]], %c64_i32
  // CHECK: fp8moe_kernel.tensor_load {{.*}} from %[[B]][%[[NEXT]], %[[ALONG]], %[[GROUP]]] signals %[[FULL]]
  // CHECK-NOT: fp8moe_kernel.tensor_load
  // CHECK: arith.ori {{.*}}, %[[DESCRIPTOR]]
  // CHECK: arith.ori {{.*}}, %[[TRANSPOSED]]
  // CHECK: fp8moe_kernel.wgmma {{.*}} if %{{[a-z0-9_]+}} mn_major_b : bf16, bf16, !accumulators
  // CHECK-NOT: if %{{[a-z0-9_]+}} : bf16
  // CHECK: gpu.return

  // CHECK-LABEL: gpu.func @matmul_1
  // CHECK: fp8moe_kernel.tensor_load {{.*}}[%[[ALONG:.*]], %{{.*}}] signals
  // CHECK: fp8moe_kernel.tensor_load {{.*}}[%{{.*}}, %[[ALONG]]] signals
  // CHECK-NOT: fp8moe_kernel.tensor_load
  // CHECK: fp8moe_kernel.wgmma {{.*}} if %{{[a-z0-9_]+}} mn_major_b : bf16, bf16, !accumulators

  // PLAN-LABEL: fp8moe_plan.program @experts
  // PLAN: fp8moe_plan.tensor_map {{.*}} box(64, 128) swizzle 128 promotion 256 : memref<?x1408xbf16>
  // PLAN: fp8moe_plan.tensor_map {{.*}} box(64, 64, 1) swizzle 128 promotion 128 : memref<8x1408x2048xbf16>
  func.func @experts(%a: tensor<?x1408xbf16>, %b: tensor<8x1408x2048xbf16>, %ends: tensor<8xi32>) -> tensor<?x2048xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<?x1408xbf16>, tensor<8x1408x2048xbf16> -> tensor<?x2048xbf16>
    return %o : tensor<?x2048xbf16>
  }

  // The host checks the pitch along K.
  // PLAN-LABEL: fp8moe_plan.program @dense
  // PLAN: fp8moe_plan.require {{.*}} "the matmul kernel needs strides of the second operand that are multiples of 8 elements"
  // PLAN: fp8moe_plan.tensor_map {{.*}} box(64, 128)
  // PLAN: fp8moe_plan.tensor_map {{.*}} box(64, 64) swizzle 128
  func.func @dense(%a: tensor<?x?xbf16, #rows>, %b: tensor<?x?xbf16, #rows>) -> tensor<?x?xf32> {
    %o = fp8moe.linear %a, %b
        tiles [#fp8moe.wgmma<rows = 128, columns = 64, stages = 6, schedule = ping_pong>]
        : tensor<?x?xbf16, #rows>, tensor<?x?xbf16, #rows> -> tensor<?x?xf32>
    return %o : tensor<?x?xf32>
  }

  // wgrad reads both operands MN-major. Loads begin at the start of the group, so nothing before it
  // is masked. Behind the end of the group, the last 16 elements of K are zeroed in both operands.
  // CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_2
  // CHECK: fp8moe_kernel.tensor_load {{.*}}[%[[ROW:.*]], %[[ALONG:.*]]] signals
  // CHECK: %[[NEXT:.*]] = arith.addi %[[ROW]], %c64_i32
  // CHECK: fp8moe_kernel.tensor_load {{.*}}[%[[NEXT]], %[[ALONG]]] signals
  // CHECK: fp8moe_kernel.tensor_load {{.*}}[%{{.*}}, %[[ALONG]]] signals
  // CHECK: fp8moe_kernel.tensor_load {{.*}}[%{{.*}}, %[[ALONG]]] signals
  // CHECK-NOT: fp8moe_kernel.tensor_load
  // CHECK: fp8moe_kernel.wgmma {{.*}} mn_major_a mn_major_b : bf16, bf16, !accumulators
  // CHECK-COUNT-2: llvm.store %{{.*}}, %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
  // CHECK: fp8moe_kernel.async_proxy_fence
  // CHECK: fp8moe_kernel.wgmma {{.*}} mn_major_a mn_major_b : bf16, bf16, !accumulators
  // CHECK: gpu.return

  // PLAN-LABEL: fp8moe_plan.program @weight_gradient
  // PLAN: fp8moe_plan.tensor_map {{.*}} box(64, 64) swizzle 128 promotion 128 : memref<?x1408xbf16>
  // PLAN: fp8moe_plan.tensor_map {{.*}} box(64, 64) swizzle 128 promotion 128 : memref<?x2048xbf16>
  func.func @weight_gradient(%dy: tensor<?x1408xbf16>, %x: tensor<?x2048xbf16>, %ends: tensor<8xi32>) -> tensor<8x1408x2048xbf16> {
    %a = fp8moe.transpose %dy [1, 0] : tensor<?x1408xbf16> -> tensor<1408x?xbf16, #fp8moe.strided<[1, 0]>>
    %o = fp8moe.grouped_matmul %a, %x groups(%ends : tensor<8xi32>)
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<1408x?xbf16, #fp8moe.strided<[1, 0]>>, tensor<?x2048xbf16> -> tensor<8x1408x2048xbf16>
    return %o : tensor<8x1408x2048xbf16>
  }
}
