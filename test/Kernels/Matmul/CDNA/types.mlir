// Each pair of element types selects its MFMA instruction. B is the instruction's first operand.

// RUN: fp8moe-compile %s --target=gfx942 --emit=asm | FileCheck %s --check-prefix=GFX942
// RUN: fp8moe-compile %s --target=gfx950 --emit=asm | FileCheck %s --check-prefix=GFX950

#columns = #fp8moe.strided<[1, 0]>

// GFX942-LABEL: grouped_matmul_k_grouped_0:
// GFX942: v_mfma_f32_32x32x16_bf8_fp8
// GFX950-LABEL: grouped_matmul_k_grouped_0:
// GFX950: v_mfma_f32_16x16x128_f8f6f4 {{.*}} cbsz:1{{$}}
func.func @mixed(%a: tensor<512x4096x!fp8moe.e4m3>, %sa: tensor<4x512xf32>,
    %b: tensor<4096x512x!fp8moe.e5m2, #columns>, %sb: tensor<4x512xf32>, %ends: tensor<4xi32>) -> tensor<4x512x512xf32> {
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      scales(%sa, %sb : tensor<4x512xf32>, tensor<4x512xf32>) direction dequantize
      : tensor<512x4096x!fp8moe.e4m3>, tensor<4096x512x!fp8moe.e5m2, #columns> -> tensor<4x512x512xf32>
  return %o : tensor<4x512x512xf32>
}

// GFX942-LABEL: grouped_matmul_k_grouped_1:
// GFX942: v_mfma_f32_32x32x8_bf16
// GFX950-LABEL: grouped_matmul_k_grouped_1:
// GFX950: v_mfma_f32_16x16x32_bf16
func.func @bf16(%a: tensor<512x4096xbf16>, %b: tensor<4096x512xbf16, #columns>, %ends: tensor<4xi32>) -> tensor<4x512x512xf32> {
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      : tensor<512x4096xbf16>, tensor<4096x512xbf16, #columns> -> tensor<4x512x512xf32>
  return %o : tensor<4x512x512xf32>
}
