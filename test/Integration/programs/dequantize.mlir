// Dequantization. Numerics tests run these programs. Dimensions are dynamic where layouts allow it,
// so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>
#aligned = #fp8moe.strided<[0, 1], align = 16>
#aligned_columns = #fp8moe.strided<[1, 0], align = 16>
#expert_column_major = #fp8moe.strided<[0, 2, 1]>

func.func @e4m3_bf16_axis1(
      %x: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "x"},
      %s: tensor<?xf32> {fp8moe.name = "s"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.dequantize %x by %s along 1 direction quantize
      : tensor<?x?x!fp8moe.e4m3>, tensor<?xf32> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

func.func @e5m2_f32_axis0_inverse(
      %x: tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "x"},
      %s: tensor<?xf32> {fp8moe.name = "s"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.dequantize %x by %s along 0 direction dequantize
      : tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?xf32> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @e4m3_f32_3d_axis1(
      %x: tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "x"},
      %s: tensor<?x?xf32> {fp8moe.name = "s"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.dequantize %x by %s along 1 direction quantize
      : tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?xf32> -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

func.func @e4m3_bf16_jagged_axis0(
      %x: tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "x"},
      %s: tensor<?x?xf32> {fp8moe.name = "s"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.dequantize %x by %s along 0 groups(%offsets : tensor<?xi32>) direction quantize
      : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

// The input is row-major and the output column-major. 16-byte accesses are possible where a group
// begins at a multiple of 16 rows.
func.func @e4m3_bf16_jagged_axis0_from_rows(
      %x: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "x"},
      %s: tensor<?x?xf32> {fp8moe.name = "s"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xbf16, #column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.dequantize %x by %s along 0 groups(%offsets : tensor<?xi32>) direction dequantize
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf32> -> tensor<?x?xbf16, #column_major>
  return %y : tensor<?x?xbf16, #column_major>
}

func.func @e5m2_f32_jagged_axis1(
      %x: tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "x"},
      %s: tensor<?x?xf32> {fp8moe.name = "s"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.dequantize %x by %s along 1 groups(%offsets : tensor<?xi32>) direction quantize
      : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf32> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

func.func @e4m3_bf16_weights(
      %x: tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "x"},
      %s: tensor<?x?xf32> {fp8moe.name = "s"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %y = fp8moe.dequantize %x by %s along 1 direction quantize
      : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?xf32> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

func.func @e4m3_bf16_axis1_static_2048_aligned(
      %x: tensor<?x2048x!fp8moe.e4m3, #fp8moe.strided<[0, 1], align = 16>> {fp8moe.name = "x"},
      %s: tensor<?xf32> {fp8moe.name = "s"})
      -> (tensor<?x2048xbf16, #fp8moe.strided<[0, 1], align = 16>> {fp8moe.name = "y"}) {
  %y = fp8moe.dequantize %x by %s along 1 direction quantize
      : tensor<?x2048x!fp8moe.e4m3, #fp8moe.strided<[0, 1], align = 16>>, tensor<?xf32>
      -> tensor<?x2048xbf16, #fp8moe.strided<[0, 1], align = 16>>
  return %y : tensor<?x2048xbf16, #fp8moe.strided<[0, 1], align = 16>>
}

func.func @e4m3_bf16_jagged_axis0_from_aligned_columns(
      %x: tensor<?x200x!fp8moe.e4m3, #aligned_columns> {fp8moe.name = "x"},
      %s: tensor<?x200xf32> {fp8moe.name = "s"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x200xbf16, #aligned> {fp8moe.name = "y"}) {
  %y = fp8moe.dequantize %x by %s along 0 groups(%offsets : tensor<?xi32>) direction quantize
      : tensor<?x200x!fp8moe.e4m3, #aligned_columns>, tensor<?x200xf32> -> tensor<?x200xbf16, #aligned>
  return %y : tensor<?x200xbf16, #aligned>
}

func.func @e5m2_f32_axis1_aligned(
      %x: tensor<?x272x!fp8moe.e5m2, #aligned> {fp8moe.name = "x"},
      %s: tensor<?xf32> {fp8moe.name = "s"})
      -> (tensor<?x272xf32, #aligned> {fp8moe.name = "y"}) {
  %y = fp8moe.dequantize %x by %s along 1 direction dequantize
      : tensor<?x272x!fp8moe.e5m2, #aligned>, tensor<?xf32> -> tensor<?x272xf32, #aligned>
  return %y : tensor<?x272xf32, #aligned>
}
