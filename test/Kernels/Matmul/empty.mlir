// An operand without elements may have any strides: a pitch that follows from a size of 0 is 1, no
// multiple of 16 bytes. wgrad of empty groups is zero. The same program with three tokens is
// refused for its pitch.

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
