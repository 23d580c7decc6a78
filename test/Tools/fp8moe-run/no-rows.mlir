// Tensors without rows are legal, 1-D results included.

// RUN: fp8moe-run %s --random=7 --tokens=0 | FileCheck %s
// CHECK: input x BF16 0x64
// CHECK-NEXT: output q F8_E4M3 0x64
// CHECK-NEXT: output s F32 0

func.func @quantize(%x: tensor<?x64xbf16> {fp8moe.name = "x"})
    -> (tensor<?x64x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}
