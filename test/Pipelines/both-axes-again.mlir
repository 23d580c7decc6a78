// RUN: fp8moe-compile %s --target=gfx950 --emit=tensor -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: fp8moe-compile %t.mlir --target=gfx950 --emit=tensor | diff %t.mlir -

// Groups are short, so separate kernels would write the columns row by row and copy them. The
// chosen tile for both axes writes columns itself. An operation with a tile keeps its layouts.

// CHECK: jagged_dynamic_quantize {{.*}} along [0, 1] {{.*}} tiles [#fp8moe.rescaled_both_axes<
// CHECK-NOT: relayout
#padded = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>

func.func @f(%x: tensor<?x512xbf16> {fp8moe.name = "x"}, %offsets: tensor<512xi32> {fp8moe.name = "offsets"})
    -> (tensor<?x512x!fp8moe.e4m3, #padded> {fp8moe.name = "columns"}, tensor<?x512x!fp8moe.e4m3> {fp8moe.name = "rows"},
        tensor<512x512xf32> {fp8moe.name = "column_scales"}, tensor<?xf32> {fp8moe.name = "row_scales"}) {
  %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<512xi32>) along [0, 1] rounding pow2
      : tensor<?x512xbf16> -> tensor<?x512x!fp8moe.e4m3, #padded>, tensor<?x512x!fp8moe.e4m3>, tensor<512x512xf32>, tensor<?xf32>
  return %q#0, %q#1, %s#0, %s#1
      : tensor<?x512x!fp8moe.e4m3, #padded>, tensor<?x512x!fp8moe.e4m3>, tensor<512x512xf32>, tensor<?xf32>
}
