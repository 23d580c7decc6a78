// Scales of blocks on gfx950: each lane loads a byte for each fragment of the next stage, and
// the matrix instructions take those of this one.

// RUN: split-file %s %t
// RUN: fp8moe-compile %t/long.mlir --target=gfx950 --emit=asm | FileCheck %s

//--- long.mlir
#expert_columns = #fp8moe.strided<[0, 2, 1]>
#tiled = #fp8moe.scale_blocked<128x4>

func.func @forward(%a: tensor<?x5120x!fp8moe.e4m3>, %sa: tensor<?x160xf8E8M0FNU>,
    %b: tensor<8x5120x8192x!fp8moe.e5m2, #expert_columns>, %sb: tensor<8x8192x160xf8E8M0FNU, #tiled>,
    %ends: tensor<8xi32>) -> tensor<?x8192xbf16> {
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<?x160xf8E8M0FNU>, tensor<8x8192x160xf8E8M0FNU, #tiled>)
      tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x5120x!fp8moe.e4m3>, tensor<8x5120x8192x!fp8moe.e5m2, #expert_columns>
      -> tensor<?x8192xbf16>
  return %o : tensor<?x8192xbf16>
}

// CHECK: .amdhsa_private_segment_fixed_size 0
// CHECK: .vgpr_spill_count: 0

// Twelve bytes may be under way besides the eight loads that always may; in the second phase
// they come. Columns are the first operand, e5m2 is format 1.

// RUN: fp8moe-compile %t/long.mlir --target=gfx950 --emit=asm | FileCheck %s --check-prefix=WAITS
// WAITS: s_waitcnt vmcnt(20) lgkmcnt(0)
// WAITS: s_setprio 1
// WAITS-COUNT-16: v_mfma_scale_f32_16x16x128_f8f6f4 {{.*}} op_sel_hi:[0,0,0] cbsz:1
// WAITS: s_setprio 0
// WAITS: s_waitcnt vmcnt(8) lgkmcnt(0)
// WAITS: s_setprio 1
// WAITS-COUNT-16: v_mfma_scale_f32_16x16x128_f8f6f4

// A short contraction is a loop, too: unrolled, it would drop loads that the waits count.

// RUN: fp8moe-compile %t/short.mlir --target=gfx950 --emit=asm | FileCheck %s --check-prefix=SHORT
// SHORT-COUNT-32: v_mfma_scale_f32_16x16x128_f8f6f4
// SHORT-NOT: v_mfma_scale

//--- short.mlir
#expert_columns = #fp8moe.strided<[0, 2, 1]>

func.func @short(%a: tensor<?x256x!fp8moe.e4m3>, %sa: tensor<?x8xf8E8M0FNU>,
    %b: tensor<8x256x8192x!fp8moe.e4m3, #expert_columns>, %sb: tensor<8x8192x8xf8E8M0FNU>,
    %ends: tensor<8xi32>) -> tensor<?x8192xbf16> {
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<?x8xf8E8M0FNU>, tensor<8x8192x8xf8E8M0FNU>)
      tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x256x!fp8moe.e4m3>, tensor<8x256x8192x!fp8moe.e4m3, #expert_columns>
      -> tensor<?x8192xbf16>
  return %o : tensor<?x8192xbf16>
}
