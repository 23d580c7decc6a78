// --mlir-timing lists all parts of a compilation below its target: MLIR passes, LLVM and ptxas.

// RUN: fp8moe-compile %s --target=gfx942,cpu -o %t --mlir-timing 2>&1 | FileCheck %s
// CHECK: gfx942
// CHECK: ResolveFp8Types
// CHECK: ConvertFP8MoEToGPU
// CHECK: LLVM passes
// CHECK: Code generation and linking
// CHECK: {{ cpu$}}
// CHECK: ConvertFP8MoEToLoops
// CHECK: LLVM passes
// CHECK: Total

// RUN: %if ptxas %{ fp8moe-compile %s --target=sm_90a --emit=cubin -o /dev/null --mlir-timing 2>&1 | FileCheck %s --check-prefix=NVIDIA %}
// NVIDIA: LLVM passes
// NVIDIA: Code generation
// NVIDIA: ptxas

// RUN: fp8moe-compile %s --target=cpu -o %t 2>&1 | FileCheck %s --check-prefix=SILENT --allow-empty
// SILENT-NOT: {{.}}
func.func @copy(%x: tensor<8x16xf32, #fp8moe.strided<[1, 0]>>) -> tensor<8x16xf32> {
  %c = fp8moe.contiguous %x : tensor<8x16xf32, #fp8moe.strided<[1, 0]>> -> tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}
