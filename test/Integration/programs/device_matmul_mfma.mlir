// Functions of device_matmul.mlir with CDNA tiles that the cost model would choose for other sizes.

#rows = #fp8moe.strided<[0, 1], strides = [?, 1], align = 16>
#columns = #fp8moe.strided<[1, 0], strides = [1, ?], align = 16>
#expert_columns = #fp8moe.strided<[0, 2, 1], strides = [?, 1, ?], align = 16>
#padded_rows = #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>
#padded_columns = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>

func.func @forward_fast_bf16_small(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      tiles [#fp8moe.mfma<rows = 128, columns = 128>]
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x?x!fp8moe.e4m3, #expert_columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_fast_bf16_large(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x?x!fp8moe.e4m3, #expert_columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @gradient_fast_bf16_small(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      tiles [#fp8moe.mfma<rows = 128, columns = 128>]
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_padded_fast_bf16_small(
      %a: tensor<?x?x!fp8moe.e4m3, #padded_rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf32>, tensor<?x?xf32>) direction quantize accumulation fast
      tiles [#fp8moe.mfma<rows = 128, columns = 128>]
      : tensor<?x?x!fp8moe.e4m3, #padded_rows>, tensor<?x?x!fp8moe.e4m3, #padded_columns> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}
