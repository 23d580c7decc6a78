// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),fp8moe-sweep-tiles)" \
// RUN: | FileCheck %s

// Each legal tile gets a function. 160 accumulators leave no registers for an addend.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK: func.func @matmul(
  // CHECK: func.func @"matmul/m0/wgmma,rows=128,columns=64,stages=8,schedule=ping_pong,raster=4"(
  // CHECK: grouped_matmul {{.*}} tiles [#fp8moe.wgmma<rows = 128, columns = 64, stages = 8, schedule = ping_pong>]
  // CHECK: func.func @"matmul/m0/wgmma,rows=128,columns=128,stages=6,schedule=ping_pong,raster=4"(
  // CHECK-NOT: rows=128,columns=160,stages={{.*}},schedule=ping_pong
  // CHECK: func.func @"matmul/m0/wgmma,rows=64,columns=64,
  // CHECK: func.func @"matmul/m0/wgmma,rows=128,columns=256,stages=4,schedule=cooperative,raster=4"(
  func.func @matmul(%a: tensor<?x512xbf16>, %b: tensor<2x512x64xbf16, #fp8moe.strided<[0, 2, 1]>>,
      %c: tensor<?x64xbf16>, %ends: tensor<2xi32>) -> tensor<?x64xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        accumulate(%c : tensor<?x64xbf16>)
        : tensor<?x512xbf16>, tensor<2x512x64xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}
