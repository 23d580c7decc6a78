// wgrad with a static number of groups. GPUs order few groups by length
// (docs/design/grouped-matmul-hopper.md#details-that-matter). Numerics tests run these programs.
// Other sizes and pitches are dynamic.

#rows = #fp8moe.strided<[0, 1], strides = [?, 1], align = 16>
#columns = #fp8moe.strided<[1, 0], strides = [1, ?], align = 16>
#padded_rows = #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>
#padded_columns = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>

func.func @gradient_of_7_fast_bf16(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %offsets: tensor<7xi32> {fp8moe.name = "offsets"},
      %sa: tensor<7x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<7x?xf32> {fp8moe.name = "sb"})
      -> (tensor<7x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<7xi32>)
      scales(%sa, %sb : tensor<7x?xf32>, tensor<7x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<7x?x?xbf16>
  return %y : tensor<7x?x?xbf16>
}

func.func @gradient_of_64_padded_fast_bf16(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "b"},
      %offsets: tensor<64xi32> {fp8moe.name = "offsets"},
      %sa: tensor<64x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<64x?xf32> {fp8moe.name = "sb"})
      -> (tensor<64x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<64xi32>)
      scales(%sa, %sb : tensor<64x?xf32>, tensor<64x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3, #padded_rows>, tensor<?x?x!fp8moe.e4m3, #padded_columns> -> tensor<64x?x?xbf16>
  return %y : tensor<64x?x?xbf16>
}

func.func @gradient_of_2_promoted_f32(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %offsets: tensor<2xi32> {fp8moe.name = "offsets"},
      %sa: tensor<2x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<2x?xf32> {fp8moe.name = "sb"})
      -> (tensor<2x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<2xi32>)
      scales(%sa, %sb : tensor<2x?xf32>, tensor<2x?xf32>) direction quantize accumulation promoted
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<2x?x?xf32>
  return %y : tensor<2x?x?xf32>
}

func.func @gradient_of_16_padded_promoted_f32_accumulate(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "b"},
      %offsets: tensor<16xi32> {fp8moe.name = "offsets"},
      %sa: tensor<16x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<16x?xf32> {fp8moe.name = "sb"},
      %c: tensor<16x?x?xf32> {fp8moe.name = "c"})
      -> (tensor<16x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<16xi32>)
      scales(%sa, %sb : tensor<16x?xf32>, tensor<16x?xf32>) direction quantize accumulation promoted
      accumulate(%c : tensor<16x?x?xf32>)
      : tensor<?x?x!fp8moe.e4m3, #padded_rows>, tensor<?x?x!fp8moe.e4m3, #padded_columns> -> tensor<16x?x?xf32>
  return %y : tensor<16x?x?xf32>
}

func.func @gradient_of_7_padded_promoted_f32_cooperative(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "b"},
      %offsets: tensor<7xi32> {fp8moe.name = "offsets"},
      %sa: tensor<7x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<7x?xf32> {fp8moe.name = "sb"})
      -> (tensor<7x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<7xi32>)
      scales(%sa, %sb : tensor<7x?xf32>, tensor<7x?xf32>) direction quantize accumulation promoted
      tiles [#fp8moe.wgmma<rows = 128, columns = 192, stages = 4, schedule = cooperative>]
      : tensor<?x?x!fp8moe.e4m3, #padded_rows>, tensor<?x?x!fp8moe.e4m3, #padded_columns> -> tensor<7x?x?xf32>
  return %y : tensor<7x?x?xf32>
}

// 65 groups exceed the table that orders groups.
func.func @gradient_of_65_padded_fast_bf16(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "b"},
      %offsets: tensor<65xi32> {fp8moe.name = "offsets"},
      %sa: tensor<65x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<65x?xf32> {fp8moe.name = "sb"})
      -> (tensor<65x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<65xi32>)
      scales(%sa, %sb : tensor<65x?xf32>, tensor<65x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3, #padded_rows>, tensor<?x?x!fp8moe.e4m3, #padded_columns> -> tensor<65x?x?xbf16>
  return %y : tensor<65x?x?xbf16>
}
