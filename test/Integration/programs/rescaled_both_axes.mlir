// Quantizations along both axes whose columns are rescaled from the FP8 rows, or from the input
// where a result is subnormal. Numerics tests run these programs. The widths give rows equally many
// threads on all targets. Each target adds its own fallback.

#column_major = #fp8moe.strided<[1, 0]>
#padded_column_major = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 32>>
#padded_to_128 = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
#across = #fp8moe.strided<[0, 2, 1]>

func.func @bf16_e4m3_528(
      %x: tensor<?x528xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x528x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x528x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x528xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8> for mean_length up_to 1000000]
      : tensor<?x528xbf16>
      -> tensor<?x528x!fp8moe.e4m3, #column_major>, tensor<?x528x!fp8moe.e4m3>, tensor<?x528xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x528x!fp8moe.e4m3, #column_major>, tensor<?x528x!fp8moe.e4m3>, tensor<?x528xf32>, tensor<?xf32>
}

func.func @bf16_e5m2_padded_576(
      %x: tensor<?x576xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x576x!fp8moe.e5m2, #padded_column_major> {fp8moe.name = "q0"},
          tensor<?x576x!fp8moe.e5m2> {fp8moe.name = "q1"},
          tensor<?x576xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8> for mean_length up_to 1000000]
      : tensor<?x576xbf16>
      -> tensor<?x576x!fp8moe.e5m2, #padded_column_major>, tensor<?x576x!fp8moe.e5m2>, tensor<?x576xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x576x!fp8moe.e5m2, #padded_column_major>, tensor<?x576x!fp8moe.e5m2>, tensor<?x576xf32>, tensor<?xf32>
}

func.func @f32_e4m3_1024(
      %x: tensor<?x1024xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x1024x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x1024x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x1024xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8> for mean_length up_to 1000000]
      : tensor<?x1024xf32>
      -> tensor<?x1024x!fp8moe.e4m3, #column_major>, tensor<?x1024x!fp8moe.e4m3>, tensor<?x1024xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x1024x!fp8moe.e4m3, #column_major>, tensor<?x1024x!fp8moe.e4m3>, tensor<?x1024xf32>, tensor<?xf32>
}

func.func @f32_e5m2_784(
      %x: tensor<?x784xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x784x!fp8moe.e5m2, #column_major> {fp8moe.name = "q0"},
          tensor<?x784x!fp8moe.e5m2> {fp8moe.name = "q1"},
          tensor<?x784xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8> for mean_length up_to 1000000]
      : tensor<?x784xf32>
      -> tensor<?x784x!fp8moe.e5m2, #column_major>, tensor<?x784x!fp8moe.e5m2>, tensor<?x784xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x784x!fp8moe.e5m2, #column_major>, tensor<?x784x!fp8moe.e5m2>, tensor<?x784xf32>, tensor<?xf32>
}

func.func @bf16_e4m3_long_12272(
      %x: tensor<?x12272xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x12272x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x12272x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x12272xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 384, chunks = 2, blocks = 1> for mean_length up_to 1000000]
      : tensor<?x12272xbf16>
      -> tensor<?x12272x!fp8moe.e4m3, #column_major>, tensor<?x12272x!fp8moe.e4m3>, tensor<?x12272xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x12272x!fp8moe.e4m3, #column_major>, tensor<?x12272x!fp8moe.e4m3>, tensor<?x12272xf32>, tensor<?xf32>
}

func.func @experts_bf16_e4m3_624(
      %x: tensor<?x?x624xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x624x!fp8moe.e4m3, #across> {fp8moe.name = "q0"},
          tensor<?x?x624x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x624xf32> {fp8moe.name = "s0"},
          tensor<?x?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.dynamic_quantize %x along [1, 2] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8> for mean_length up_to 1000000]
      : tensor<?x?x624xbf16>
      -> tensor<?x?x624x!fp8moe.e4m3, #across>, tensor<?x?x624x!fp8moe.e4m3>, tensor<?x624xf32>, tensor<?x?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x?x624x!fp8moe.e4m3, #across>, tensor<?x?x624x!fp8moe.e4m3>, tensor<?x624xf32>, tensor<?x?xf32>
}

func.func @experts_f32_e5m2_544(
      %x: tensor<?x?x544xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x544x!fp8moe.e5m2, #across> {fp8moe.name = "q0"},
          tensor<?x?x544x!fp8moe.e5m2> {fp8moe.name = "q1"},
          tensor<?x544xf32> {fp8moe.name = "s0"},
          tensor<?x?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.dynamic_quantize %x along [1, 2] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8> for mean_length up_to 1000000]
      : tensor<?x?x544xf32>
      -> tensor<?x?x544x!fp8moe.e5m2, #across>, tensor<?x?x544x!fp8moe.e5m2>, tensor<?x544xf32>, tensor<?x?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x?x544x!fp8moe.e5m2, #across>, tensor<?x?x544x!fp8moe.e5m2>, tensor<?x544xf32>, tensor<?x?xf32>
}

func.func @bf16_e4m3_one_panel_and_more_1648(
      %x: tensor<?x1648xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x1648x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x1648x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x1648xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 128, chunks = 1, blocks = 8> for mean_length up_to 1000000]
      : tensor<?x1648xbf16>
      -> tensor<?x1648x!fp8moe.e4m3, #column_major>, tensor<?x1648x!fp8moe.e4m3>, tensor<?x1648xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x1648x!fp8moe.e4m3, #column_major>, tensor<?x1648x!fp8moe.e4m3>, tensor<?x1648xf32>, tensor<?xf32>
}

func.func @bf16_e4m3_padded_128_992(
      %x: tensor<?x992xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x992x!fp8moe.e4m3, #padded_to_128> {fp8moe.name = "q0"},
          tensor<?x992x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x992xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8> for mean_length up_to 1000000]
      : tensor<?x992xbf16>
      -> tensor<?x992x!fp8moe.e4m3, #padded_to_128>, tensor<?x992x!fp8moe.e4m3>, tensor<?x992xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x992x!fp8moe.e4m3, #padded_to_128>, tensor<?x992x!fp8moe.e4m3>, tensor<?x992xf32>, tensor<?xf32>
}
