// Recipe mxfp8 turns a bf16 expert matmul into MX quantizations and matmuls with block scales, for
// forward, dgrad and wgrad.

// RUN: fp8moe-compile %s --target=gfx950 --precision-recipe=mxfp8 --precision-policy=all --emit=tensor | FileCheck %s
// RUN: fp8moe-compile %s --target=gfx950 --precision-recipe=mxfp8 --precision-policy=all --emit=asm | FileCheck %s --check-prefix=ASM
// RUN: fp8moe-compile %s --target=sm_90a --precision-recipe=mxfp8 --precision-policy=all --emit=tensor 2>&1 | FileCheck %s --check-prefix=SLOWER

#column_major = #fp8moe.strided<[1, 0]>
#expert_columns = #fp8moe.strided<[0, 2, 1]>

// CHECK-LABEL: func.func @experts
// CHECK: fp8moe.mx_quantize %{{.*}} along [1] mode rceil : tensor<?x2048xbf16>
// The weights are quantized along both axes from one load.
// CHECK: fp8moe.mx_quantize %{{.*}} along [2, 1] mode rceil : tensor<8x1408x2048xbf16>
// CHECK: fp8moe.grouped_matmul {{.*}} scales({{.*}} : tensor<?x64xf8E8M0FNU>, tensor<8x1408x64xf8E8M0FNU>) precision <fp8, "w1", forward, recipe = mxfp8,
// CHECK: fp8moe.grouped_matmul {{.*}} scales({{.*}} : tensor<?x44xf8E8M0FNU>, tensor<8x2048x44xf8E8M0FNU>) precision <fp8, "w1", dgrad, recipe = mxfp8,
// CHECK-COUNT-2: fp8moe.mx_quantize %{{.*}} along [0] mode rceil groups(
// CHECK: fp8moe.grouped_matmul {{.*}} precision <fp8, "w1", wgrad, recipe = mxfp8,

// ASM-LABEL: {{^}}grouped_matmul_{{[0-9]+}}:
// ASM: v_mfma_scale_f32_16x16x128_f8f6f4
// ASM-LABEL: {{^}}grouped_matmul_{{[0-9]+}}:
// ASM: v_mfma_scale_f32_16x16x128_f8f6f4
// ASM-LABEL: {{^}}grouped_matmul_k_grouped_{{[0-9]+}}:
// ASM: v_mfma_scale_f32_16x16x128_f8f6f4
// ASM-NOT: vgpr_spill_count: {{[1-9]}}

// SLOWER: warning: 'fp8moe.grouped_matmul' stays in bf16, as 2 others do: no kernel of target sm_90a has matrix instructions that take scales of blocks
// SLOWER-NOT: quantize
func.func @experts(%x: tensor<?x2048xbf16>, %w: tensor<8x1408x2048xbf16>, %g: tensor<?x1408xbf16>, %ends: tensor<8xi32>)
    -> (tensor<?x1408xbf16>, tensor<?x2048xbf16>, tensor<8x1408x2048xbf16>) {
  %wt = fp8moe.transpose %w [0, 2, 1] : tensor<8x1408x2048xbf16> -> tensor<8x2048x1408xbf16, #expert_columns>
  %y = fp8moe.grouped_matmul %x, %wt groups(%ends : tensor<8xi32>) precision <undecided, "w1", forward>
      : tensor<?x2048xbf16>, tensor<8x2048x1408xbf16, #expert_columns> -> tensor<?x1408xbf16>
  %dx = fp8moe.grouped_matmul %g, %w groups(%ends : tensor<8xi32>) precision <undecided, "w1", dgrad>
      : tensor<?x1408xbf16>, tensor<8x1408x2048xbf16> -> tensor<?x2048xbf16>
  %gt = fp8moe.transpose %g [1, 0] : tensor<?x1408xbf16> -> tensor<1408x?xbf16, #column_major>
  %dw = fp8moe.grouped_matmul %gt, %x groups(%ends : tensor<8xi32>) precision <undecided, "w1", wgrad>
      : tensor<1408x?xbf16, #column_major>, tensor<?x2048xbf16> -> tensor<8x1408x2048xbf16>
  return %y, %dx, %dw : tensor<?x1408xbf16>, tensor<?x2048xbf16>, tensor<8x1408x2048xbf16>
}
