// Dense matmuls, some of them FP8 by a precision decision. Numerics tests run these programs. All
// dimensions are dynamic, so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>

func.func @e4m3_bf16(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"}, %sb: tensor<?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<?xf32>)
      direction quantize
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?x!fp8moe.e4m3, #column_major> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @e4m3_f32_inverse(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"}, %sb: tensor<?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<?xf32>)
      direction dequantize accumulation promoted
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?x!fp8moe.e4m3> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @e5m2_e4m3_accumulate(
      %a: tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"}, %sb: tensor<?xf32> {fp8moe.name = "sb"},
      %c: tensor<?x?xbf16> {fp8moe.name = "c"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<?xf32>)
      direction quantize accumulate(%c : tensor<?x?xbf16>)
      : tensor<?x?x!fp8moe.e5m2>, tensor<?x?x!fp8moe.e4m3, #column_major> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @bf16_bf16(
      %a: tensor<?x?xbf16> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #column_major> {fp8moe.name = "b"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b
      : tensor<?x?xbf16>, tensor<?x?xbf16, #column_major> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @bf16_f32_accumulate(
      %a: tensor<?x?xbf16> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #column_major> {fp8moe.name = "b"},
      %c: tensor<?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b accumulate(%c : tensor<?x?xf32>)
      : tensor<?x?xbf16>, tensor<?x?xbf16, #column_major> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// y = a b^T for a linear layer's bf16 operands, [M, K] and [N, K].
func.func @decided_forward(
      %a: tensor<?x?xbf16> {fp8moe.name = "a"}, %b: tensor<?x?xbf16> {fp8moe.name = "b"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %t = fp8moe.transpose %b [1, 0] : tensor<?x?xbf16> -> tensor<?x?xbf16, #column_major>
  %y = fp8moe.linear %a, %t precision <fp8, "wq", forward>
      : tensor<?x?xbf16>, tensor<?x?xbf16, #column_major> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

// y = a^T b, the gradient of the weights from dy [M, N] and x [M, K].
func.func @decided_wgrad(
      %a: tensor<?x?xbf16> {fp8moe.name = "a"}, %b: tensor<?x?xbf16> {fp8moe.name = "b"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %t = fp8moe.transpose %a [1, 0] : tensor<?x?xbf16> -> tensor<?x?xbf16, #column_major>
  %y = fp8moe.linear %t, %b precision <fp8, "wq", wgrad>
      : tensor<?x?xbf16, #column_major>, tensor<?x?xbf16> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @e4m3_bf16_scales_of_a(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa : tensor<?xf32>)
      direction quantize
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?x!fp8moe.e4m3, #column_major> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}
