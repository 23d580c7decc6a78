// MXFP8 dequantization. Numerics tests run these programs. Dimensions are dynamic where layouts
// allow it, so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>
#aligned = #fp8moe.strided<[0, 1], align = 16>
#aligned_columns = #fp8moe.strided<[1, 0], align = 16>
#expert_column_major = #fp8moe.strided<[0, 2, 1]>
#blocked = #fp8moe.scale_blocked<128x4>
#blocked_rows = #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>
#blocked_columns = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>

func.func @e4m3_bf16_axis1(
      %q: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
      %s: tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 1
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @e5m2_f32_axis0(
      %q: tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
      %s: tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 0
      : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @e4m3_f32_axis0_from_columns(
      %q: tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
      %s: tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 0
      : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @e4m3_bf16_axis1_to_columns(
      %q: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
      %s: tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"})
      -> (tensor<?x?xbf16, #column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 1
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU> -> tensor<?x?xbf16, #column_major>
  return %y : tensor<?x?xbf16, #column_major>
}

func.func @e5m2_bf16_axis1_columns(
      %q: tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "q"},
      %s: tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"})
      -> (tensor<?x?xbf16, #column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 1
      : tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU> -> tensor<?x?xbf16, #column_major>
  return %y : tensor<?x?xbf16, #column_major>
}

func.func @e4m3_bf16_weights(
      %q: tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "q"},
      %s: tensor<?x?x?xf8E8M0FNU> {fp8moe.name = "s"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 1
      : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?x?xf8E8M0FNU> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @e4m3_f32_axis2_3d(
      %q: tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
      %s: tensor<?x?x?xf8E8M0FNU> {fp8moe.name = "s"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 2
      : tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?x?xf8E8M0FNU> -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

// The byte count of blocked scales does not determine their shape, so it is static here.

func.func @e4m3_bf16_axis1_tiles(
      %q: tensor<300x200x!fp8moe.e4m3> {fp8moe.name = "q"},
      %s: tensor<300x7xf8E8M0FNU, #blocked> {fp8moe.name = "s"})
      -> (tensor<300x200xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 1
      : tensor<300x200x!fp8moe.e4m3>, tensor<300x7xf8E8M0FNU, #blocked> -> tensor<300x200xbf16>
  return %y : tensor<300x200xbf16>
}

func.func @e4m3_f32_axis0_tiles(
      %q: tensor<300x200x!fp8moe.e4m3> {fp8moe.name = "q"},
      %s: tensor<200x10xf8E8M0FNU, #blocked> {fp8moe.name = "s"})
      -> (tensor<300x200xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 0
      : tensor<300x200x!fp8moe.e4m3>, tensor<200x10xf8E8M0FNU, #blocked> -> tensor<300x200xf32>
  return %y : tensor<300x200xf32>
}

func.func @e5m2_bf16_axis1_tiles_3d(
      %q: tensor<3x160x72x!fp8moe.e5m2, #expert_column_major> {fp8moe.name = "q"},
      %s: tensor<3x72x5xf8E8M0FNU, #blocked> {fp8moe.name = "s"})
      -> (tensor<3x160x72xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 1
      : tensor<3x160x72x!fp8moe.e5m2, #expert_column_major>, tensor<3x72x5xf8E8M0FNU, #blocked> -> tensor<3x160x72xbf16>
  return %y : tensor<3x160x72xbf16>
}

// A function quantizes and dequantizes: a caller could not lay out the scales of groups.

func.func @bf16_axis1_jagged(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked_rows>
  %y = fp8moe.mx_dequantize %q by %s along 1 groups(%offsets : tensor<?xi32>)
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked_rows> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @f32_axis0_jagged(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
  %y = fp8moe.mx_dequantize %q by %s along 0 groups(%offsets : tensor<?xi32>)
      : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @bf16_axis0_jagged_to_columns(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16, #column_major> {fp8moe.name = "y"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
  %y = fp8moe.mx_dequantize %q by %s along 0 groups(%offsets : tensor<?xi32>)
      : tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns> -> tensor<?x?xbf16, #column_major>
  return %y : tensor<?x?xbf16, #column_major>
}

// Rows are aligned, so 16 bytes are accessed at once.

func.func @e4m3_bf16_axis0_from_aligned_columns(
      %q: tensor<?x200x!fp8moe.e4m3, #aligned_columns> {fp8moe.name = "q"},
      %s: tensor<200x?xf8E8M0FNU> {fp8moe.name = "s"})
      -> (tensor<?x200xbf16, #aligned> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 0
      : tensor<?x200x!fp8moe.e4m3, #aligned_columns>, tensor<200x?xf8E8M0FNU> -> tensor<?x200xbf16, #aligned>
  return %y : tensor<?x200xbf16, #aligned>
}

func.func @e4m3_f32_axis0_from_aligned_columns(
      %q: tensor<?x200x!fp8moe.e4m3, #aligned_columns> {fp8moe.name = "q"},
      %s: tensor<200x?xf8E8M0FNU> {fp8moe.name = "s"})
      -> (tensor<?x200xf32, #aligned> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 0
      : tensor<?x200x!fp8moe.e4m3, #aligned_columns>, tensor<200x?xf8E8M0FNU> -> tensor<?x200xf32, #aligned>
  return %y : tensor<?x200xf32, #aligned>
}

func.func @e5m2_f32_axis1_aligned(
      %q: tensor<?x272x!fp8moe.e5m2, #aligned> {fp8moe.name = "q"},
      %s: tensor<?x9xf8E8M0FNU> {fp8moe.name = "s"})
      -> (tensor<?x272xf32, #aligned> {fp8moe.name = "y"}) {
  %y = fp8moe.mx_dequantize %q by %s along 1
      : tensor<?x272x!fp8moe.e5m2, #aligned>, tensor<?x9xf8E8M0FNU> -> tensor<?x272xf32, #aligned>
  return %y : tensor<?x272xf32, #aligned>
}
