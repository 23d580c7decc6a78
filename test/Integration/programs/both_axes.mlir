// Quantizations along both axes. sm_90a runs them in one launch, if the input is row-major, aligned
// and of static width, and the outputs are column-major and row-major. Without the alignment, the
// host decides at run time between one launch and one per axis. Other targets use their own
// kernels. test_both_axes.py checks the results.

#row_major = #fp8moe.strided<[0, 1], align = 16>
#aligned_rows = #fp8moe.strided<[0, 1], align = 8>
#aligned_words = #fp8moe.strided<[0, 1], align = 4>
#column_major = #fp8moe.strided<[1, 0]>
#aligned_columns = #fp8moe.strided<[1, 0], align = 16>
#padded_128 = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>

func.func @bf16_e4m3_pow2_64(
      %x: tensor<?x64xbf16, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x64x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x64x!fp8moe.e4m3, #aligned_rows> {fp8moe.name = "q1"},
          tensor<?x64xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      : tensor<?x64xbf16, #row_major>
      -> tensor<?x64x!fp8moe.e4m3, #column_major>, tensor<?x64x!fp8moe.e4m3, #aligned_rows>, tensor<?x64xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x64x!fp8moe.e4m3, #column_major>, tensor<?x64x!fp8moe.e4m3, #aligned_rows>, tensor<?x64xf32>, tensor<?xf32>
}

func.func @bf16_e5m2_none_200(
      %x: tensor<?x200xbf16, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x200x!fp8moe.e5m2, #aligned_columns> {fp8moe.name = "q0"},
          tensor<?x200x!fp8moe.e5m2, #aligned_rows> {fp8moe.name = "q1"},
          tensor<?x200xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding none
      : tensor<?x200xbf16, #row_major>
      -> tensor<?x200x!fp8moe.e5m2, #aligned_columns>, tensor<?x200x!fp8moe.e5m2, #aligned_rows>, tensor<?x200xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x200x!fp8moe.e5m2, #aligned_columns>, tensor<?x200x!fp8moe.e5m2, #aligned_rows>, tensor<?x200xf32>, tensor<?xf32>
}

func.func @bf16_e4m3_none_1408(
      %x: tensor<?x1408xbf16, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x1408x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x1408x!fp8moe.e4m3, #aligned_rows> {fp8moe.name = "q1"},
          tensor<?x1408xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding none
      : tensor<?x1408xbf16, #row_major>
      -> tensor<?x1408x!fp8moe.e4m3, #column_major>, tensor<?x1408x!fp8moe.e4m3, #aligned_rows>, tensor<?x1408xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x1408x!fp8moe.e4m3, #column_major>, tensor<?x1408x!fp8moe.e4m3, #aligned_rows>, tensor<?x1408xf32>, tensor<?xf32>
}

func.func @bf16_e4m3_pow2_padded_520(
      %x: tensor<?x520xbf16, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x520x!fp8moe.e4m3, #padded_128> {fp8moe.name = "q0"},
          tensor<?x520x!fp8moe.e4m3, #aligned_rows> {fp8moe.name = "q1"},
          tensor<?x520xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      : tensor<?x520xbf16, #row_major>
      -> tensor<?x520x!fp8moe.e4m3, #padded_128>, tensor<?x520x!fp8moe.e4m3, #aligned_rows>, tensor<?x520xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x520x!fp8moe.e4m3, #padded_128>, tensor<?x520x!fp8moe.e4m3, #aligned_rows>, tensor<?x520xf32>, tensor<?xf32>
}

func.func @f32_e4m3_pow2_132(
      %x: tensor<?x132xf32, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x132x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x132x!fp8moe.e4m3, #aligned_words> {fp8moe.name = "q1"},
          tensor<?x132xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      : tensor<?x132xf32, #row_major>
      -> tensor<?x132x!fp8moe.e4m3, #column_major>, tensor<?x132x!fp8moe.e4m3, #aligned_words>, tensor<?x132xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x132x!fp8moe.e4m3, #column_major>, tensor<?x132x!fp8moe.e4m3, #aligned_words>, tensor<?x132xf32>, tensor<?xf32>
}

func.func @f32_e5m2_none_72(
      %x: tensor<?x72xf32, #row_major> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x72x!fp8moe.e5m2, #aligned_columns> {fp8moe.name = "q0"},
          tensor<?x72x!fp8moe.e5m2, #aligned_rows> {fp8moe.name = "q1"},
          tensor<?x72xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding none
      : tensor<?x72xf32, #row_major>
      -> tensor<?x72x!fp8moe.e5m2, #aligned_columns>, tensor<?x72x!fp8moe.e5m2, #aligned_rows>, tensor<?x72xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x72x!fp8moe.e5m2, #aligned_columns>, tensor<?x72x!fp8moe.e5m2, #aligned_rows>, tensor<?x72xf32>, tensor<?xf32>
}

func.func @bf16_e4m3_pow2_unaligned_256(
      %x: tensor<?x256xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x256x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x256x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x256xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      : tensor<?x256xbf16>
      -> tensor<?x256x!fp8moe.e4m3, #column_major>, tensor<?x256x!fp8moe.e4m3>, tensor<?x256xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x256x!fp8moe.e4m3, #column_major>, tensor<?x256x!fp8moe.e4m3>, tensor<?x256xf32>, tensor<?xf32>
}

func.func @bf16_e4m3_pow2_unaligned_12288(
      %x: tensor<?x12288xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x12288x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x12288x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x12288xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      : tensor<?x12288xbf16>
      -> tensor<?x12288x!fp8moe.e4m3, #column_major>, tensor<?x12288x!fp8moe.e4m3>, tensor<?x12288xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x12288x!fp8moe.e4m3, #column_major>, tensor<?x12288x!fp8moe.e4m3>, tensor<?x12288xf32>, tensor<?xf32>
}
