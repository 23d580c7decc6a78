// MN-major bf16 operands become K-major on their way to shared memory. Forward, dgrad and wgrad
// therefore need no copy before the matmul.

// RUN: fp8moe-compile %s --target=gfx942 --emit=tensor | FileCheck %s --check-prefix=TENSOR --implicit-check-not=fp8moe.relayout --implicit-check-not=fp8moe.contiguous
// RUN: fp8moe-compile %s --target=gfx950 --emit=tensor | FileCheck %s --check-prefix=TENSOR --implicit-check-not=fp8moe.relayout --implicit-check-not=fp8moe.contiguous
// RUN: fp8moe-compile %s --target=gfx942 --emit=asm | FileCheck %s --check-prefixes=ASM,GFX942
// RUN: fp8moe-compile %s --target=gfx950 --emit=asm | FileCheck %s --check-prefixes=ASM,GFX950

// Weights are [E, K, N], as transformers stores them. gfx950 loads A to shared memory directly.
// TENSOR-LABEL: func.func @forward
// TENSOR: fp8moe.grouped_matmul %arg0, %arg1
// ASM-LABEL: grouped_matmul_0:
// GFX942: s_setprio 1
// GFX942-COUNT-8: v_perm_b32
// GFX942: s_barrier
// GFX950: s_setprio 1
// GFX950: buffer_load_dwordx4 {{.*}} lds
// GFX950-COUNT-16: v_perm_b32
// GFX950: s_barrier
// ASM: .amdhsa_private_segment_fixed_size 0
func.func @forward(%x: tensor<65536x4096xbf16>, %w: tensor<8x4096x8192xbf16>, %ends: tensor<8xi32>) -> tensor<65536x8192xbf16> {
  %y = fp8moe.grouped_matmul %x, %w groups(%ends : tensor<8xi32>)
      : tensor<65536x4096xbf16>, tensor<8x4096x8192xbf16> -> tensor<65536x8192xbf16>
  return %y : tensor<65536x8192xbf16>
}

// Weights are [E, N, K], and the matmul reads them transposed.
// TENSOR-LABEL: func.func @data_gradient
// TENSOR: fp8moe.grouped_matmul %arg0, %arg1
func.func @data_gradient(%dy: tensor<65536x8192xbf16>, %w: tensor<8x8192x4096xbf16>, %ends: tensor<8xi32>) -> tensor<65536x4096xbf16> {
  %dx = fp8moe.grouped_matmul %dy, %w groups(%ends : tensor<8xi32>)
      : tensor<65536x8192xbf16>, tensor<8x8192x4096xbf16> -> tensor<65536x4096xbf16>
  return %dx : tensor<65536x4096xbf16>
}

// The matmul sums over tokens, and both operands are transposed. The buffer descriptors exclude
// rows of other groups, so nothing is masked between the barriers.
// TENSOR-LABEL: func.func @weight_gradient
// TENSOR: fp8moe.transpose %arg0
// TENSOR: fp8moe.grouped_matmul
// ASM-LABEL: grouped_matmul_k_grouped_{{[0-9]+}}:
// ASM: s_setprio 1
// ASM-NOT: v_and_b32
// ASM: s_cbranch_scc1
func.func @weight_gradient(%dy: tensor<65536x2048xbf16>, %x: tensor<65536x4096xbf16>, %ends: tensor<8xi32>) -> tensor<8x2048x4096xbf16> {
  %t = fp8moe.transpose %dy [1, 0] : tensor<65536x2048xbf16> -> tensor<2048x65536xbf16, #fp8moe.strided<[1, 0]>>
  %dw = fp8moe.grouped_matmul %t, %x groups(%ends : tensor<8xi32>)
      : tensor<2048x65536xbf16, #fp8moe.strided<[1, 0]>>, tensor<65536x4096xbf16> -> tensor<8x2048x4096xbf16>
  return %dw : tensor<8x2048x4096xbf16>
}
