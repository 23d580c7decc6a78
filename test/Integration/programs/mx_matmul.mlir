// Grouped MXFP8 matmuls. Numerics tests run these programs. Dimensions are dynamic where layouts
// allow it, so that one artifact serves every case.

#expert_column_major = #fp8moe.strided<[0, 2, 1]>
#blocked = #fp8moe.scale_blocked<128x4>
#blocked_rows = #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>

func.func @e4m3_2d3d_bf16(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf8E8M0FNU> {fp8moe.name = "sa"},
      %sb: tensor<?x?x?xf8E8M0FNU> {fp8moe.name = "sb"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf8E8M0FNU>, tensor<?x?x?xf8E8M0FNU>)
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>
      -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @e5m2_e4m3_2d3d_f32_accumulate(
      %a: tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "a"},
      %b: tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x?xf8E8M0FNU> {fp8moe.name = "sa"},
      %sb: tensor<?x?x?xf8E8M0FNU> {fp8moe.name = "sb"},
      %c: tensor<?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf8E8M0FNU>, tensor<?x?x?xf8E8M0FNU>)
      accumulate(%c : tensor<?x?xf32>)
      : tensor<?x?x!fp8moe.e5m2>, tensor<?x?x?x!fp8moe.e4m3> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// K is static and a few stages long.

func.func @short_2d3d_f32(
      %a: tensor<?x640x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x640x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "b"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %sa: tensor<?x20xf8E8M0FNU> {fp8moe.name = "sa"},
      %sb: tensor<?x?x20xf8E8M0FNU> {fp8moe.name = "sb"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x20xf8E8M0FNU>, tensor<?x?x20xf8E8M0FNU>)
      : tensor<?x640x!fp8moe.e4m3>, tensor<?x640x?x!fp8moe.e4m3, #expert_column_major>
      -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// The function quantizes first: a caller could not lay out blocked scales of groups.

func.func @quantized_2d3d_f32(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %w: tensor<?x?x?xbf16> {fp8moe.name = "w"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %a, %sa = fp8moe.mx_quantize %x along [1] mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked_rows>
  %b, %sb = fp8moe.mx_quantize %w along [1] mode rceil
      : tensor<?x?x?xbf16>
      -> tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?x?xf8E8M0FNU, #blocked>
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf8E8M0FNU, #blocked_rows>, tensor<?x?x?xf8E8M0FNU, #blocked>)
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>
      -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// The scales are blocked without groups, so a group may begin at any row of a tile.

func.func @quantized_tiles_2d3d_bf16(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %w: tensor<?x?x?xbf16> {fp8moe.name = "w"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %a, %sa = fp8moe.mx_quantize %x along [1] mode floor
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU, #blocked>
  %b, %sb = fp8moe.mx_quantize %w along [1] mode rceil
      : tensor<?x?x?xbf16>
      -> tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?x?xf8E8M0FNU, #blocked>
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf8E8M0FNU, #blocked>, tensor<?x?x?xf8E8M0FNU, #blocked>)
      : tensor<?x?x!fp8moe.e5m2>, tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>
      -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}
