// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=gfx942 kind=asm" -o /dev/null | FileCheck %s --check-prefixes=CHECK,GFX942
// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=gfx950 kind=asm" -o /dev/null | FileCheck %s --check-prefixes=CHECK,GFX950
// RUN: fp8moe-opt %s --test-fp8moe-emit="chip=gfx942 kind=hsaco output=%t.hsaco" -o /dev/null
// RUN: llvm-readelf --file-header --notes %t.hsaco | FileCheck %s --check-prefix=ELF

// GFX942: .amdgcn_target "amdgcn-amd-amdhsa--gfx942"
// GFX950: .amdgcn_target "amdgcn-amd-amdhsa--gfx950"
// CHECK-NOT: fma
// CHECK: v_mul_f32
// CHECK-NEXT: v_add_f32
// CHECK-NOT: fma
// Subnormals are not flushed to zero.
// CHECK: .amdhsa_float_denorm_mode_32 3
// CHECK: .amdhsa_float_denorm_mode_16_64 3

// ELF: OS/ABI: AMDGPU - HSA
// ELF: ABI Version: 3
// ELF: Type: DYN
// ELF: gfx942
// ELF: .max_flat_workgroup_size: 256
// ELF: .name: scale
gpu.module @kernels {
  llvm.func @scale(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>, %n: i64)
      attributes {gpu.kernel, rocdl.kernel, rocdl.flat_work_group_size = "1,256"} {
    %t = rocdl.workitem.id.x : i32
    %i = llvm.sext %t : i32 to i64
    %px = llvm.getelementptr %x[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %py = llvm.getelementptr %y[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v = llvm.load %px : !llvm.ptr<1> -> f32
    %c3 = llvm.mlir.constant(3.0 : f32) : f32
    %0 = llvm.fmul %v, %c3 : f32
    %1 = llvm.fadd %0, %v : f32
    llvm.store %1, %py : f32, !llvm.ptr<1>
    llvm.return
  }
}
