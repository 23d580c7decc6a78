// Operands without rows may lie anyhow: the pitch of one that follows from its sizes is 1, which is no multiple of 16
// bytes. The weight gradients of groups without tokens are zero. One with some tokens is refused where they do not fit.

// RUN: fp8moe-compile %s --target=sm_90a --target=gfx950 -o %t
// RUN: fp8moe-run %t/sm_90a --random=1 --shape x=64x0 --shape dy=0x32 --describe | FileCheck %s
// RUN: fp8moe-run %t/gfx950 --random=1 --shape x=64x0 --shape dy=0x32 --describe | FileCheck %s
// RUN: not fp8moe-run %t/sm_90a --random=1 --shape x=64x3 --shape dy=3x32 --describe 2>&1 | FileCheck %s --check-prefix=ODD
// RUN: not fp8moe-run %t/gfx950 --random=1 --shape x=64x3 --shape dy=3x32 --describe 2>&1 | FileCheck %s --check-prefix=ODD

// CHECK: "kernel": "{{.*}}matmul
// ODD: the matmul kernel needs strides of the first operand that are multiples of 8 elements
func.func @weight_gradient(%x: tensor<64x?xbf16> {fp8moe.name = "x"}, %dy: tensor<?x32xbf16> {fp8moe.name = "dy"}, %ends: tensor<3xi32>)
    -> tensor<3x64x32xbf16> {
  %dw = fp8moe.grouped_matmul %x, %dy groups(%ends : tensor<3xi32>)
      : tensor<64x?xbf16>, tensor<?x32xbf16> -> tensor<3x64x32xbf16>
  return %dw : tensor<3x64x32xbf16>
}
