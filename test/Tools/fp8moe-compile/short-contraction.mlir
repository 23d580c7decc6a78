// REQUIRES: ptxas
// RUN: fp8moe-compile %s --target=sm_90a --emit=cubin -o %t.cubin && llvm-readelf -h %t.cubin | FileCheck %s

// The tiles with the most registers have a K of four stages here. LLVM would unroll such short
// loops, and the kernels would spill, which is an error.

// CHECK: Machine: {{.*}}CUDA
#columns = #fp8moe.strided<[1, 0]>
func.func @bf16(%a: tensor<8192x256xbf16>, %b: tensor<256x8192xbf16, #columns>) -> tensor<8192x8192xbf16> {
  %y = fp8moe.linear %a, %b
      tiles [#fp8moe.wgmma<rows = 128, columns = 240, stages = 4, schedule = cooperative>]
      : tensor<8192x256xbf16>, tensor<256x8192xbf16, #columns> -> tensor<8192x8192xbf16>
  return %y : tensor<8192x8192xbf16>
}

func.func @fp8(%a: tensor<8192x512xf8E4M3FN>, %b: tensor<512x8192xf8E4M3FN, #columns>,
    %s: tensor<8192xf32>, %t: tensor<8192xf32>) -> (tensor<8192x8192xbf16>, tensor<8192x8192xf32>) {
  %y = fp8moe.linear %a, %b scales(%s, %t : tensor<8192xf32>, tensor<8192xf32>) direction dequantize accumulation fast
      tiles [#fp8moe.wgmma<rows = 128, columns = 224, stages = 4, schedule = cooperative>]
      : tensor<8192x512xf8E4M3FN>, tensor<512x8192xf8E4M3FN, #columns> -> tensor<8192x8192xbf16>
  %z = fp8moe.linear %a, %b scales(%s, %t : tensor<8192xf32>, tensor<8192xf32>) direction dequantize accumulation fast
      tiles [#fp8moe.wgmma<rows = 128, columns = 256, stages = 4, schedule = cooperative>]
      : tensor<8192x512xf8E4M3FN>, tensor<512x8192xf8E4M3FN, #columns> -> tensor<8192x8192xf32>
  return %y, %z : tensor<8192x8192xbf16>, tensor<8192x8192xf32>
}
