// MXFP8 quantization along both axes, and in square blocks. Numerics tests run these programs.
// Dimensions are dynamic where layouts allow it, so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>
#aligned = #fp8moe.strided<[0, 1], align = 16>
#aligned_columns = #fp8moe.strided<[1, 0], align = 16>
#expert_column_major = #fp8moe.strided<[0, 2, 1]>
#blocked = #fp8moe.scale_blocked<128x4>
#blocked_rows = #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>
#blocked_columns = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>

func.func @bf16_e4m3_rceil_both(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s0"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode rceil
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU>,
         tensor<?x?xf8E8M0FNU>
  return %q0, %q1, %s0, %s1
      : tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU>,
         tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_even_both(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q1"},
          tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "q0"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s1"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s0"}) {
  %q1, %q0, %s1, %s0 = fp8moe.mx_quantize %x along [1, 0] mode even
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e5m2>,
         tensor<?x?x!fp8moe.e5m2, #column_major>,
         tensor<?x?xf8E8M0FNU>,
         tensor<?x?xf8E8M0FNU>
  return %q1, %q0, %s1, %s0
      : tensor<?x?x!fp8moe.e5m2>,
         tensor<?x?x!fp8moe.e5m2, #column_major>,
         tensor<?x?xf8E8M0FNU>,
         tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_ceil_both_other_layouts(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q0"},
          tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q1"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s0"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode ceil
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?xf8E8M0FNU, #blocked>,
         tensor<?x?xf8E8M0FNU, #blocked>
  return %q0, %q1, %s0, %s1
      : tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?xf8E8M0FNU, #blocked>,
         tensor<?x?xf8E8M0FNU, #blocked>
}

func.func @bf16_e4m3_floor_both_from_columns(
      %x: tensor<?x?xbf16, #column_major> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s0"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode floor
      : tensor<?x?xbf16, #column_major>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU, #blocked>,
         tensor<?x?xf8E8M0FNU>
  return %q0, %q1, %s0, %s1
      : tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU, #blocked>,
         tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_both_aligned(
      %x: tensor<?x320xbf16, #aligned> {fp8moe.name = "x"})
      -> (tensor<?x320x!fp8moe.e4m3, #aligned_columns> {fp8moe.name = "q0"},
          tensor<?x320x!fp8moe.e4m3, #aligned> {fp8moe.name = "q1"},
          tensor<320x?xf8E8M0FNU, #blocked> {fp8moe.name = "s0"},
          tensor<?x10xf8E8M0FNU, #blocked> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode rceil
      : tensor<?x320xbf16, #aligned>
      -> tensor<?x320x!fp8moe.e4m3, #aligned_columns>,
         tensor<?x320x!fp8moe.e4m3, #aligned>,
         tensor<320x?xf8E8M0FNU, #blocked>,
         tensor<?x10xf8E8M0FNU, #blocked>
  return %q0, %q1, %s0, %s1
      : tensor<?x320x!fp8moe.e4m3, #aligned_columns>,
         tensor<?x320x!fp8moe.e4m3, #aligned>,
         tensor<320x?xf8E8M0FNU, #blocked>,
         tensor<?x10xf8E8M0FNU, #blocked>
}

func.func @f32_e4m3_rceil_both_aligned(
      %x: tensor<?x320xf32, #aligned> {fp8moe.name = "x"})
      -> (tensor<?x320x!fp8moe.e4m3, #aligned_columns> {fp8moe.name = "q0"},
          tensor<?x320x!fp8moe.e4m3, #aligned> {fp8moe.name = "q1"},
          tensor<320x?xf8E8M0FNU> {fp8moe.name = "s0"},
          tensor<?x10xf8E8M0FNU> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode rceil
      : tensor<?x320xf32, #aligned>
      -> tensor<?x320x!fp8moe.e4m3, #aligned_columns>,
         tensor<?x320x!fp8moe.e4m3, #aligned>,
         tensor<320x?xf8E8M0FNU>,
         tensor<?x10xf8E8M0FNU>
  return %q0, %q1, %s0, %s1
      : tensor<?x320x!fp8moe.e4m3, #aligned_columns>,
         tensor<?x320x!fp8moe.e4m3, #aligned>,
         tensor<320x?xf8E8M0FNU>,
         tensor<?x10xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_both_jagged(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x?xf8E8M0FNU, #blocked_columns> {fp8moe.name = "s0"},
          tensor<?x?xf8E8M0FNU, #blocked_rows> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU, #blocked_columns>,
         tensor<?x?xf8E8M0FNU, #blocked_rows>
  return %q0, %q1, %s0, %s1
      : tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU, #blocked_columns>,
         tensor<?x?xf8E8M0FNU, #blocked_rows>
}

func.func @f32_e4m3_even_both_jagged(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x?xf8E8M0FNU, #blocked_rows> {fp8moe.name = "s1"},
          tensor<?x?xf8E8M0FNU, #blocked_columns> {fp8moe.name = "s0"}) {
  %q1, %q0, %s1, %s0 = fp8moe.mx_quantize %x along [1, 0] mode even groups(%offsets : tensor<?xi32>)
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?xf8E8M0FNU, #blocked_rows>,
         tensor<?x?xf8E8M0FNU, #blocked_columns>
  return %q1, %q0, %s1, %s0
      : tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?xf8E8M0FNU, #blocked_rows>,
         tensor<?x?xf8E8M0FNU, #blocked_columns>
}

func.func @bf16_e5m2_ceil_both_jagged_to_rows(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q0"},
          tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q1"},
          tensor<?x?xf8E8M0FNU, #blocked_columns> {fp8moe.name = "s0"},
          tensor<?x?xf8E8M0FNU, #blocked_rows> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode ceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e5m2>,
         tensor<?x?x!fp8moe.e5m2>,
         tensor<?x?xf8E8M0FNU, #blocked_columns>,
         tensor<?x?xf8E8M0FNU, #blocked_rows>
  return %q0, %q1, %s0, %s1
      : tensor<?x?x!fp8moe.e5m2>,
         tensor<?x?x!fp8moe.e5m2>,
         tensor<?x?xf8E8M0FNU, #blocked_columns>,
         tensor<?x?xf8E8M0FNU, #blocked_rows>
}

func.func @bf16_e4m3_ceil_both_jagged_to_columns(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q1"},
          tensor<?x?xf8E8M0FNU, #blocked_columns> {fp8moe.name = "s0"},
          tensor<?x?xf8E8M0FNU, #blocked_rows> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode ceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?xf8E8M0FNU, #blocked_columns>,
         tensor<?x?xf8E8M0FNU, #blocked_rows>
  return %q0, %q1, %s0, %s1
      : tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?xf8E8M0FNU, #blocked_columns>,
         tensor<?x?xf8E8M0FNU, #blocked_rows>
}

func.func @bf16_e4m3_rceil_both_3d(
      %x: tensor<?x?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "q1"},
          tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "q2"},
          tensor<?x?x?xf8E8M0FNU> {fp8moe.name = "s1"},
          tensor<?x?x?xf8E8M0FNU> {fp8moe.name = "s2"}) {
  %q1, %q2, %s1, %s2 = fp8moe.mx_quantize %x along [1, 2] mode rceil
      : tensor<?x?x?xbf16>
      -> tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>,
         tensor<?x?x?x!fp8moe.e4m3>,
         tensor<?x?x?xf8E8M0FNU>,
         tensor<?x?x?xf8E8M0FNU>
  return %q1, %q2, %s1, %s2
      : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>,
         tensor<?x?x?x!fp8moe.e4m3>,
         tensor<?x?x?xf8E8M0FNU>,
         tensor<?x?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_square_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s1"}) {
  %q1, %s1 = fp8moe.mx_quantize %x along [1] mode rceil square
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU>
  return %q1, %s1
      : tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_ceil_square_axis1_to_columns(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q1"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s1"}) {
  %q1, %s1 = fp8moe.mx_quantize %x along [1] mode ceil square
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?xf8E8M0FNU, #blocked>
  return %q1, %s1
      : tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?xf8E8M0FNU, #blocked>
}

func.func @bf16_e5m2_even_square_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "q0"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s0"}) {
  %q0, %s0 = fp8moe.mx_quantize %x along [0] mode even square
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e5m2, #column_major>,
         tensor<?x?xf8E8M0FNU>
  return %q0, %s0
      : tensor<?x?x!fp8moe.e5m2, #column_major>,
         tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_floor_square_axis0_to_rows(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q0"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s0"}) {
  %q0, %s0 = fp8moe.mx_quantize %x along [0] mode floor square
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU, #blocked>
  return %q0, %s0
      : tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU, #blocked>
}

func.func @bf16_e4m3_rceil_square_both(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s0"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode rceil square
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU>,
         tensor<?x?xf8E8M0FNU>
  return %q0, %q1, %s0, %s1
      : tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU>,
         tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_rceil_square_both(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s0"},
          tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.mx_quantize %x along [0, 1] mode rceil square
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU, #blocked>,
         tensor<?x?xf8E8M0FNU, #blocked>
  return %q0, %q1, %s0, %s1
      : tensor<?x?x!fp8moe.e4m3, #column_major>,
         tensor<?x?x!fp8moe.e4m3>,
         tensor<?x?xf8E8M0FNU, #blocked>,
         tensor<?x?xf8E8M0FNU, #blocked>
}

func.func @bf16_e4m3_rceil_square_weights(
      %x: tensor<?x?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "q1"},
          tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "q2"},
          tensor<?x?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s1"},
          tensor<?x?x?xf8E8M0FNU, #blocked> {fp8moe.name = "s2"}) {
  %q1, %q2, %s1, %s2 = fp8moe.mx_quantize %x along [1, 2] mode rceil square
      : tensor<?x?x?xbf16>
      -> tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>,
         tensor<?x?x?x!fp8moe.e4m3>,
         tensor<?x?x?xf8E8M0FNU, #blocked>,
         tensor<?x?x?xf8E8M0FNU, #blocked>
  return %q1, %q2, %s1, %s2
      : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>,
         tensor<?x?x?x!fp8moe.e4m3>,
         tensor<?x?x?xf8E8M0FNU, #blocked>,
         tensor<?x?x?xf8E8M0FNU, #blocked>
}
