// RUN: fp8moe-compile %s --target=gfx942 --emit=asm | FileCheck %s
// RUN: fp8moe-compile %s --target=gfx950 --emit=asm | FileCheck %s

// The uses of AMD's instructions. benchmarks/amd_isa.py counts them.

// Rows of an odd length begin anywhere, and so do accesses of 16 bytes.

func.func @rows(%x: tensor<?x7169xbf16>) -> (tensor<?x7169x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      tiles [#fp8moe.register_resident<columns = 1, threads = 256, chunks = 2, rounds = 1, blocks = 8>]
      : tensor<?x7169xbf16> -> tensor<?x7169x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x7169x!fp8moe.e4m3>, tensor<?xf32>
}

// CHECK-LABEL: quantize_register_resident_0:
// CHECK-NOT:     global_load_ushort
// CHECK-NOT:     v_perm_b32
// Two magnitudes at a time.
// CHECK:         global_load_dwordx4
// CHECK:         v_and_b32{{.*}} 0x7fff7fff
// CHECK:         v_pk_max_u16
// Two products at a time, which need no clamp: the scale is of their largest magnitude.
// CHECK-NOT:     v_med3_f32
// CHECK-NOT:     v_cmp_{{.*}}_f32
// CHECK:         v_pk_mul_f32
// CHECK:         v_cvt_pk_fp8_f32
// CHECK:         v_cvt_pk_fp8_f32 {{.*}} op_sel:[0,0,1]
// CHECK:         global_store_dwordx4
// CHECK-NOT:     v_med3_f32
// CHECK-NOT:     global_store_byte
// CHECK:       s_endpgm

// A scale that is rounded to nearest may be too large by half a unit.

func.func @nearest(%x: tensor<?x4096xbf16>) -> (tensor<?x4096x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
      tiles [#fp8moe.register_resident<columns = 1, threads = 256, chunks = 1, rounds = 1, blocks = 8>]
      : tensor<?x4096xbf16> -> tensor<?x4096x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x4096x!fp8moe.e4m3>, tensor<?xf32>
}

// CHECK-LABEL: quantize_register_resident_1:
// CHECK:         v_pk_mul_f32
// CHECK:         v_med3_f32
// CHECK-NOT:     v_cmp_{{.*}}_f32
// CHECK:         v_cvt_pk_fp8_f32

// Groups begin in any row. Tiles begin with them, so only their last chunks are stored in parts.

#col = #fp8moe.strided<[1, 0]>
func.func @groups(%x: tensor<?x2048xbf16>, %ends: tensor<?xi32>)
    -> (tensor<?x2048x!fp8moe.e4m3, #col>, tensor<?x2048xf32>) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0] rounding pow2
      tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3, #col>, tensor<?x2048xf32>
  return %q, %s : tensor<?x2048x!fp8moe.e4m3, #col>, tensor<?x2048xf32>
}

// CHECK-LABEL: quantize_two_pass_outer_transposing_2:
// Bounds of a group are scalars.
// CHECK:         v_readfirstlane_b32
// CHECK:         v_readfirstlane_b32
// CHECK-NOT:     global_load_ushort
// Lanes add 32 bits to where rows begin.
// CHECK:         global_load_dwordx4 v[{{[0-9:]+}}], v{{[0-9]+}}, s[
// CHECK:         v_pk_max_u16
// CHECK:         global_load_dwordx4 v[{{[0-9:]+}}], v{{[0-9]+}}, s[
// CHECK:         v_pk_mul_f32
// CHECK:         v_cvt_pk_fp8_f32
// CHECK:         ds_read_b128
// CHECK-DAG:     global_store_dwordx4
// CHECK-DAG:     global_store_dwordx2
// CHECK-DAG:     global_store_dword v
// CHECK-DAG:     global_store_short
// CHECK-DAG:     global_store_byte
