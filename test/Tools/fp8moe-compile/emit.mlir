// --emit prints each stage of a small program, for each kind of target.

// RUN: fp8moe-compile %s --target=cpu --emit=mlir | FileCheck %s --check-prefix=CPU-MLIR
// RUN: fp8moe-compile %s --target=sm_90a --emit=kernel | FileCheck %s --check-prefix=KERNEL "--implicit-check-not={{nvvm|rocdl}}."
// RUN: fp8moe-compile %s --target=gfx942 --emit=kernel | FileCheck %s --check-prefix=KERNEL "--implicit-check-not={{nvvm|rocdl}}."
// RUN: not fp8moe-compile %s --target=cpu --emit=kernel 2>&1 | FileCheck %s --check-prefix=NO-KERNEL
// RUN: fp8moe-compile %s --target=cpu --emit=llvm | FileCheck %s --check-prefix=CPU-LLVM
// RUN: fp8moe-compile %s --target=cpu --emit=so -o %t.so && llvm-nm -D %t.so | FileCheck %s --check-prefix=CPU-SO
// RUN: fp8moe-compile %s --target=sm_90a --emit=ptx | FileCheck %s --check-prefix=PTX
// RUN: fp8moe-compile %s --target=gfx942 --emit=asm | FileCheck %s --check-prefix=AMDGCN
// RUN: fp8moe-compile %s --target=gfx950 --emit=hsaco -o %t.hsaco && llvm-readelf -h %t.hsaco | FileCheck %s --check-prefix=HSACO

// CPU-MLIR: fp8moe_plan.program @quantize
// KERNEL: // %{{.*}} = fp8moe.dynamic_quantize %arg0 along [1] rounding pow2 tiles [
// KERNEL-NEXT: // launch: grid({{.*}}arg0.dim(0){{.*}}) block({{[0-9]+}}, 1, 1) shared 0
// KERNEL-NEXT: // %input: arg0
// KERNEL-NEXT: // %output: {{.+}}
// KERNEL-NEXT: // %scales: {{.+}}
// KERNEL-NEXT: // %arg0_dim_0: arg0.dim(0)
// KERNEL: gpu.func @quantize{{.*}}(%input: !llvm.ptr, %output: !llvm.ptr, %scales: !llvm.ptr
// KERNEL: %thread = arith.index_cast
// KERNEL-DAG: fp8moe_kernel.exchange
// KERNEL-DAG: fp8moe_kernel.pack_fp8 {{.*}} products own_power_of_two
// KERNEL: fp8moe_plan.program @quantize
// NO-KERNEL: error: target 'cpu' is not a GPU; use convert-fp8moe-to-loops, or name a GPU
// CPU-LLVM: define void @{{.*}}(ptr
// CPU-SO: T {{.*}}quantize
// PTX: {{^}}// {{.+}} is called with these arguments:
// PTX-NEXT: //   0: address of input 'arg0'
// PTX-NEXT: //   1: address of output '{{.+}}'
// PTX: //   {{[0-9]+}}: extent 0 of input 'arg0'
// PTX: .target sm_90a
// PTX: .entry
// PTX-NOT: .ftz
// AMDGCN: {{^}}; {{.+}} is called with these arguments:
// AMDGCN-NEXT: ;   0: address of input 'arg0'
// AMDGCN: .amdgcn_target "amdgcn-amd-amdhsa--gfx942
// AMDGCN: .amdhsa_float_denorm_mode_32 3
// HSACO: Machine: {{.*}}AMD
func.func @quantize(%x: tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}
