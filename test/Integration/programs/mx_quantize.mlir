// MXFP8 quantization: one scale byte per 32 elements.
// Numerics tests run these programs. Dimensions are dynamic where layouts allow it, so that one
// artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>
#aligned = #fp8moe.strided<[0, 1], align = 16>
#aligned_columns = #fp8moe.strided<[1, 0], align = 16>
#expert_column_major = #fp8moe.strided<[0, 2, 1]>
#blocked = #fp8moe.scale_blocked<128x4>
#blocked_rows = #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>
#blocked_columns = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>

func.func @bf16_e4m3_rceil_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_floor_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode floor
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_rceil_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e5m2_floor_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode floor
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_weights(
      %x: tensor<?x?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "q"},
          tensor<?x?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x?x?xbf16>
      -> tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?x?xf8E8M0FNU>
}

func.func @f32_e4m3_rceil_axis1_blocked(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked>
}

func.func @bf16_e4m3_floor_axis0_blocked(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode floor
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked>
}

func.func @bf16_e4m3_rceil_weights_blocked(
      %x: tensor<?x?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "q"},
          tensor<?x?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x?x?xbf16>
      -> tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?x?xf8E8M0FNU, #blocked>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?x?xf8E8M0FNU, #blocked>
}

func.func @bf16_e4m3_rceil_axis1_jagged(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked_rows> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked_rows>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked_rows>
}

func.func @f32_e4m3_floor_axis0_jagged(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked_columns> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode floor groups(%offsets : tensor<?xi32>)
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
}

// Blocks along or across the contiguous dimension of the input and of the output.

func.func @bf16_e4m3_rceil_axis1_to_columns(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_floor_axis1_from_columns(
      %x: tensor<?x?xf32, #column_major> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode floor
      : tensor<?x?xf32, #column_major>
      -> tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_floor_axis0_from_columns(
      %x: tensor<?x?xbf16, #column_major> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode floor
      : tensor<?x?xbf16, #column_major>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_axis0_to_rows(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_rceil_axis0_to_rows(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU, #blocked>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU, #blocked>
}

func.func @f32_e4m3_rceil_axis2_3d(
      %x: tensor<?x?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [2] mode rceil
      : tensor<?x?x?xf32>
      -> tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_axis0_3d(
      %x: tensor<?x?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x?x?xbf16>
      -> tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?x?xf8E8M0FNU, #blocked>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?x?xf8E8M0FNU, #blocked>
}

func.func @bf16_e4m3_rceil_axis0_jagged_from_columns(
      %x: tensor<?x?xbf16, #column_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked_columns> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16, #column_major>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
}

func.func @f32_e4m3_rceil_axis0_jagged_to_rows(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked_columns> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked_columns>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked_columns>
}

func.func @bf16_e5m2_floor_axis1_jagged_from_columns(
      %x: tensor<?x?xbf16, #column_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked_rows> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode floor groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16, #column_major>
      -> tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_rows>
  return %q, %s : tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_rows>
}

// Rows are aligned, so 16 bytes are accessed at once.

func.func @bf16_e4m3_rceil_axis1_aligned(
      %x: tensor<?x320xbf16, #aligned> {fp8moe.name = "x"})
      -> (tensor<?x320x!fp8moe.e4m3, #aligned> {fp8moe.name = "q"},
          tensor<?x10xf8E8M0FNU, #blocked> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x320xbf16, #aligned>
      -> tensor<?x320x!fp8moe.e4m3, #aligned>, tensor<?x10xf8E8M0FNU, #blocked>
  return %q, %s : tensor<?x320x!fp8moe.e4m3, #aligned>, tensor<?x10xf8E8M0FNU, #blocked>
}

func.func @f32_e4m3_rceil_axis1_aligned_to_columns(
      %x: tensor<?x320xf32, #aligned> {fp8moe.name = "x"})
      -> (tensor<?x320x!fp8moe.e4m3, #aligned_columns> {fp8moe.name = "q"},
          tensor<?x10xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x320xf32, #aligned>
      -> tensor<?x320x!fp8moe.e4m3, #aligned_columns>, tensor<?x10xf8E8M0FNU>
  return %q, %s : tensor<?x320x!fp8moe.e4m3, #aligned_columns>, tensor<?x10xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_axis0_aligned(
      %x: tensor<?x320xbf16, #aligned> {fp8moe.name = "x"})
      -> (tensor<?x320x!fp8moe.e4m3, #aligned_columns> {fp8moe.name = "q"},
          tensor<320x?xf8E8M0FNU, #blocked> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x320xbf16, #aligned>
      -> tensor<?x320x!fp8moe.e4m3, #aligned_columns>, tensor<320x?xf8E8M0FNU, #blocked>
  return %q, %s : tensor<?x320x!fp8moe.e4m3, #aligned_columns>, tensor<320x?xf8E8M0FNU, #blocked>
}

func.func @f32_e4m3_rceil_axis0_aligned_to_rows(
      %x: tensor<?x320xf32, #aligned> {fp8moe.name = "x"})
      -> (tensor<?x320x!fp8moe.e4m3, #aligned> {fp8moe.name = "q"},
          tensor<320x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x320xf32, #aligned>
      -> tensor<?x320x!fp8moe.e4m3, #aligned>, tensor<320x?xf8E8M0FNU>
  return %q, %s : tensor<?x320x!fp8moe.e4m3, #aligned>, tensor<320x?xf8E8M0FNU>
}
