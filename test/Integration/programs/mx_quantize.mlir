// MXFP8: one scale byte per 32 elements.
//
// A program of the numerics tests. All dimensions are dynamic where a layout allows
// it, so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>
#expert_column_major = #fp8moe.strided<[0, 2, 1]>
#blocked = #fp8moe.scale_blocked<128x4>
#blocked_rows = #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>
#blocked_columns = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>

func.func @bf16_e4m3_rceil_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along 1 mode rceil
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_floor_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along 1 mode floor
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_rceil_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along 1 mode rceil
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along 0 mode rceil
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e5m2_floor_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along 0 mode floor
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_weights(
      %x: tensor<?x?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "q"},
          tensor<?x?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along 1 mode rceil
      : tensor<?x?x?xbf16>
      -> tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?x?xf8E8M0FNU>
}

func.func @f32_e4m3_rceil_axis1_blocked(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along 1 mode rceil
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked>
}

func.func @bf16_e4m3_floor_axis0_blocked(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along 0 mode floor
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked>
}

func.func @bf16_e4m3_rceil_weights_blocked(
      %x: tensor<?x?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "q"},
          tensor<?x?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along 1 mode rceil
      : tensor<?x?x?xbf16>
      -> tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?x?xf8E8M0FNU, #blocked>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?x?xf8E8M0FNU, #blocked>
}

func.func @bf16_e4m3_rceil_axis1_jagged(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked_rows> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along 1 mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked_rows>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked_rows>
}

func.func @f32_e4m3_floor_axis0_jagged(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU, #blocked_columns> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along 0 mode floor groups(%offsets : tensor<?xi32>)
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
}

func.func @scales_to_blocked(
      %x: tensor<?x?xf8E8M0FNU> {fp8moe.name = "x"})
      -> (tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<?x?xf8E8M0FNU> -> tensor<?x?xf8E8M0FNU, #blocked>
  return %y : tensor<?x?xf8E8M0FNU, #blocked>
}

// The bytes of blocked scales do not tell their shape, so it is static here.
func.func @scales_300x44_from_blocked(
      %x: tensor<300x44xf8E8M0FNU, #blocked> {fp8moe.name = "x"})
      -> (tensor<300x44xf8E8M0FNU> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<300x44xf8E8M0FNU, #blocked> -> tensor<300x44xf8E8M0FNU>
  return %y : tensor<300x44xf8E8M0FNU>
}
