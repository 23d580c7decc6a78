// RUN: fp8moe-opt %s -convert-fp8moe-to-loops -fp8moe-loops-to-llvm | FileCheck %s

// The buffer of a copy is freed only after the last read through any view of it. The copy itself
// has no later use.

#column_major = #fp8moe.strided<[1, 0]>

// CHECK-LABEL: llvm.func @transpose_contiguous_transpose
// CHECK: llvm.call @malloc
// CHECK-NOT: llvm.call @free
// CHECK: llvm.store %{{.*}} : i8, !llvm.ptr
// CHECK-NOT: llvm.load
// CHECK: llvm.call @free
// CHECK-NEXT: llvm.return
func.func @transpose_contiguous_transpose(%x: tensor<?x?xbf16>, %s: tensor<?xf32>)
    -> tensor<?x?xf8E4M3FN> {
  %t = fp8moe.transpose %x [1, 0] : tensor<?x?xbf16> -> tensor<?x?xbf16, #column_major>
  %c = fp8moe.contiguous %t : tensor<?x?xbf16, #column_major> -> tensor<?x?xbf16>
  %u = fp8moe.transpose %c [1, 0] : tensor<?x?xbf16> -> tensor<?x?xbf16, #column_major>
  %q = fp8moe.quantize %u by %s along 1
      : tensor<?x?xbf16, #column_major>, tensor<?xf32> -> tensor<?x?xf8E4M3FN>
  return %q : tensor<?x?xf8E4M3FN>
}
