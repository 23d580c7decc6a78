// Scales, and casts to FP8 with given scales. Numerics tests run these programs. Dimensions are
// dynamic where layouts allow it, so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>
#aligned = #fp8moe.strided<[0, 1], align = 16>
#aligned_columns = #fp8moe.strided<[1, 0], align = 16>

func.func @scale_bf16_e4m3_pow2_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?xf32> {fp8moe.name = "s"}) {
  %s = fp8moe.scale %x along 1 rounding pow2 fp8 !fp8moe.e4m3
      : tensor<?x?xbf16> -> tensor<?xf32>
  return %s : tensor<?xf32>
}

func.func @scale_f32_e5m2_none_axis0(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?xf32> {fp8moe.name = "s"}) {
  %s = fp8moe.scale %x along 0 rounding none fp8 !fp8moe.e5m2
      : tensor<?x?xf32> -> tensor<?xf32>
  return %s : tensor<?xf32>
}

func.func @scale_bf16_e4m3_none_3d_axis1(
      %x: tensor<?x?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?xf32> {fp8moe.name = "s"}) {
  %s = fp8moe.scale %x along 1 rounding none fp8 !fp8moe.e4m3
      : tensor<?x?x?xbf16> -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}

func.func @jagged_scale_bf16_e4m3_pow2_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xf32> {fp8moe.name = "s"}) {
  %s = fp8moe.jagged_scale %x groups(%offsets : tensor<?xi32>) along 0 rounding pow2 fp8 !fp8moe.e4m3
      : tensor<?x?xbf16> -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}

func.func @jagged_scale_f32_e4m3_none_axis1(
      %x: tensor<?x?xf32, #column_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?xf32> {fp8moe.name = "s"}) {
  %s = fp8moe.jagged_scale %x groups(%offsets : tensor<?xi32>) along 1 rounding none fp8 !fp8moe.e4m3
      : tensor<?x?xf32, #column_major> -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}

func.func @quantize_bf16_e4m3_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %s: tensor<?xf32> {fp8moe.name = "s"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "y"}) {
  %y = fp8moe.quantize %x by %s along 1
      : tensor<?x?xbf16>, tensor<?xf32> -> tensor<?x?x!fp8moe.e4m3>
  return %y : tensor<?x?x!fp8moe.e4m3>
}

func.func @quantize_f32_e5m2_axis0(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %s: tensor<?xf32> {fp8moe.name = "s"})
      -> (tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.quantize %x by %s along 0
      : tensor<?x?xf32>, tensor<?xf32> -> tensor<?x?x!fp8moe.e5m2, #column_major>
  return %y : tensor<?x?x!fp8moe.e5m2, #column_major>
}

func.func @quantize_f32_e4m3_3d_axis2(
      %x: tensor<?x?x?xf32> {fp8moe.name = "x"},
      %s: tensor<?x?xf32> {fp8moe.name = "s"})
      -> (tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "y"}) {
  %y = fp8moe.quantize %x by %s along 2
      : tensor<?x?x?xf32>, tensor<?x?xf32> -> tensor<?x?x?x!fp8moe.e4m3>
  return %y : tensor<?x?x?x!fp8moe.e4m3>
}

func.func @quantize_bf16_e4m3_jagged_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %s: tensor<?x?xf32> {fp8moe.name = "s"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "y"}) {
  %y = fp8moe.quantize %x by %s along 0 groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>, tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3>
  return %y : tensor<?x?x!fp8moe.e4m3>
}

func.func @quantize_f32_e5m2_jagged_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %s: tensor<?x?xf32> {fp8moe.name = "s"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "y"}) {
  %y = fp8moe.quantize %x by %s along 1 groups(%offsets : tensor<?xi32>)
      : tensor<?x?xf32>, tensor<?x?xf32> -> tensor<?x?x!fp8moe.e5m2>
  return %y : tensor<?x?x!fp8moe.e5m2>
}

// The input is row-major and the output column-major.

func.func @quantize_bf16_e4m3_jagged_axis0_to_columns(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %s: tensor<?x?xf32> {fp8moe.name = "s"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.quantize %x by %s along 0 groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>, tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3, #column_major>
  return %y : tensor<?x?x!fp8moe.e4m3, #column_major>
}

func.func @quantize_f32_e5m2_jagged_axis0_from_columns(
      %x: tensor<?x?xf32, #column_major> {fp8moe.name = "x"},
      %s: tensor<?x?xf32> {fp8moe.name = "s"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "y"}) {
  %y = fp8moe.quantize %x by %s along 0 groups(%offsets : tensor<?xi32>)
      : tensor<?x?xf32, #column_major>, tensor<?x?xf32> -> tensor<?x?x!fp8moe.e5m2>
  return %y : tensor<?x?x!fp8moe.e5m2>
}

func.func @quantize_bf16_e5m2_axis1_to_columns(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %s: tensor<?xf32> {fp8moe.name = "s"})
      -> (tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.quantize %x by %s along 1
      : tensor<?x?xbf16>, tensor<?xf32> -> tensor<?x?x!fp8moe.e5m2, #column_major>
  return %y : tensor<?x?x!fp8moe.e5m2, #column_major>
}

func.func @quantize_bf16_e4m3_jagged_axis0_to_aligned_columns(
      %x: tensor<?x200xbf16, #aligned> {fp8moe.name = "x"},
      %s: tensor<?x200xf32> {fp8moe.name = "s"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x200x!fp8moe.e4m3, #aligned_columns> {fp8moe.name = "y"}) {
  %y = fp8moe.quantize %x by %s along 0 groups(%offsets : tensor<?xi32>)
      : tensor<?x200xbf16, #aligned>, tensor<?x200xf32> -> tensor<?x200x!fp8moe.e4m3, #aligned_columns>
  return %y : tensor<?x200x!fp8moe.e4m3, #aligned_columns>
}
