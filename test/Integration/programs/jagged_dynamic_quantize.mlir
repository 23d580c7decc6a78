// Jagged quantization: one scale per group and column. Numerics tests run these programs on every
// target. Dimensions are dynamic where layouts allow it, so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>
#any_strides = #fp8moe.strided<[0, 1], strides = [?, ?]>
#padded_row_major = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 128>>
#padded_column_major = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>
#padded_columns = #fp8moe.strided<[0, 1], groups<dim = 1, pad = 32>>
#aligned_row_major = #fp8moe.strided<[0, 1], align = 16>

func.func @bf16_e4m3_pow2_row_to_col(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

func.func @bf16_e4m3_none_row_to_col(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding none
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

func.func @f32_e4m3_pow2_row_to_col(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

func.func @f32_e4m3_none_row_to_row(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding none
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf32>
}

func.func @bf16_e4m3_pow2_col_to_col(
      %x: tensor<?x?xbf16, #column_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16, #column_major>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

func.func @bf16_e5m2_pow2_row_to_row(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf32>
}

func.func @f32_e5m2_none_col_to_row(
      %x: tensor<?x?xf32, #column_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding none
      : tensor<?x?xf32, #column_major>
      -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf32>
}

func.func @bf16_e4m3_pow2_strided_to_col(
      %x: tensor<?x?xbf16, #any_strides> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16, #any_strides>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

func.func @bf16_e4m3_pow2_row_to_padded_col(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #padded_column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #padded_column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #padded_column_major>, tensor<?x?xf32>
}

func.func @f32_e4m3_pow2_col_to_padded_row(
      %x: tensor<?x?xf32, #column_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #padded_row_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xf32, #column_major>
      -> tensor<?x?x!fp8moe.e4m3, #padded_row_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #padded_row_major>, tensor<?x?xf32>
}

func.func @bf16_e4m3_pow2_axis1_row_to_row(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [1] rounding pow2
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf32>
}

func.func @f32_e4m3_none_axis1_row_to_padded_row(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #padded_columns> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [1] rounding none
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3, #padded_columns>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #padded_columns>, tensor<?x?xf32>
}

func.func @bf16_e4m3_pow2_static_2880(
      %x: tensor<?x2880xbf16, #aligned_row_major> {fp8moe.name = "x"},
      %offsets: tensor<64xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2880x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<64x2880xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<64xi32>) along [0] rounding pow2
      : tensor<?x2880xbf16, #aligned_row_major>
      -> tensor<?x2880x!fp8moe.e4m3, #column_major>, tensor<64x2880xf32>
  return %q, %s : tensor<?x2880x!fp8moe.e4m3, #column_major>, tensor<64x2880xf32>
}
