// test_stress.py runs these quantizations many times in parallel. Widths are static, so that every
// kernel may be chosen.

#column_major = #fp8moe.strided<[1, 0]>
#padded_column_major = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
#expert_column_major = #fp8moe.strided<[0, 2, 1]>

func.func @jagged_colwise(%x: tensor<?x1024xbf16> {fp8moe.name = "x"},
                          %offsets: tensor<8xi32> {fp8moe.name = "offsets"})
    -> (tensor<?x1024x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"}, tensor<8x1024xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x1024xbf16> -> tensor<?x1024x!fp8moe.e4m3, #column_major>, tensor<8x1024xf32>
  return %q, %s : tensor<?x1024x!fp8moe.e4m3, #column_major>, tensor<8x1024xf32>
}

func.func @jagged_colwise_padded(%x: tensor<?x512xbf16> {fp8moe.name = "x"},
                                 %offsets: tensor<8xi32> {fp8moe.name = "offsets"})
    -> (tensor<?x512x!fp8moe.e4m3, #padded_column_major> {fp8moe.name = "q"}, tensor<8x512xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x512xbf16> -> tensor<?x512x!fp8moe.e4m3, #padded_column_major>, tensor<8x512xf32>
  return %q, %s : tensor<?x512x!fp8moe.e4m3, #padded_column_major>, tensor<8x512xf32>
}

func.func @jagged_colwise_column_major_input(%x: tensor<?x512xbf16, #column_major> {fp8moe.name = "x"},
                                             %offsets: tensor<8xi32> {fp8moe.name = "offsets"})
    -> (tensor<?x512x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"}, tensor<8x512xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x512xbf16, #column_major> -> tensor<?x512x!fp8moe.e4m3, #column_major>, tensor<8x512xf32>
  return %q, %s : tensor<?x512x!fp8moe.e4m3, #column_major>, tensor<8x512xf32>
}

func.func @jagged_rowwise_and_colwise(%x: tensor<?x1024xbf16> {fp8moe.name = "x"},
                                      %offsets: tensor<8xi32> {fp8moe.name = "offsets"})
    -> (tensor<?x1024x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"}, tensor<?x1024x!fp8moe.e4m3> {fp8moe.name = "q1"},
        tensor<8x1024xf32> {fp8moe.name = "s"}, tensor<?xf32> {fp8moe.name = "s1"}) {
  %q, %q1, %s, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<8xi32>) along [0, 1] rounding pow2
      : tensor<?x1024xbf16>
      -> tensor<?x1024x!fp8moe.e4m3, #column_major>, tensor<?x1024x!fp8moe.e4m3>, tensor<8x1024xf32>, tensor<?xf32>
  return %q, %q1, %s, %s1 : tensor<?x1024x!fp8moe.e4m3, #column_major>, tensor<?x1024x!fp8moe.e4m3>,
                            tensor<8x1024xf32>, tensor<?xf32>
}

func.func @rowwise(%x: tensor<?x2048xbf16> {fp8moe.name = "x"})
    -> (tensor<?x2048x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>
}

func.func @weights_dgrad(%x: tensor<4x512x768xbf16, #expert_column_major> {fp8moe.name = "x"})
    -> (tensor<4x512x768x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<4x512xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [2] rounding pow2
      : tensor<4x512x768xbf16, #expert_column_major> -> tensor<4x512x768x!fp8moe.e4m3>, tensor<4x512xf32>
  return %q, %s : tensor<4x512x768x!fp8moe.e4m3>, tensor<4x512xf32>
}

func.func @weights_dgrad_tall(%x: tensor<1x2304x8192xbf16, #expert_column_major> {fp8moe.name = "x"})
    -> (tensor<1x2304x8192x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<1x2304xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [2] rounding pow2
      : tensor<1x2304x8192xbf16, #expert_column_major> -> tensor<1x2304x8192x!fp8moe.e4m3>, tensor<1x2304xf32>
  return %q, %s : tensor<1x2304x8192x!fp8moe.e4m3>, tensor<1x2304xf32>
}

func.func @matmul(%a: tensor<?x512x!fp8moe.e4m3> {fp8moe.name = "a"},
                  %b: tensor<8x512x1024x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "b"},
                  %offsets: tensor<8xi32> {fp8moe.name = "offsets"},
                  %sa: tensor<?xf32> {fp8moe.name = "sa"}, %sb: tensor<8x1024xf32> {fp8moe.name = "sb"})
    -> (tensor<?x1024xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<8xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<8x1024xf32>) direction quantize accumulation fast
      : tensor<?x512x!fp8moe.e4m3>, tensor<8x512x1024x!fp8moe.e4m3, #expert_column_major> -> tensor<?x1024xbf16>
  return %y : tensor<?x1024xbf16>
}
