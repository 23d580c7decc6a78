// Block scales on gfx950. Each lane loads one scale byte per fragment for the next stage, while the
// matrix instructions use those of this stage.

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

// The prologue loads 12 scale bytes for each of two stages, and the loop loads 12 a stage. The
// first wait allows 20 loads in flight: 12 bytes and 8 operand loads. The second wait allows 8, so
// the bytes have arrived. B is the first operand of the instruction; cbsz:1 is e5m2.

// RUN: fp8moe-compile %t/long.mlir --target=gfx950 --emit=asm | FileCheck %s --check-prefix=WAITS
// WAITS-COUNT-24: buffer_load_ubyte
// WAITS-COUNT-2: buffer_load_dwordx4 {{.*}} lds
// WAITS-NOT: buffer_load
// WAITS: s_waitcnt vmcnt(20) lgkmcnt(0)
// WAITS: s_setprio 1
// WAITS-COUNT-16: v_mfma_scale_f32_16x16x128_f8f6f4 {{.*}} op_sel_hi:[0,0,0] cbsz:1
// WAITS: s_setprio 0
// WAITS-COUNT-6: buffer_load_dwordx4 {{.*}} lds
// WAITS-NOT: buffer_load
// WAITS: s_waitcnt vmcnt(8) lgkmcnt(0)
// WAITS: s_setprio 1
// WAITS-COUNT-16: v_mfma_scale_f32_16x16x128_f8f6f4

// A short K must stay a loop. Unrolling would drop loads that the waits count.

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

// In a K-grouped matmul, a group begins at any byte of a block. Operands pass through registers,
// where 16 bytes are shifted with the word behind them. Only the loop over the last stages also
// masks them.

// RUN: fp8moe-compile %t/gradient.mlir --target=gfx950 --emit=asm | FileCheck %s --check-prefix=SHIFT
// SHIFT: s_barrier
// SHIFT: s_setprio 1
// SHIFT-COUNT-8: v_mfma_scale_f32_16x16x128_f8f6f4
// SHIFT: s_setprio 0
// SHIFT-NOT: v_bitop3_b32
// SHIFT-COUNT-20: v_alignbit_b32
// SHIFT: buffer_load_dwordx4 {{.*}} offen{{$}}
// SHIFT: buffer_load_dword {{.*}} offen offset:16{{$}}
// SHIFT: ds_write_b128
// SHIFT: s_setprio 1
// SHIFT-COUNT-8: v_mfma_scale_f32_16x16x128_f8f6f4
// SHIFT: s_cbranch
// SHIFT: v_alignbit_b32
// SHIFT: v_bitop3_b32
// SHIFT-COUNT-16: v_mfma_scale_f32_16x16x128_f8f6f4
// SHIFT-NOT: v_mfma
// SHIFT: .amdhsa_private_segment_fixed_size 0
// SHIFT: .vgpr_spill_count: 0

// Offsets into the scales are 32-bit, which limits the number of padded rows.

// RUN: fp8moe-compile %S/../../../Integration/programs/mx_matmul_gradient.mlir --target=gfx950 --emit=mlir | FileCheck %s --check-prefix=ROWS
// ROWS: plan.require {{.*}} "the matmul kernel takes at most 134217728 rows of groups that are padded for their scales"

// Row pitches that are no multiple of 16 bytes work, too.

// RUN: fp8moe-compile %t/odd.mlir --target=gfx950 --emit=asm | FileCheck %s --check-prefix=ODD
// ODD: v_alignbit_b32
// ODD: v_mfma_scale_f32_16x16x128_f8f6f4

//--- odd.mlir
#column_major = #fp8moe.strided<[1, 0]>
#tiles_of_groups = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>

func.func @odd(%a: tensor<64x1001x!fp8moe.e4m3>, %sa: tensor<64x64xf8E8M0FNU, #tiles_of_groups>,
    %b: tensor<1001x48x!fp8moe.e4m3, #column_major>, %sb: tensor<48x64xf8E8M0FNU, #tiles_of_groups>,
    %ends: tensor<8xi32>) -> tensor<8x64x48xbf16> {
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<64x64xf8E8M0FNU, #tiles_of_groups>, tensor<48x64xf8E8M0FNU, #tiles_of_groups>)
      : tensor<64x1001x!fp8moe.e4m3>, tensor<1001x48x!fp8moe.e4m3, #column_major> -> tensor<8x64x48xbf16>
  return %o : tensor<8x64x48xbf16>
}

//--- gradient.mlir
#column_major = #fp8moe.strided<[1, 0]>
#tiles_of_groups = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>

func.func @gradient(%a: tensor<2048x32768x!fp8moe.e4m3>, %sa: tensor<2048x1056xf8E8M0FNU, #tiles_of_groups>,
    %b: tensor<32768x7168x!fp8moe.e5m2, #column_major>, %sb: tensor<7168x1056xf8E8M0FNU, #tiles_of_groups>,
    %ends: tensor<8xi32>) -> tensor<8x2048x7168xbf16> {
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<2048x1056xf8E8M0FNU, #tiles_of_groups>, tensor<7168x1056xf8E8M0FNU, #tiles_of_groups>)
      : tensor<2048x32768x!fp8moe.e4m3>, tensor<32768x7168x!fp8moe.e5m2, #column_major>
      -> tensor<8x2048x7168xbf16>
  return %o : tensor<8x2048x7168xbf16>
}
