// --report says at each source line what became of a copy. --optimize-layouts=false turns the
// layout passes off.

// RUN: fp8moe-compile %s --target=cpu -o %t --report 2>&1 | FileCheck %s
// RUN: fp8moe-compile %s --target=cpu --emit=tensor | FileCheck %s --check-prefix=ON
// RUN: fp8moe-compile %s --target=cpu --emit=tensor --optimize-layouts=false \
// RUN: | FileCheck %s --check-prefix=OFF

// ON-NOT: relayout
// OFF: fp8moe.relayout
func.func @weights(%x: tensor<64x64xbf16>) -> (tensor<64x64x!fp8moe.e4m3>, tensor<64xf32>) {
  // CHECK: layout-report.mlir:[[@LINE+1]]:8: remark: {{.*}}copy removed: dynamic_quantize takes argument #0 as it is, row-major
  %c = fp8moe.relayout %x : tensor<64x64xbf16> -> tensor<64x64xbf16, #fp8moe.strided<[1, 0]>>
  %q, %s = fp8moe.dynamic_quantize %c along [0] rounding pow2
      : tensor<64x64xbf16, #fp8moe.strided<[1, 0]>>
      -> tensor<64x64x!fp8moe.e4m3>, tensor<64xf32>
  return %q, %s : tensor<64x64x!fp8moe.e4m3>, tensor<64xf32>
}
