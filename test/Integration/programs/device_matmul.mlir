// Grouped matmuls with the layouts of GPU kernels: K-major operands with any pitch. Numerics tests
// run these programs. Dimensions and pitches are dynamic, so that one artifact serves every case.

#rows = #fp8moe.strided<[0, 1], strides = [?, 1], align = 16>
#columns = #fp8moe.strided<[1, 0], strides = [1, ?], align = 16>
#expert_columns = #fp8moe.strided<[0, 2, 1], strides = [?, 1, ?], align = 16>
#padded_rows = #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>
#padded_columns = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>

func.func @forward_fast_bf16(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x?x!fp8moe.e4m3, #expert_columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

// K is static and a multiple of a stage.
func.func @forward_of_512_fast_bf16(
      %a: tensor<?x512x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x512x?x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x512x!fp8moe.e4m3, #rows>, tensor<?x512x?x!fp8moe.e4m3, #expert_columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_promoted_bf16(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation promoted
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x?x!fp8moe.e4m3, #expert_columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_promoted_f32(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction dequantize accumulation promoted
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x?x!fp8moe.e4m3, #expert_columns> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @forward_e5m2_e4m3_fast_bf16(
      %a: tensor<?x?x!fp8moe.e5m2, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e5m2, #rows>, tensor<?x?x?x!fp8moe.e4m3, #expert_columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_e4m3_e5m2_promoted_f32(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e5m2, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation promoted
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x?x!fp8moe.e5m2, #expert_columns> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @forward_fast_bf16_accumulate(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"},
      %c: tensor<?x?xbf16> {fp8moe.name = "c"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      accumulate(%c : tensor<?x?xbf16>)
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x?x!fp8moe.e4m3, #expert_columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_fast_f32_accumulate(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"},
      %c: tensor<?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      accumulate(%c : tensor<?x?xf32>)
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x?x!fp8moe.e4m3, #expert_columns> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @forward_of_bf16(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @gradient_fast_bf16(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_promoted_f32(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation promoted
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

func.func @gradient_e5m2_e4m3_fast_bf16(
      %a: tensor<?x?x!fp8moe.e5m2, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e5m2, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_padded_fast_bf16(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3, #padded_rows>, tensor<?x?x!fp8moe.e4m3, #padded_columns> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_padded_promoted_f32_accumulate(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"},
      %c: tensor<?x?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction dequantize accumulation promoted
      accumulate(%c : tensor<?x?x?xf32>)
      : tensor<?x?x!fp8moe.e4m3, #padded_rows>, tensor<?x?x!fp8moe.e4m3, #padded_columns> -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

func.func @gradient_e4m3_e5m2_padded_fast_f32(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e5m2, #padded_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3, #padded_rows>, tensor<?x?x!fp8moe.e5m2, #padded_columns> -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

func.func @gradient_of_bf16_f32(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      : tensor<?x?xbf16, #rows>, tensor<?x?xbf16, #columns> -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

func.func @forward_fast_bf16_scales_of_a(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa : tensor<?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x?x!fp8moe.e4m3, #expert_columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @gradient_padded_fast_bf16_scales_of_a(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa : tensor<?x?xf32>) direction quantize accumulation fast
      : tensor<?x?x!fp8moe.e4m3, #padded_rows>, tensor<?x?x!fp8moe.e4m3, #padded_columns> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}
