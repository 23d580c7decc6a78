// Functions of device_matmul_mn_major.mlir with CDNA tiles.

#rows = #fp8moe.strided<[0, 1], strides = [?, 1], align = 16>
#columns = #fp8moe.strided<[1, 0], strides = [1, ?], align = 16>
#expert_rows = #fp8moe.strided<[0, 1, 2], strides = [?, ?, 1], align = 16>

func.func @forward_mn_256(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_mn_128(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.mfma<rows = 128, columns = 128>]
      : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_mn_f32_accumulate_256(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %c: tensor<?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      accumulate(%c : tensor<?x?xf32>)
      tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_rows> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @gradient_mn_256(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_mn_128(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.mfma<rows = 128, columns = 128>]
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_mn_f32_accumulate_256(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %c: tensor<?x?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      accumulate(%c : tensor<?x?x?xf32>)
      tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

func.func @gradient_a_mn_128(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.mfma<rows = 128, columns = 128>]
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #columns> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_b_mn_128(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.mfma<rows = 128, columns = 128>]
      : tensor<?x?xbf16, #rows>, tensor<?x?xbf16, #rows> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}
