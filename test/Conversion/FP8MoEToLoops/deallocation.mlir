// RUN: fp8moe-opt %s --convert-fp8moe-to-loops --fp8moe-loops-to-llvm | FileCheck %s

// The memory behind a view is freed after the last use of the view, not of the
// allocation.

// CHECK-LABEL: llvm.func @through_views
// CHECK:         llvm.call @malloc
// CHECK:         llvm.intr.umax
// CHECK:         llvm.call @free
// CHECK-NOT:     llvm.load
// CHECK:         llvm.return
func.func @through_views(%x: tensor<8x4xf32>) -> tensor<4xf32> {
  %t = fp8moe.transpose %x [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
  %c = fp8moe.contiguous %t : tensor<4x8xf32, #fp8moe.strided<[1, 0]>> -> tensor<4x8xf32>
  %u = fp8moe.transpose %c [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32, #fp8moe.strided<[1, 0]>>
  %s = fp8moe.scale %u along 0 rounding pow2 fp8 f8E4M3FN
      : tensor<8x4xf32, #fp8moe.strided<[1, 0]>> -> tensor<4xf32>
  return %s : tensor<4xf32>
}
