// Experts quantized along both axes, whose rows in FP8 stay in shared memory until columns are made
// of them.
//
// A program of the numerics tests, for NVIDIA.

#across = #fp8moe.strided<[0, 2, 1]>

func.func @bf16_e4m3_16(
      %x: tensor<?x?x16xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x16x!fp8moe.e4m3, #across> {fp8moe.name = "q0"},
          tensor<?x?x16x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x16xf32> {fp8moe.name = "s0"},
          tensor<?x?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.dynamic_quantize %x along [1, 2] rounding pow2
      tiles [#fp8moe.held_both_axes<row_stages = 48, tiles = 4> for mean_length up_to 1000000]
      : tensor<?x?x16xbf16>
      -> tensor<?x?x16x!fp8moe.e4m3, #across>, tensor<?x?x16x!fp8moe.e4m3>, tensor<?x16xf32>, tensor<?x?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x?x16x!fp8moe.e4m3, #across>, tensor<?x?x16x!fp8moe.e4m3>, tensor<?x16xf32>, tensor<?x?xf32>
}

func.func @bf16_e4m3_528(
      %x: tensor<?x?x528xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x528x!fp8moe.e4m3, #across> {fp8moe.name = "q0"},
          tensor<?x?x528x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x528xf32> {fp8moe.name = "s0"},
          tensor<?x?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.dynamic_quantize %x along [1, 2] rounding pow2
      tiles [#fp8moe.held_both_axes<row_stages = 24, tiles = 4> for mean_length up_to 1000000]
      : tensor<?x?x528xbf16>
      -> tensor<?x?x528x!fp8moe.e4m3, #across>, tensor<?x?x528x!fp8moe.e4m3>, tensor<?x528xf32>, tensor<?x?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x?x528x!fp8moe.e4m3, #across>, tensor<?x?x528x!fp8moe.e4m3>, tensor<?x528xf32>, tensor<?x?xf32>
}

func.func @bf16_e5m2_1408(
      %x: tensor<?x?x1408xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x1408x!fp8moe.e5m2, #across> {fp8moe.name = "q0"},
          tensor<?x?x1408x!fp8moe.e5m2> {fp8moe.name = "q1"},
          tensor<?x1408xf32> {fp8moe.name = "s0"},
          tensor<?x?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.dynamic_quantize %x along [1, 2] rounding pow2
      tiles [#fp8moe.held_both_axes<row_stages = 12, tiles = 4> for mean_length up_to 1000000]
      : tensor<?x?x1408xbf16>
      -> tensor<?x?x1408x!fp8moe.e5m2, #across>, tensor<?x?x1408x!fp8moe.e5m2>, tensor<?x1408xf32>, tensor<?x?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x?x1408x!fp8moe.e5m2, #across>, tensor<?x?x1408x!fp8moe.e5m2>, tensor<?x1408xf32>, tensor<?x?xf32>
}

func.func @bf16_e4m3_2048(
      %x: tensor<?x?x2048xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x2048x!fp8moe.e4m3, #across> {fp8moe.name = "q0"},
          tensor<?x?x2048x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x2048xf32> {fp8moe.name = "s0"},
          tensor<?x?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.dynamic_quantize %x along [1, 2] rounding pow2
      tiles [#fp8moe.held_both_axes<row_stages = 12, tiles = 2> for mean_length up_to 1000000]
      : tensor<?x?x2048xbf16>
      -> tensor<?x?x2048x!fp8moe.e4m3, #across>, tensor<?x?x2048x!fp8moe.e4m3>, tensor<?x2048xf32>, tensor<?x?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x?x2048x!fp8moe.e4m3, #across>, tensor<?x?x2048x!fp8moe.e4m3>, tensor<?x2048xf32>, tensor<?x?xf32>
}

func.func @bf16_e4m3_2880(
      %x: tensor<?x?x2880xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x2880x!fp8moe.e4m3, #across> {fp8moe.name = "q0"},
          tensor<?x?x2880x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x2880xf32> {fp8moe.name = "s0"},
          tensor<?x?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.dynamic_quantize %x along [1, 2] rounding pow2
      tiles [#fp8moe.held_both_axes<row_stages = 4, tiles = 2> for mean_length up_to 1000000]
      : tensor<?x?x2880xbf16>
      -> tensor<?x?x2880x!fp8moe.e4m3, #across>, tensor<?x?x2880x!fp8moe.e4m3>, tensor<?x2880xf32>, tensor<?x?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x?x2880x!fp8moe.e4m3, #across>, tensor<?x?x2880x!fp8moe.e4m3>, tensor<?x2880xf32>, tensor<?x?xf32>
}

func.func @bf16_e4m3_2560(
      %x: tensor<?x?x2560xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x2560x!fp8moe.e4m3, #across> {fp8moe.name = "q0"},
          tensor<?x?x2560x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x2560xf32> {fp8moe.name = "s0"},
          tensor<?x?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.dynamic_quantize %x along [1, 2] rounding pow2
      tiles [#fp8moe.held_both_axes<row_stages = 10, tiles = 2> for mean_length up_to 1000000]
      : tensor<?x?x2560xbf16>
      -> tensor<?x?x2560x!fp8moe.e4m3, #across>, tensor<?x?x2560x!fp8moe.e4m3>, tensor<?x2560xf32>, tensor<?x?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x?x2560x!fp8moe.e4m3, #across>, tensor<?x?x2560x!fp8moe.e4m3>, tensor<?x2560xf32>, tensor<?x?xf32>
}
