// REQUIRES: rocm-device-libs
// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=gfx942 kind=asm" -o /dev/null | FileCheck %s
// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=gfx950 kind=hsaco output=%t.hsaco" -o /dev/null
// RUN: not fp8moe-opt %s --test-fp8moe-emit="chip=gfx942 kind=llvm rocm-path=%t.missing" -o /dev/null 2>&1 | FileCheck %s --check-prefix=MISSING

// The called function of ROCm's device library is linked and inlined. No other symbol of the
// library is left.
// CHECK-NOT: __oc
// CHECK: .globl exp
// CHECK-NOT: s_swappc
// CHECK: v_exp_f32
// CHECK-NOT: s_swappc
// CHECK: s_endpgm
// CHECK-NOT: .globl

// MISSING: error: the kernels call '__ocml_exp_f32' of ROCm's device libraries, which were not found in {{.*}}.missing/amdgcn/bitcode; install rocm-device-libs (on Debian 13 rocm-device-libs-17), or name the ROCm folder with --rocm-path or ROCM_PATH
gpu.module @kernels {
  llvm.func @__ocml_exp_f32(f32) -> f32
  llvm.func @exp(%x: !llvm.ptr<1>) attributes {gpu.kernel, rocdl.kernel} {
    %v = llvm.load %x : !llvm.ptr<1> -> f32
    %w = llvm.call @__ocml_exp_f32(%v) : (f32) -> f32
    llvm.store %w, %x : f32, !llvm.ptr<1>
    llvm.return
  }
}
