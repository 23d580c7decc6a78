// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fold-views))' | FileCheck %s
// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-fuse-quantize))' | FileCheck %s
// RUN: fp8moe-opt %s --pass-pipeline='builtin.module(func.func(fp8moe-pad-groups))' | FileCheck %s

// Nobody enters the second block, so its views may read themselves. The passes, which walk
// along views, erase it.

#column_major = #fp8moe.strided<[1, 0]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
// CHECK-LABEL: func.func @cycle
// CHECK-NEXT: return
// CHECK-NEXT: }
func.func @cycle(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  return %x : tensor<?x64xbf16>
^bb1:
  %0 = fp8moe.transpose %1 [1, 0] : tensor<64x?xbf16> -> tensor<?x64xbf16, #column_major>
  %1 = fp8moe.transpose %0 [1, 0] : tensor<?x64xbf16, #column_major> -> tensor<64x?xbf16>
  %2 = fp8moe.relayout %0 : tensor<?x64xbf16, #column_major> -> tensor<?x64xbf16>
  %q, %s = fp8moe.dynamic_quantize %2 along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
  return %2 : tensor<?x64xbf16>
}
}
