// Random inputs with padded groups have zeros between the groups (P2), and offsets that fit.
// --tokens counts the rows of groups.

// RUN: rm -rf %t && fp8moe-compile %s --target=cpu -o %t
// RUN: fp8moe-run %t/cpu --program=multiply --random=1 --tokens=96 --save-inputs=%t.in | FileCheck %s
// CHECK: input a BF16 64x144
// CHECK-NEXT: input b BF16 144x32
// CHECK-NEXT: input e I32 3
// RUN: %python %S/Inputs/check_padding.py %t.in a 1 16 96
// RUN: %python %S/Inputs/check_padding.py %t.in b 0 16 96

// IR instead of an artifact has the same padding.
// RUN: fp8moe-run %s --program=multiply --random=1 --tokens=96 | FileCheck %s

// RUN: fp8moe-run %t/cpu --program=pack --random=2 --save-inputs=%t.in | FileCheck %s --check-prefix=PACK
// PACK: input a BF16 160x32
// RUN: %python %S/Inputs/check_padding.py %t.in a 0 16 100

// --shape limits the padded extent, and the offsets fit it.
// RUN: fp8moe-run %t/cpu --program=multiply --random=3 --shape=a=64x64 --shape=b=64x32 --save-inputs=%t.in
// RUN: %python %S/Inputs/check_padding.py %t.in b 0 16 19

#p0 = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>
#p1 = #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>
func.func @multiply(%a: tensor<64x?xbf16, #p1> {fp8moe.name = "a"}, %b: tensor<?x32xbf16, #p0> {fp8moe.name = "b"},
                    %e: tensor<3xi32> {fp8moe.name = "e"}) -> tensor<3x64x32xf32> {
  %d = fp8moe.grouped_matmul %a, %b groups(%e : tensor<3xi32>)
      : tensor<64x?xbf16, #p1>, tensor<?x32xbf16, #p0> -> tensor<3x64x32xf32>
  return %d : tensor<3x64x32xf32>
}
func.func @pack(%a: tensor<160x32xbf16, #p0> {fp8moe.name = "a"}, %e: tensor<3xi32> {fp8moe.name = "e"})
    -> tensor<100x32xbf16> {
  %d = fp8moe.relayout %a groups(%e : tensor<3xi32>) : tensor<160x32xbf16, #p0> -> tensor<100x32xbf16>
  return %d : tensor<100x32xbf16>
}
