// Dense matmuls with the layouts of GPU kernels: K-major operands, or MN-major ones in bf16, with
// any pitch. Some matmuls are FP8 by a precision decision. Numerics tests run these programs.
// Dimensions and pitches are dynamic, so that one artifact serves every case.

#rows = #fp8moe.strided<[0, 1], strides = [?, 1], align = 16>
#columns = #fp8moe.strided<[1, 0], strides = [1, ?], align = 16>
#column_major = #fp8moe.strided<[1, 0]>

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

func.func @promoted_f32(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<?xf32>)
      direction dequantize accumulation promoted
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @e5m2_e4m3_bf16_accumulate(
      %a: tensor<?x?x!fp8moe.e5m2, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?xf32> {fp8moe.name = "sb"},
      %c: tensor<?x?xbf16> {fp8moe.name = "c"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<?xf32>)
      direction quantize accumulate(%c : tensor<?x?xbf16>)
      : tensor<?x?x!fp8moe.e5m2, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

// A static K that is too long for fast accumulation (kFastSumElements).
func.func @fast_bf16_long(
      %a: tensor<64x65536x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<65536x64x!fp8moe.e4m3, #column_major> {fp8moe.name = "b"},
      %sa: tensor<64xf32> {fp8moe.name = "sa"},
      %sb: tensor<64xf32> {fp8moe.name = "sb"})
      -> (tensor<64x64xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<64xf32>, tensor<64xf32>)
      direction quantize
      : tensor<64x65536x!fp8moe.e4m3>, tensor<65536x64x!fp8moe.e4m3, #column_major> -> tensor<64x64xbf16>
  return %y : tensor<64x64xbf16>
}

func.func @of_bf16(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #columns> {fp8moe.name = "b"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b
      : tensor<?x?xbf16, #rows>, tensor<?x?xbf16, #columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @of_bf16_f32_accumulate(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #columns> {fp8moe.name = "b"},
      %c: tensor<?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b accumulate(%c : tensor<?x?xf32>)
      : tensor<?x?xbf16, #rows>, tensor<?x?xbf16, #columns> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @fast_bf16_cooperative(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<?xf32>)
      direction quantize
      tiles [#fp8moe.wgmma<rows = 256, columns = 128, stages = 4, schedule = cooperative>]
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

// A linear layer and its gradients, all decided to be FP8.
func.func @layer_fp8(
      %x: tensor<?x208xbf16> {fp8moe.name = "x"}, %w: tensor<304x208xbf16> {fp8moe.name = "w"},
      %g: tensor<?x304xbf16> {fp8moe.name = "g"})
      -> (tensor<?x304xbf16> {fp8moe.name = "y"}, tensor<?x208xbf16> {fp8moe.name = "dx"},
          tensor<304x208xbf16> {fp8moe.name = "dw"}) {
  %wt = fp8moe.transpose %w [1, 0] : tensor<304x208xbf16> -> tensor<208x304xbf16, #column_major>
  %y = fp8moe.linear %x, %wt precision <fp8, "w", forward>
      : tensor<?x208xbf16>, tensor<208x304xbf16, #column_major> -> tensor<?x304xbf16>
  %dx = fp8moe.linear %g, %w precision <fp8, "w", dgrad>
      : tensor<?x304xbf16>, tensor<304x208xbf16> -> tensor<?x208xbf16>
  %gt = fp8moe.transpose %g [1, 0] : tensor<?x304xbf16> -> tensor<304x?xbf16, #column_major>
  %dw = fp8moe.linear %gt, %x precision <fp8, "w", wgrad>
      : tensor<304x?xbf16, #column_major>, tensor<?x208xbf16> -> tensor<304x208xbf16>
  return %y, %dx, %dw : tensor<?x304xbf16>, tensor<?x208xbf16>, tensor<304x208xbf16>
}

// A linear layer and its gradients, all decided to be bf16.
func.func @layer_bf16(
      %x: tensor<?x208xbf16> {fp8moe.name = "x"}, %w: tensor<304x208xbf16> {fp8moe.name = "w"},
      %g: tensor<?x304xbf16> {fp8moe.name = "g"})
      -> (tensor<?x304xbf16> {fp8moe.name = "y"}, tensor<?x208xbf16> {fp8moe.name = "dx"},
          tensor<304x208xbf16> {fp8moe.name = "dw"}) {
  %wt = fp8moe.transpose %w [1, 0] : tensor<304x208xbf16> -> tensor<208x304xbf16, #column_major>
  %y = fp8moe.linear %x, %wt precision <bf16, "w", forward>
      : tensor<?x208xbf16>, tensor<208x304xbf16, #column_major> -> tensor<?x304xbf16>
  %dx = fp8moe.linear %g, %w precision <bf16, "w", dgrad>
      : tensor<?x304xbf16>, tensor<304x208xbf16> -> tensor<?x208xbf16>
  %gt = fp8moe.transpose %g [1, 0] : tensor<?x304xbf16> -> tensor<304x?xbf16, #column_major>
  %dw = fp8moe.linear %gt, %x precision <bf16, "w", wgrad>
      : tensor<304x?xbf16, #column_major>, tensor<?x208xbf16> -> tensor<304x208xbf16>
  return %y, %dx, %dw : tensor<?x304xbf16>, tensor<?x208xbf16>, tensor<304x208xbf16>
}

func.func @of_bf16_b_mn(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b
      : tensor<?x?xbf16, #rows>, tensor<?x?xbf16, #rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @of_bf16_b_mn_f32_accumulate(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %c: tensor<?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b accumulate(%c : tensor<?x?xf32>)
      : tensor<?x?xbf16, #rows>, tensor<?x?xbf16, #rows> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// wgrad reads both bf16 activations MN-major.
func.func @of_bf16_ab_mn(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

// Split K, with fewer, as many and more parts than stages.

func.func @fast_bf16_8_splits(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<?xf32>)
      direction quantize
      tiles [#fp8moe.wgmma<rows = 64, columns = 128, stages = 4, schedule = ping_pong, splits = 8>]
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @promoted_f32_3_splits(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"},
      %sb: tensor<?xf32> {fp8moe.name = "sb"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<?xf32>)
      direction dequantize accumulation promoted
      tiles [#fp8moe.wgmma<rows = 128, columns = 64, stages = 4, schedule = cooperative, splits = 3>]
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @of_bf16_ab_mn_4_splits(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b
      tiles [#fp8moe.wgmma<rows = 64, columns = 64, stages = 8, schedule = ping_pong, splits = 4>]
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @of_bf16_ab_mn_f32_accumulate_32_splits(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %c: tensor<?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b accumulate(%c : tensor<?x?xf32>)
      tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 4, schedule = cooperative, splits = 32>]
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// Few tiles and a dynamic number of tokens: the cost model splits K by itself.
func.func @of_bf16_ab_mn_chosen(
      %a: tensor<256x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x200xbf16, #rows> {fp8moe.name = "b"})
      -> (tensor<256x200xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b
      : tensor<256x?xbf16, #columns>, tensor<?x200xbf16, #rows> -> tensor<256x200xbf16>
  return %y : tensor<256x200xbf16>
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

func.func @fast_bf16_scales_of_a_8_splits(
      %a: tensor<?x?x!fp8moe.e4m3, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e4m3, #columns> {fp8moe.name = "b"},
      %sa: tensor<?xf32> {fp8moe.name = "sa"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa : tensor<?xf32>)
      direction quantize
      tiles [#fp8moe.wgmma<rows = 64, columns = 128, stages = 4, schedule = ping_pong, splits = 8>]
      : tensor<?x?x!fp8moe.e4m3, #rows>, tensor<?x?x!fp8moe.e4m3, #columns> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}
