// Copies from one layout to another. Numerics tests run these programs on every target. Dimensions
// are dynamic where layouts allow it, so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>
#expert_column_major = #fp8moe.strided<[0, 2, 1]>
#reversed = #fp8moe.strided<[2, 1, 0]>
#any_strides = #fp8moe.strided<[0, 1], strides = [?, ?]>
#padded_row_major = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 128>>
#padded_column_major = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>
#padded_columns = #fp8moe.strided<[0, 1], groups<dim = 1, pad = 32>>

func.func @bf16_row_to_col(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?xbf16, #column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<?x?xbf16>
      -> tensor<?x?xbf16, #column_major>
  return %y : tensor<?x?xbf16, #column_major>
}

func.func @f32_col_to_row(
      %x: tensor<?x?xf32, #column_major> {fp8moe.name = "x"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<?x?xf32, #column_major>
      -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @e4m3_row_to_col(
      %x: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<?x?x!fp8moe.e4m3>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>
  return %y : tensor<?x?x!fp8moe.e4m3, #column_major>
}

func.func @bf16_strided_to_row(
      %x: tensor<?x?xbf16, #any_strides> {fp8moe.name = "x"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<?x?xbf16, #any_strides>
      -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @e5m2_strided_to_col(
      %x: tensor<?x?x!fp8moe.e5m2, #any_strides> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<?x?x!fp8moe.e5m2, #any_strides>
      -> tensor<?x?x!fp8moe.e5m2, #column_major>
  return %y : tensor<?x?x!fp8moe.e5m2, #column_major>
}

func.func @bf16_3d_row_to_expert_col(
      %x: tensor<?x?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x?xbf16, #expert_column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<?x?x?xbf16>
      -> tensor<?x?x?xbf16, #expert_column_major>
  return %y : tensor<?x?x?xbf16, #expert_column_major>
}

func.func @e4m3_3d_expert_col_to_reversed(
      %x: tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3, #reversed> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>
      -> tensor<?x?x?x!fp8moe.e4m3, #reversed>
  return %y : tensor<?x?x?x!fp8moe.e4m3, #reversed>
}

func.func @bf16_row_to_padded_row(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16, #padded_row_major> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>
      -> tensor<?x?xbf16, #padded_row_major>
  return %y : tensor<?x?xbf16, #padded_row_major>
}

func.func @e4m3_row_to_padded_col(
      %x: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #padded_column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x groups(%offsets : tensor<?xi32>)
      : tensor<?x?x!fp8moe.e4m3>
      -> tensor<?x?x!fp8moe.e4m3, #padded_column_major>
  return %y : tensor<?x?x!fp8moe.e4m3, #padded_column_major>
}

func.func @f32_columns_to_padded_columns(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xf32, #padded_columns> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x groups(%offsets : tensor<?xi32>)
      : tensor<?x?xf32>
      -> tensor<?x?xf32, #padded_columns>
  return %y : tensor<?x?xf32, #padded_columns>
}

// The padded extent does not determine the number of rows, so the packed side is static.
func.func @bf16_padded_row_to_row_300(
      %x: tensor<?x?xbf16, #padded_row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<300x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16, #padded_row_major>
      -> tensor<300x?xbf16>
  return %y : tensor<300x?xbf16>
}

func.func @e5m2_padded_col_to_row_129(
      %x: tensor<?x?x!fp8moe.e5m2, #padded_column_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<129x?x!fp8moe.e5m2> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x groups(%offsets : tensor<?xi32>)
      : tensor<?x?x!fp8moe.e5m2, #padded_column_major>
      -> tensor<129x?x!fp8moe.e5m2>
  return %y : tensor<129x?x!fp8moe.e5m2>
}
