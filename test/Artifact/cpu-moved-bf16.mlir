// RUN: fp8moe-compile %s --target=cpu --emit=llvm | FileCheck %s
// RUN: fp8moe-compile %s --target=cpu --emit=so -o %t.so

// bf16 values that are only copied are integers in LLVM IR. With the type bfloat, x86 would widen
// them to f32 after the load and call a library function to round them before the store.

// CHECK-LABEL: define {{.*}} @pack
// CHECK:         %[[X:.*]] = load i16
// CHECK:         %[[OR_ZERO:.*]] = phi i16 [ %[[X]], {{.*}} ], [ 0, {{.*}} ]
// CHECK:         store i16 %[[OR_ZERO]]
// CHECK-NOT:     bfloat
func.func @pack(%x: tensor<16x1xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>, %ends: tensor<1xi32>)
    -> (tensor<1x1xbf16>, tensor<1x1xbf16>) {
  %r = fp8moe.relayout %x groups(%ends : tensor<1xi32>)
      : tensor<16x1xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>> -> tensor<1x1xbf16>
  return %r, %r : tensor<1x1xbf16>, tensor<1x1xbf16>
}

// The matmul's bf16 result is stored in one basic block and loaded in another. It must not become a
// bfloat in between.

// CHECK-LABEL: define {{.*}} @quantize
// CHECK-NOT:     bitcast bfloat
// CHECK:         ret void
func.func @quantize(%a: tensor<2x?xbf16>, %b: tensor<?x1xbf16>) -> (tensor<2x1x!fp8moe.e4m3>, tensor<2xf32>) {
  %y = fp8moe.linear %a, %b : tensor<2x?xbf16>, tensor<?x1xbf16> -> tensor<2x1xbf16>
  %q, %s = fp8moe.dynamic_quantize %y along [1] rounding pow2
      : tensor<2x1xbf16> -> tensor<2x1x!fp8moe.e4m3>, tensor<2xf32>
  return %q, %s : tensor<2x1x!fp8moe.e4m3>, tensor<2xf32>
}
