// Quantization of activations and of 3D weights along one axis. Numerics tests run these programs
// on every target. Dimensions are dynamic where layouts allow it, so that one artifact serves every
// case.

#column_major = #fp8moe.strided<[1, 0]>
#expert_column_major = #fp8moe.strided<[0, 2, 1]>
#any_strides = #fp8moe.strided<[0, 1], strides = [?, ?]>
#aligned_row_major = #fp8moe.strided<[0, 1], align = 16>

func.func @bf16_e4m3_pow2_rowwise(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
}

func.func @f32_e4m3_none_rowwise(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
}

func.func @bf16_e5m2_pow2_rowwise(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e5m2>, tensor<?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?xf32>
}

func.func @bf16_e4m3_none_rowwise_strided(
      %x: tensor<?x?xbf16, #any_strides> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
      : tensor<?x?xbf16, #any_strides>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
}

func.func @bf16_e4m3_pow2_rowwise_of_col(
      %x: tensor<?x?xbf16, #column_major> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x?xbf16, #column_major>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
}

func.func @bf16_e4m3_pow2_colwise(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?xf32>
}

func.func @f32_e5m2_pow2_colwise_to_row(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e5m2>, tensor<?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?xf32>
}

func.func @bf16_e4m3_pow2_rowwise_static_2048(
      %x: tensor<?x2048xbf16, #aligned_row_major> {fp8moe.name = "x"})
      -> (tensor<?x2048x!fp8moe.e4m3, #aligned_row_major> {fp8moe.name = "q"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x2048xbf16, #aligned_row_major>
      -> tensor<?x2048x!fp8moe.e4m3, #aligned_row_major>, tensor<?xf32>
  return %q, %s : tensor<?x2048x!fp8moe.e4m3, #aligned_row_major>, tensor<?xf32>
}

func.func @bf16_e4m3_pow2_rowwise_static_301(
      %x: tensor<?x301xbf16> {fp8moe.name = "x"})
      -> (tensor<?x301x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x301xbf16>
      -> tensor<?x301x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x301x!fp8moe.e4m3>, tensor<?xf32>
}

func.func @bf16_e4m3_pow2_weights_forward(
      %x: tensor<?x?x?xbf16, #expert_column_major> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x?x?xbf16, #expert_column_major>
      -> tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?xf32>
}

func.func @bf16_e4m3_pow2_weights_dgrad(
      %x: tensor<?x?x?xbf16, #expert_column_major> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [2] rounding pow2
      : tensor<?x?x?xbf16, #expert_column_major>
      -> tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?xf32>
}

func.func @f32_e4m3_none_weights_forward(
      %x: tensor<?x?x?xf32, #expert_column_major> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
      : tensor<?x?x?xf32, #expert_column_major>
      -> tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?xf32>
}

func.func @f32_e5m2_pow2_weights_dgrad(
      %x: tensor<?x?x?xf32, #expert_column_major> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [2] rounding pow2
      : tensor<?x?x?xf32, #expert_column_major>
      -> tensor<?x?x?x!fp8moe.e5m2>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x?x!fp8moe.e5m2>, tensor<?x?xf32>
}
