// RUN: fp8moe-compile %s --target=gfx942 --emit=asm | FileCheck %s
// RUN: fp8moe-compile %s --target=gfx950 --emit=asm | FileCheck %s

// What AMD's instructions are for.

func.func @rows(%x: tensor<?x8192xbf16>) -> (tensor<?x8192x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      tiles [#fp8moe.register_resident<columns = 1, threads = 256, chunks = 2, rounds = 1, blocks = 8>]
      : tensor<?x8192xbf16> -> tensor<?x8192x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x8192x!fp8moe.e4m3>, tensor<?xf32>
}

// CHECK-LABEL: quantize_register_resident_0:
// CHECK-NOT:     v_perm_b32
// Two magnitudes at a time.
// CHECK-DAG:     global_load_dwordx4
// CHECK-DAG:     v_and_b32{{.*}} 0x7fff7fff
// CHECK-DAG:     v_pk_max_u16
// Two products at a time, which need no clamp: the scale is of their largest magnitude.
// CHECK-DAG:     v_pk_mul_f32
// CHECK-DAG:     v_cvt_pk_fp8_f32
// CHECK-DAG:     v_cvt_pk_fp8_f32 {{.*}} op_sel:[0,0,1]
// CHECK-DAG:     global_store_dwordx4
// CHECK-NOT:     v_med3_f32
// CHECK:       s_endpgm

// A scale that is rounded to nearest may be too large by half a unit.

func.func @nearest(%x: tensor<?x4096xbf16>) -> (tensor<?x4096x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
      tiles [#fp8moe.register_resident<columns = 1, threads = 256, chunks = 1, rounds = 1, blocks = 8>]
      : tensor<?x4096xbf16> -> tensor<?x4096x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x4096x!fp8moe.e4m3>, tensor<?xf32>
}

// CHECK-LABEL: quantize_register_resident_1:
// CHECK-DAG:     v_pk_mul_f32
// CHECK-DAG:     v_med3_f32
// CHECK-DAG:     v_cvt_pk_fp8_f32
