// Hopper has no matrix instruction that takes scales of blocks: four warps load FP8
// and scales, and fill the stages with the bf16 that they stand for.

// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize)" | FileCheck %s

#columns = #fp8moe.strided<[0, 2, 1]>
#transposed = #fp8moe.strided<[1, 0]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: gpu.func @grouped_matmul_0
  // A warp loads its 32 lines of A, and of the two 128 of B, 128 elements at a time.
  // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} box[%{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}] :
  // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} box[%{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}] :
  // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} box[%{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}] :
  // Elements become bf16, times the scale of their block, and are shown to the
  // tensor cores.
  // CHECK: arith.mulf {{.*}} : vector<2xbf16>
  // CHECK: nvvm.fence.proxy
  // CHECK: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
  // CHECK: gpu.return

  // CHECK-LABEL: fp8moe_plan.program @forward
  // Scales are loaded by words of four bytes.
  // CHECK: fp8moe_plan.input "sa" align 4
  // CHECK: fp8moe_plan.tensor_map {{.*}} box(128, 32) swizzle 128
  // CHECK: fp8moe_plan.tensor_map {{.*}} box(128, 32, 1) swizzle 128
  // CHECK: fp8moe_plan.launch @{{.*}}::@grouped_matmul_0
  func.func @forward(%a: tensor<?x2048xf8E4M3FN>, %b: tensor<8x2048x1408xf8E4M3FN, #columns>, %ends: tensor<8xi32>,
      %sa: tensor<?x64xf8E8M0FNU> {fp8moe.name = "sa"}, %sb: tensor<8x1408x64xf8E8M0FNU>) -> tensor<?x1408xbf16> {
    %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<?x64xf8E8M0FNU>, tensor<8x1408x64xf8E8M0FNU>)
        tiles [#fp8moe.wgmma<rows = 128, columns = 256, stages = 2, schedule = cooperative>]
        : tensor<?x2048xf8E4M3FN>, tensor<8x2048x1408xf8E4M3FN, #columns> -> tensor<?x1408xbf16>
    return %y : tensor<?x1408xbf16>
  }

  // A dense one is a group of all rows: whatever its few tiles, none is split.
  // CHECK-LABEL: fp8moe_plan.program @dense
  // CHECK-NOT: fp8moe_plan.workspace
  // CHECK: fp8moe_plan.tensor_map {{.*}} box(128, 32) swizzle 128
  // CHECK: fp8moe_plan.tensor_map {{.*}} box(128, 32) swizzle 128
  // CHECK: fp8moe_plan.launch @{{.*}}::@matmul_{{[0-9]+}}
  // CHECK-NOT: fp8moe_plan.launch
  func.func @dense(%a: tensor<256x65536xf8E4M3FN>, %b: tensor<65536x256xf8E4M3FN, #transposed>,
      %sa: tensor<256x2048xf8E8M0FNU>, %sb: tensor<256x2048xf8E8M0FNU>) -> tensor<256x256xbf16> {
    %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<256x2048xf8E8M0FNU>, tensor<256x2048xf8E8M0FNU>)
        : tensor<256x65536xf8E4M3FN>, tensor<65536x256xf8E4M3FN, #transposed> -> tensor<256x256xbf16>
    return %y : tensor<256x256xbf16>
  }
}
