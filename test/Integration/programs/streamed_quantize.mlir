// Quantizations for sm_90a's single-pass kernel: row-major, aligned inputs and column-major
// outputs. Other targets use their own kernels. test_single_pass_outer.py checks the results.

#row_major = #fp8moe.strided<[0, 1], align = 16>
#column_major = #fp8moe.strided<[1, 0]>
#aligned_column_major = #fp8moe.strided<[1, 0], align = 16>
#padded_128 = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
#padded_16 = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 16>>
#padded_200 = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 200>>
#experts = #fp8moe.strided<[0, 1, 2], align = 16>
#transposed_experts = #fp8moe.strided<[0, 2, 1]>

func.func @bf16_e4m3_pow2(
      %x: tensor<?x?xbf16, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16, #row_major>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

func.func @bf16_e4m3_pow2_aligned(
      %x: tensor<?x?xbf16, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #aligned_column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16, #row_major>
      -> tensor<?x?x!fp8moe.e4m3, #aligned_column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #aligned_column_major>, tensor<?x?xf32>
}

func.func @bf16_e5m2_none_aligned(
      %x: tensor<?x?xbf16, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2, #aligned_column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding none
      : tensor<?x?xbf16, #row_major>
      -> tensor<?x?x!fp8moe.e5m2, #aligned_column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e5m2, #aligned_column_major>, tensor<?x?xf32>
}

func.func @f32_e4m3_none(
      %x: tensor<?x?xf32, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding none
      : tensor<?x?xf32, #row_major>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

func.func @f32_e5m2_pow2_aligned(
      %x: tensor<?x?xf32, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e5m2, #aligned_column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xf32, #row_major>
      -> tensor<?x?x!fp8moe.e5m2, #aligned_column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e5m2, #aligned_column_major>, tensor<?x?xf32>
}

func.func @bf16_e4m3_pow2_padded_128(
      %x: tensor<?x?xbf16, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #padded_128> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16, #row_major>
      -> tensor<?x?x!fp8moe.e4m3, #padded_128>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #padded_128>, tensor<?x?xf32>
}

func.func @bf16_e4m3_none_padded_16(
      %x: tensor<?x?xbf16, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #padded_16> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding none
      : tensor<?x?xbf16, #row_major>
      -> tensor<?x?x!fp8moe.e4m3, #padded_16>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #padded_16>, tensor<?x?xf32>
}

func.func @f32_e4m3_pow2_padded_200(
      %x: tensor<?x?xf32, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #padded_200> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xf32, #row_major>
      -> tensor<?x?x!fp8moe.e4m3, #padded_200>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #padded_200>, tensor<?x?xf32>
}

func.func @bf16_e4m3_pow2_weights(
      %x: tensor<?x?x?xbf16, #experts> {fp8moe.name = "x"})
      -> (tensor<?x?x?x!fp8moe.e4m3, #transposed_experts> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x?x?xbf16, #experts>
      -> tensor<?x?x?x!fp8moe.e4m3, #transposed_experts>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3, #transposed_experts>, tensor<?x?xf32>
}
