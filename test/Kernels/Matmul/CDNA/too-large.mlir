// A size beyond the kernel's limit is an error, and no artifact is written.

// RUN: rm -rf %t && not fp8moe-compile %s --target=gfx950 -o %t 2>&1 | FileCheck %s
// RUN: not ls %t/gfx950

func.func @rows(%a: tensor<2147483648x16xbf16>, %b: tensor<16x256xbf16, #fp8moe.strided<[1, 0]>>)
    -> tensor<2147483648x256xbf16> {
  // CHECK: error: {{.*}} takes sizes of the first operand up to 2147418112, found 2147483648; split the tensor
  %y = fp8moe.linear %a, %b : tensor<2147483648x16xbf16>, tensor<16x256xbf16, #fp8moe.strided<[1, 0]>>
      -> tensor<2147483648x256xbf16>
  return %y : tensor<2147483648x256xbf16>
}
