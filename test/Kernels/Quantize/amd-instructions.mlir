// RUN: fp8moe-compile %s --target=gfx942 --emit=asm | FileCheck %s
// RUN: fp8moe-compile %s --target=gfx950 --emit=asm | FileCheck %s

// AMD's instructions in the quantize kernels, which benchmarks/amd_isa.py counts.

// Rows of an odd length begin at any address. 16-byte accesses are used all the same.

func.func @rows(%x: tensor<?x7169xbf16>) -> (tensor<?x7169x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      tiles [#fp8moe.register_resident<columns = 1, threads = 256, chunks = 2, rounds = 1, blocks = 8>]
      : tensor<?x7169xbf16> -> tensor<?x7169x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x7169x!fp8moe.e4m3>, tensor<?xf32>
}

// CHECK-LABEL: quantize_register_resident_0:
// CHECK-NOT:     global_load_ushort
// CHECK-NOT:     v_perm_b32
// Magnitudes are compared two at a time.
// CHECK:         global_load_dwordx4
// CHECK:         v_and_b32{{.*}} 0x7fff7fff
// CHECK:         v_pk_max_u16
// Products are computed two at a time and need no clamp, as the scale is a power of two that
// follows from their amax.
// CHECK-NOT:     v_med3_f32
// CHECK-NOT:     v_cmp_{{.*}}_f32
// CHECK:         v_pk_mul_f32
// CHECK:         v_cvt_pk_fp8_f32
// CHECK:         v_cvt_pk_fp8_f32 {{.*}} op_sel:[0,0,1]
// CHECK:         global_store_dwordx4
// CHECK-NOT:     v_med3_f32
// CHECK-NOT:     global_store_byte
// CHECK:       s_endpgm

// Without rounding to a power of two, the scale may be too large by half a unit in the last place.
// A clamp is needed.

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

// Groups begin at any row. Tiles begin with their group, so only its last rows are stored in parts.

#col = #fp8moe.strided<[1, 0]>
func.func @groups(%x: tensor<?x2048xbf16>, %ends: tensor<?xi32>)
    -> (tensor<?x2048x!fp8moe.e4m3, #col>, tensor<?x2048xf32>) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0] rounding pow2
      tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3, #col>, tensor<?x2048xf32>
  return %q, %s : tensor<?x2048x!fp8moe.e4m3, #col>, tensor<?x2048xf32>
}

// CHECK-LABEL: quantize_two_pass_outer_transposing_2:
// The bounds of a group are scalar registers.
// CHECK:         v_readfirstlane_b32
// CHECK:         v_readfirstlane_b32
// CHECK-NOT:     global_load_ushort
// Addresses are a scalar base and a 32-bit offset per lane.
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
