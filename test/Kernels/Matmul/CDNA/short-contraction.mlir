// LLVM must not unroll loops of six or eight stages. An unrolled 256x256 kernel needs too many
// registers, and spilling is an error.

// RUN: fp8moe-compile %s --target=gfx950 --emit=asm | FileCheck %s

// CHECK-COUNT-2: .vgpr_spill_count: 0
#columns = #fp8moe.strided<[1, 0]>
func.func @six(%a: tensor<?x768x!fp8moe.e4m3>, %sa: tensor<?xf32>, %b: tensor<768x8192x!fp8moe.e4m3, #columns>,
    %sb: tensor<8192xf32>) -> tensor<?x8192xbf16> {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<8192xf32>) direction quantize
      tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x768x!fp8moe.e4m3>, tensor<768x8192x!fp8moe.e4m3, #columns> -> tensor<?x8192xbf16>
  return %y : tensor<?x8192xbf16>
}

func.func @eight(%a: tensor<?x1024x!fp8moe.e4m3>, %sa: tensor<?xf32>, %b: tensor<1024x8192x!fp8moe.e4m3, #columns>,
    %sb: tensor<8192xf32>) -> tensor<?x8192xbf16> {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<8192xf32>) direction quantize
      tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x1024x!fp8moe.e4m3>, tensor<1024x8192x!fp8moe.e4m3, #columns> -> tensor<?x8192xbf16>
  return %y : tensor<?x8192xbf16>
}
