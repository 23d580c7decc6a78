// Quantizations whose strips are held in registers and divided among blocks.
//
// A program of the numerics tests. Runs where the tiles exist: on gfx942 and gfx950.

#column_major = #fp8moe.strided<[1, 0]>
#padded_column_major = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>
#reduced_rows = #fp8moe.strided<[0, 2, 1]>

func.func @bf16_e4m3_pow2(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      tiles [#fp8moe.resident_strips<columns = 64, tiles = 8, blocks = 2>, #fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

func.func @f32_e5m2_none(
      %x: tensor<?x?xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding none
      tiles [#fp8moe.resident_strips<columns = 64, tiles = 4, blocks = 2>, #fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf32>
}

func.func @bf16_e4m3_none_padded(
      %x: tensor<?x72xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x72x!fp8moe.e4m3, #padded_column_major> {fp8moe.name = "q"},
          tensor<?x72xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding none
      tiles [#fp8moe.resident_strips<columns = 64, tiles = 8, blocks = 2>, #fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x72xbf16> -> tensor<?x72x!fp8moe.e4m3, #padded_column_major>, tensor<?x72xf32>
  return %q, %s : tensor<?x72x!fp8moe.e4m3, #padded_column_major>, tensor<?x72xf32>
}

func.func @bf16_e4m3_pow2_one_group(
      %x: tensor<?x65xbf16> {fp8moe.name = "x"},
      %offsets: tensor<1xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x65x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<1x65xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<1xi32>) along [0] rounding pow2
      tiles [#fp8moe.resident_strips<columns = 64, tiles = 8, blocks = 2>, #fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x65xbf16> -> tensor<?x65x!fp8moe.e4m3, #column_major>, tensor<1x65xf32>
  return %q, %s : tensor<?x65x!fp8moe.e4m3, #column_major>, tensor<1x65xf32>
}

func.func @bf16_e4m3_pow2_weights(
      %x: tensor<?x?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3, #reduced_rows> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      tiles [#fp8moe.resident_strips<columns = 64, tiles = 8, blocks = 2>, #fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x?x?xbf16> -> tensor<?x?x?x!fp8moe.e4m3, #reduced_rows>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3, #reduced_rows>, tensor<?x?xf32>
}

// The part of one block is known: no block waits for another.
func.func @bf16_e4m3_pow2_known_weights(
      %x: tensor<3x300x72xbf16> {fp8moe.name = "x"})
      -> (tensor<3x300x72x!fp8moe.e4m3, #reduced_rows> {fp8moe.name = "q"},
          tensor<3x72xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      tiles [#fp8moe.resident_strips<columns = 64, tiles = 8, blocks = 2>, #fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<3x300x72xbf16> -> tensor<3x300x72x!fp8moe.e4m3, #reduced_rows>, tensor<3x72xf32>
  return %q, %s : tensor<3x300x72x!fp8moe.e4m3, #reduced_rows>, tensor<3x72xf32>
}

// As the compiler chooses.
func.func @bf16_e4m3_pow2_chosen(
      %x: tensor<?x65xbf16> {fp8moe.name = "x"},
      %offsets: tensor<1xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x65x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<1x65xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<1xi32>) along [0] rounding pow2
      : tensor<?x65xbf16> -> tensor<?x65x!fp8moe.e4m3, #column_major>, tensor<1x65xf32>
  return %q, %s : tensor<?x65x!fp8moe.e4m3, #column_major>, tensor<1x65xf32>
}
