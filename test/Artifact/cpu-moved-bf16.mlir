// RUN: fp8moe-compile %s --target=cpu --emit=llvm | FileCheck %s
// RUN: fp8moe-compile %s --target=cpu --emit=so -o %t.so

// Values of bf16 that are only moved are integers in LLVM IR: as bfloat, x86 would keep them
// as f32 between the load and the store, and call a function to round them back.

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
