// Quantizations by whole columns: rows are contiguous on both sides. What is not aligned, too long
// or has too many groups is left to another schedule. Other targets ignore the tile.
//
// A program of the numerics tests (test_single_pass_inner.py).

#column_major = #fp8moe.strided<[1, 0]>
#aligned = #fp8moe.strided<[1, 0], align = 16>

func.func @bf16_e4m3_pow2(
      %x: tensor<?x?xbf16, #aligned> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #aligned> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      tiles [#fp8moe.single_pass_inner<groups = 64>]
      : tensor<?x?xbf16, #aligned>
      -> tensor<?x?x!fp8moe.e4m3, #aligned>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #aligned>, tensor<?x?xf32>
}

func.func @bf16_e5m2_none(
      %x: tensor<?x?xbf16, #aligned> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2, #aligned> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding none
      tiles [#fp8moe.single_pass_inner<groups = 64>]
      : tensor<?x?xbf16, #aligned>
      -> tensor<?x?x!fp8moe.e5m2, #aligned>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e5m2, #aligned>, tensor<?x?xf32>
}

func.func @f32_e4m3_none(
      %x: tensor<?x?xf32, #aligned> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #aligned> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding none
      tiles [#fp8moe.single_pass_inner<groups = 64>]
      : tensor<?x?xf32, #aligned>
      -> tensor<?x?x!fp8moe.e4m3, #aligned>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #aligned>, tensor<?x?xf32>
}

func.func @f32_e5m2_pow2(
      %x: tensor<?x?xf32, #aligned> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2, #aligned> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      tiles [#fp8moe.single_pass_inner<groups = 64>]
      : tensor<?x?xf32, #aligned>
      -> tensor<?x?x!fp8moe.e5m2, #aligned>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e5m2, #aligned>, tensor<?x?xf32>
}

func.func @bf16_e4m3_pow2_unaligned(
      %x: tensor<?x?xbf16, #column_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      tiles [#fp8moe.single_pass_inner<groups = 64>]
      : tensor<?x?xbf16, #column_major>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

func.func @bf16_e4m3_pow2_3_groups(
      %x: tensor<?x?xbf16, #aligned> {fp8moe.name = "x"},
      %offsets: tensor<3xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #aligned> {fp8moe.name = "q"},
          tensor<3x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<3xi32>) along [0] rounding pow2
      tiles [#fp8moe.single_pass_inner<groups = 3>]
      : tensor<?x?xbf16, #aligned>
      -> tensor<?x?x!fp8moe.e4m3, #aligned>, tensor<3x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #aligned>, tensor<3x?xf32>
}
