// The assembly of the main loop pins what decides its speed: the order of its instructions, no
// spills, no scratch memory.

// RUN: fp8moe-compile %s --target=gfx942 --emit=asm | FileCheck %s --check-prefixes=CHECK,GFX942
// RUN: fp8moe-compile %s --target=gfx950 --emit=asm | FileCheck %s --check-prefixes=CHECK,GFX950

#expert_columns = #fp8moe.strided<[0, 2, 1]>

func.func @forward(%a: tensor<65536x4096x!fp8moe.e4m3>, %sa: tensor<65536xf32>,
    %b: tensor<8x4096x8192x!fp8moe.e4m3, #expert_columns>, %sb: tensor<8x8192xf32>,
    %ends: tensor<8xi32>) -> tensor<65536x8192xbf16> {
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<65536xf32>, tensor<8x8192xf32>) direction quantize
      : tensor<65536x4096x!fp8moe.e4m3>, tensor<8x4096x8192x!fp8moe.e4m3, #expert_columns>
      -> tensor<65536x8192xbf16>
  return %o : tensor<65536x8192xbf16>
}

// Shared memory holds two stages of both operands.
// GFX942: .amdhsa_group_segment_fixed_size 65536
// GFX950: .amdhsa_group_segment_fixed_size 131072
// CHECK: .amdhsa_private_segment_fixed_size 0
// CHECK: .vgpr_spill_count: 0

// K is a multiple of a stage, so lanes need no bounds checks: the buffer descriptor's range limits
// them. 14 loads of two stages come before the loop. Each half of the loop reads, refills, passes a
// barrier, issues 16 MFMAs at high priority and passes another barrier. gfx950 loads to shared
// memory directly and waits for all but eight loads. gfx942 loads through registers.

// RUN: fp8moe-compile %s --target=gfx942 --emit=asm | FileCheck %s --check-prefixes=LOOP942
// LOOP942-COUNT-8: ds_read_b128
// LOOP942: ds_write_b128
// LOOP942: s_waitcnt lgkmcnt(0)
// LOOP942: s_barrier
// LOOP942: s_setprio 1
// LOOP942-COUNT-16: v_mfma_f32_32x32x16_fp8_fp8
// LOOP942: s_setprio 0
// LOOP942: s_barrier
// LOOP942-COUNT-4: ds_read_b128
// LOOP942-COUNT-3: ds_write_b128
// LOOP942: s_barrier
// LOOP942: s_setprio 1
// LOOP942-COUNT-16: v_mfma_f32_32x32x16_fp8_fp8
// LOOP942: s_setprio 0
// LOOP942: s_barrier
// LOOP942: s_cbranch_scc1
// LOOP942: v_mul_f32
// LOOP942: buffer_store_dwordx4
// LOOP942-NOT: scratch_

// RUN: fp8moe-compile %s --target=gfx950 --emit=asm | FileCheck %s --check-prefixes=LOOP950
// LOOP950-COUNT-14: buffer_load_dwordx4 {{.*}} lds
// LOOP950: s_waitcnt vmcnt(8) lgkmcnt(0)
// LOOP950-COUNT-2: buffer_load_dwordx4 {{.*}} lds
// LOOP950-NOT: vmcnt
// LOOP950: s_waitcnt vmcnt(8) lgkmcnt(0)
// LOOP950: s_barrier
// LOOP950: s_setprio 1
// LOOP950-COUNT-16: v_mfma_f32_16x16x128_f8f6f4
// LOOP950: s_setprio 0
// LOOP950: s_barrier
// LOOP950-COUNT-6: buffer_load_dwordx4 {{.*}} lds
// LOOP950-NOT: vmcnt
// LOOP950: s_waitcnt vmcnt(8) lgkmcnt(0)
// LOOP950: s_barrier
// LOOP950: s_setprio 1
// LOOP950-COUNT-16: v_mfma_f32_16x16x128_f8f6f4
// LOOP950: s_setprio 0
// LOOP950: s_barrier
// LOOP950: s_cbranch_scc1
// LOOP950: buffer_store_dwordx4
// LOOP950-NOT: scratch_
