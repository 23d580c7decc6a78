// REQUIRES: ptxas
// RUN: fp8moe-compile %s --target=sm_90a --emit=cubin -o %t.cubin && llvm-readelf -h %t.cubin | FileCheck %s
// RUN: not fp8moe-compile %s --target=sm_90a --emit=cubin --ptxas=/no/such/ptxas 2>&1 | FileCheck %s --check-prefix=MISSING

// CHECK: Machine: {{.*}}CUDA
// MISSING: error: {{.*}}/no/such/ptxas
func.func @quantize(%x: tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}
