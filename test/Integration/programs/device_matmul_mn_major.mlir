// bf16 grouped matmuls with MN-major operands, which Hopper reads without a copy. Tiles are
// multiples of 64 columns. Numerics tests run these programs. Dimensions and pitches are dynamic,
// so that one artifact serves every case.

#rows = #fp8moe.strided<[0, 1], strides = [?, 1], align = 16>
#columns = #fp8moe.strided<[1, 0], strides = [1, ?], align = 16>
#expert_rows = #fp8moe.strided<[0, 1, 2], strides = [?, ?, 1], align = 16>

func.func @forward_mn(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_mn_f32_accumulate(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %c: tensor<?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      accumulate(%c : tensor<?x?xf32>)
      : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_rows> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @forward_mn_128x64(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.wgmma<rows = 128, columns = 64, stages = 8, schedule = ping_pong>]
      : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_mn_64x192(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.wgmma<rows = 64, columns = 192, stages = 5, schedule = ping_pong>]
      : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_mn_64x256(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.wgmma<rows = 64, columns = 256, stages = 4, schedule = ping_pong>]
      : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_mn_256x128_cooperative(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.wgmma<rows = 256, columns = 128, stages = 4, schedule = cooperative>]
      : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @forward_mn_128x256_cooperative(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?x?xbf16, #expert_rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.wgmma<rows = 128, columns = 256, stages = 4, schedule = cooperative>]
      : tensor<?x?xbf16, #rows>, tensor<?x?x?xbf16, #expert_rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @gradient_mn(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_mn_f32_accumulate(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %c: tensor<?x?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      accumulate(%c : tensor<?x?x?xf32>)
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

func.func @gradient_a_mn(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #columns> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_b_mn(
      %a: tensor<?x?xbf16, #rows> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      : tensor<?x?xbf16, #rows>, tensor<?x?xbf16, #rows> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_a_mn_256x128_cooperative(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #columns> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.wgmma<rows = 256, columns = 128, stages = 3, schedule = cooperative>]
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #columns> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_mn_128x64(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.wgmma<rows = 128, columns = 64, stages = 8, schedule = ping_pong>]
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_mn_64x192(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.wgmma<rows = 64, columns = 192, stages = 5, schedule = ping_pong>]
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_mn_256x128_cooperative(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.wgmma<rows = 256, columns = 128, stages = 3, schedule = cooperative>]
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @gradient_mn_128x192_cooperative(
      %a: tensor<?x?xbf16, #columns> {fp8moe.name = "a"},
      %b: tensor<?x?xbf16, #rows> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) accumulation fast
      tiles [#fp8moe.wgmma<rows = 128, columns = 192, stages = 4, schedule = cooperative>]
      : tensor<?x?xbf16, #columns>, tensor<?x?xbf16, #rows> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}
