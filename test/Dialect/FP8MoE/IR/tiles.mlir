// RUN: fp8moe-opt %s | fp8moe-opt | FileCheck %s

// Every tile attribute, by itself.
// CHECK-LABEL: func.func private @tiles()
// CHECK-SAME: a = #fp8moe.two_pass<columns = 8, threads = 1024>
// CHECK-SAME: b = #fp8moe.register_resident<columns = 8, threads = 1024, chunks = 4, rounds = 1, blocks = 2>
// CHECK-SAME: c = #fp8moe.single_pass_outer<columns = 64, stages = 13>
// CHECK-SAME: d = #fp8moe.single_pass_both_axes<columns = 64, stages = 9, row_bytes = 4096, row_stages = 16>
// CHECK-SAME: f = #fp8moe.wgmma<rows = 128, columns = 160, stages = 5, schedule = ping_pong>
// CHECK-SAME: g = #fp8moe.wgmma<rows = 256, columns = 128, stages = 4, schedule = cooperative, raster = 2>
// CHECK-SAME: h = #fp8moe.mfma<rows = 128, columns = 256>
func.func private @tiles() attributes {
  a = #fp8moe.two_pass<columns = 8, threads = 1024>,
  b = #fp8moe.register_resident<columns = 8, threads = 1024, chunks = 4, rounds = 1, blocks = 2>,
  c = #fp8moe.single_pass_outer<columns = 64, stages = 13>,
  d = #fp8moe.single_pass_both_axes<columns = 64, stages = 9, row_bytes = 4096, row_stages = 16>,
  f = #fp8moe.wgmma<rows = 128, columns = 160, stages = 5, schedule = ping_pong, raster = 4>,
  g = #fp8moe.wgmma<rows = 256, columns = 128, stages = 4, schedule = cooperative, raster = 2>,
  h = #fp8moe.mfma<rows = 128, columns = 256>
}

// A choice between tiles is made by the range of a quantity or by the least number of waves.
// CHECK-LABEL: func.func private @choices()
// CHECK-SAME: a = #fp8moe.choice<[#fp8moe.two_pass<columns = 8, threads = 256>]>
// CHECK-SAME: b = #fp8moe.choice<[#fp8moe.single_pass_outer<columns = 64, stages = 13> for mean_length above 256 up_to 24576, #fp8moe.two_pass<columns = 4, threads = 128> for mean_length up_to 512, #fp8moe.two_pass<columns = 8, threads = 256> for mean_length above 512]>
// CHECK-SAME: c = #fp8moe.choice<least_waves [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong> wave 46123, #fp8moe.wgmma<rows = 128, columns = 192, stages = 4, schedule = ping_pong> wave 66810]>
// CHECK-SAME: d = #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>, #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128>]>]>
// CHECK-SAME: e = #fp8moe.alternative<#fp8moe.two_pass<columns = 8, threads = 256> for mean_length up_to 512>
// CHECK-SAME: f = #fp8moe.range<mean_length above 512>
// CHECK-SAME: g = #fp8moe.range<group_bytes up_to 50 percent of l2>
// CHECK-SAME: h = #fp8moe.range<group_bytes above 20 up_to 1000 percent of l2>
// CHECK-SAME: i = #fp8moe.range<group_bytes above 1000 percent of l2>
// CHECK-SAME: k = #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128> for group_bytes up_to 60 percent of l2, #fp8moe.two_pass<columns = 8, threads = 256>]>
func.func private @choices() attributes {
  a = #fp8moe.choice<[#fp8moe.two_pass<columns = 8, threads = 256>]>,
  b = #fp8moe.choice<[#fp8moe.single_pass_outer<columns = 64, stages = 13> for mean_length above 256 up_to 24576,
                      #fp8moe.two_pass<columns = 4, threads = 128> for mean_length up_to 512,
                      #fp8moe.two_pass<columns = 8, threads = 256> for mean_length above 512]>,
  c = #fp8moe.choice<least_waves [
      #fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong> wave 46123,
      #fp8moe.wgmma<rows = 128, columns = 192, stages = 4, schedule = ping_pong> wave 66810]>,
  d = #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                        #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128>]>]>,
  e = #fp8moe.alternative<#fp8moe.two_pass<columns = 8, threads = 256> for mean_length up_to 512>,
  f = #fp8moe.range<mean_length above 512>,
  g = #fp8moe.range<group_bytes up_to 50 percent of l2>,
  h = #fp8moe.range<group_bytes above 20 up_to 1000 percent of l2>,
  i = #fp8moe.range<group_bytes above 1000 percent of l2>,
  j = #fp8moe.range<group_bytes above 1048576 up_to 31457280>,
  k = #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128> for group_bytes up_to 60 percent of l2,
                      #fp8moe.two_pass<columns = 8, threads = 256>]>
}

// CHECK-LABEL: func.func @in_operations
func.func @in_operations(%x: tensor<?x128xbf16>, %a: tensor<?x64xbf16>, %b: tensor<2x64x64xbf16>, %ends: tensor<2xi32>) {
  // CHECK: dynamic_quantize {{.*}} rounding pow2 tiles [#fp8moe.two_pass<columns = 4, threads = 128> for mean_length up_to 512, #fp8moe.two_pass<columns = 8, threads = 256>] : tensor
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      tiles [#fp8moe.two_pass<columns = 4, threads = 128> for mean_length up_to 512, #fp8moe.two_pass<columns = 8, threads = 256>]
      : tensor<?x128xbf16> -> tensor<?x128x!fp8moe.e4m3>, tensor<?xf32>
  // CHECK: grouped_matmul {{.*}} tiles least_waves [#fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong> wave 100] : tensor
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      tiles least_waves [#fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong> wave 100]
      : tensor<?x64xbf16>, tensor<2x64x64xbf16> -> tensor<?x64xbf16>
  return
}
