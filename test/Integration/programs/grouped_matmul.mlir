// M-grouped and K-grouped matmuls. Numerics tests run these programs. Dimensions are dynamic where
// layouts allow it, so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>
#expert_column_major = #fp8moe.strided<[0, 2, 1]>
#padded_columns = #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>
#padded_column_major = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>

func.func @e4m3_2d3d_bf16(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3>,
        tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>
      -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @e4m3_2d3d_f32_inverse(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction dequantize accumulation promoted
      : tensor<?x?x!fp8moe.e4m3>,
        tensor<?x?x?x!fp8moe.e4m3>
      -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @e5m2_e4m3_2d3d_bf16(
      %a: tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e5m2>,
        tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>
      -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @bf16_2d3d_bf16(
      %a: tensor<?x?xbf16> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      : tensor<?x?xbf16>,
        tensor<?x?x?xbf16, #expert_column_major>
      -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @e4m3_2d2d_bf16(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3>,
        tensor<?x?x!fp8moe.e4m3, #column_major>
      -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @e4m3_2d2d_f32_promoted(
      %a: tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation promoted
      : tensor<?x?x!fp8moe.e4m3, #column_major>,
        tensor<?x?x!fp8moe.e4m3>
      -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

func.func @e4m3_e5m2_2d2d_bf16(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3>,
        tensor<?x?x!fp8moe.e5m2, #column_major>
      -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @bf16_2d2d_f32(
      %a: tensor<?x?xbf16> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      : tensor<?x?xbf16>,
        tensor<?x?xbf16, #column_major>
      -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

func.func @e4m3_2d2d_padded(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3, #padded_columns>,
        tensor<?x?x!fp8moe.e4m3, #padded_column_major>
      -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @e5m2_e4m3_2d3d_bf16_accumulate(
      %a: tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"},
      %c: tensor<?x?xbf16> {fp8moe.name = "c"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      accumulate(%c : tensor<?x?xbf16>)
      : tensor<?x?x!fp8moe.e5m2>,
        tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>
      -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @bf16_2d3d_f32(
      %a: tensor<?x?xbf16> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation promoted
      : tensor<?x?xbf16>,
        tensor<?x?x?xbf16, #expert_column_major>
      -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @bf16_2d2d_bf16_accumulate(
      %a: tensor<?x?xbf16> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %c: tensor<?x?x?xbf16> {fp8moe.name = "c"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      accumulate(%c : tensor<?x?x?xbf16>)
      : tensor<?x?xbf16>,
        tensor<?x?xbf16, #column_major>
      -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @e4m3_2d2d_f32_padded_accumulate(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"},
      %c: tensor<?x?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation promoted
      accumulate(%c : tensor<?x?x?xf32>)
      : tensor<?x?x!fp8moe.e4m3, #padded_columns>,
        tensor<?x?x!fp8moe.e4m3, #padded_column_major>
      -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

func.func @e4m3_2d3d_bf16_scales_of_a(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa : tensor<?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3>,
        tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>
      -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @e4m3_2d3d_f32_inverse_scales_of_a(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa : tensor<?xf32>) direction dequantize accumulation promoted
      : tensor<?x?x!fp8moe.e4m3>,
        tensor<?x?x?x!fp8moe.e4m3>
      -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @e4m3_2d2d_bf16_scales_of_a(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa : tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3>,
        tensor<?x?x!fp8moe.e4m3, #column_major>
      -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @e4m3_2d2d_padded_scales_of_a(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa : tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3, #padded_columns>,
        tensor<?x?x!fp8moe.e4m3, #padded_column_major>
      -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @e4m3_2d2d_f32_padded_accumulate_scales_of_a(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %c: tensor<?x?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa : tensor<?x?xf32>) direction quantize accumulation promoted
      accumulate(%c : tensor<?x?x?xf32>)
      : tensor<?x?x!fp8moe.e4m3, #padded_columns>,
        tensor<?x?x!fp8moe.e4m3, #padded_column_major>
      -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}
