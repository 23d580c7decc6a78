// Dense matmuls for AMD's matrix cores: K-major operands with any pitch. Numerics tests run these
// programs. Dimensions and pitches are dynamic, so that one artifact serves every case.

#rows = #fp8moe.strided<[0, 1], strides = [?, 1], align = 16>
#columns = #fp8moe.strided<[1, 0], strides = [1, ?], align = 16>

func.func @fast_bf16(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<?xf32>)
      direction quantize
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @e5m2_e4m3_f32_accumulate(
      %a: tensor<?x?x!fp8moe.e5m2, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?xf32> {fp8moe.name = "sb"},
      %c: tensor<?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<?xf32>)
      direction quantize accumulate(%c : tensor<?x?xf32>)
      tiles [#fp8moe.mfma<rows = 128, columns = 128>]
      : tensor<?x?x!fp8moe.e5m2, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @of_bf16(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #columns> {fp8moe.name = "b"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b
      tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x?xbf16, #rows>, tensor<?x?xbf16, #columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @fast_bf16_scales_of_a(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa : tensor<?xf32>)
      direction quantize
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}
