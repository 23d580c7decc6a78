// Quantizations along both axes, which may share one read of the input. Numerics tests run these
// programs. Dimensions are dynamic where layouts allow it, so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>

func.func @bf16_e4m3_pow2_both(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x?xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf32>, tensor<?xf32>
}

func.func @f32_e5m2_none_both(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q0"},
          tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q1"},
          tensor<?x?xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding none
      : tensor<?x?xf32>
      -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x?x!fp8moe.e5m2>, tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf32>, tensor<?xf32>
}

func.func @bf16_e4m3_pow2_rowwise_and_colwise(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q0"},
          tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q1"},
          tensor<?xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.dynamic_quantize %x along [1, 0] rounding pow2
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x?x!fp8moe.e4m3>, tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?xf32>, tensor<?xf32>
}
