// Quantizations along both axes whose strips are held in registers, with a share of the rows for
// each block that holds one.
//
// A program of the numerics tests. Runs where the tiles exist: on gfx942 and gfx950.

#column_major = #fp8moe.strided<[1, 0]>
#padded_column_major = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>

func.func @bf16_e4m3_pow2_72(
      %x: tensor<?x72xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x72x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x72x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x72xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.resident_both_axes<columns = 64, tiles = 8, blocks = 2, row_threads = 8, row_chunks = 1>,
             #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                          #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 256>]>]>]
      : tensor<?x72xbf16>
      -> tensor<?x72x!fp8moe.e4m3, #column_major>, tensor<?x72x!fp8moe.e4m3>, tensor<?x72xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x72x!fp8moe.e4m3, #column_major>, tensor<?x72x!fp8moe.e4m3>, tensor<?x72xf32>, tensor<?xf32>
}

func.func @bf16_e4m3_none_1030(
      %x: tensor<?x1030xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x1030x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x1030x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x1030xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding none
      tiles [#fp8moe.resident_both_axes<columns = 64, tiles = 8, blocks = 2, row_threads = 16, row_chunks = 5>,
             #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                          #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 256>]>]>]
      : tensor<?x1030xbf16>
      -> tensor<?x1030x!fp8moe.e4m3, #column_major>, tensor<?x1030x!fp8moe.e4m3>, tensor<?x1030xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x1030x!fp8moe.e4m3, #column_major>, tensor<?x1030x!fp8moe.e4m3>, tensor<?x1030xf32>, tensor<?xf32>
}

func.func @f32_e5m2_none_130(
      %x: tensor<?x130xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x130x!fp8moe.e5m2, #column_major> {fp8moe.name = "q0"},
          tensor<?x130x!fp8moe.e5m2> {fp8moe.name = "q1"},
          tensor<?x130xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding none
      tiles [#fp8moe.resident_both_axes<columns = 64, tiles = 4, blocks = 2, row_threads = 8, row_chunks = 2>,
             #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                          #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 256>]>]>]
      : tensor<?x130xf32>
      -> tensor<?x130x!fp8moe.e5m2, #column_major>, tensor<?x130x!fp8moe.e5m2>, tensor<?x130xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x130x!fp8moe.e5m2, #column_major>, tensor<?x130x!fp8moe.e5m2>, tensor<?x130xf32>, tensor<?xf32>
}

func.func @f32_e4m3_pow2_6150(
      %x: tensor<?x6150xf32> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x6150x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x6150x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x6150xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.resident_both_axes<columns = 64, tiles = 4, blocks = 2, row_threads = 64, row_chunks = 4>,
             #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                          #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 256>]>]>]
      : tensor<?x6150xf32>
      -> tensor<?x6150x!fp8moe.e4m3, #column_major>, tensor<?x6150x!fp8moe.e4m3>, tensor<?x6150xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x6150x!fp8moe.e4m3, #column_major>, tensor<?x6150x!fp8moe.e4m3>, tensor<?x6150xf32>, tensor<?xf32>
}

func.func @bf16_e5m2_none_padded_200(
      %x: tensor<?x200xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x200x!fp8moe.e5m2, #padded_column_major> {fp8moe.name = "q0"},
          tensor<?x200x!fp8moe.e5m2> {fp8moe.name = "q1"},
          tensor<?x200xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0, 1] rounding none
      tiles [#fp8moe.resident_both_axes<columns = 64, tiles = 8, blocks = 2, row_threads = 8, row_chunks = 2>,
             #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                          #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 256>]>]>]
      : tensor<?x200xbf16>
      -> tensor<?x200x!fp8moe.e5m2, #padded_column_major>, tensor<?x200x!fp8moe.e5m2>, tensor<?x200xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x200x!fp8moe.e5m2, #padded_column_major>, tensor<?x200x!fp8moe.e5m2>, tensor<?x200xf32>, tensor<?xf32>
}

func.func @bf16_e4m3_pow2_one_group_65(
      %x: tensor<?x65xbf16> {fp8moe.name = "x"},
      %offsets: tensor<1xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x65x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"},
          tensor<?x65x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<1x65xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<1xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.resident_both_axes<columns = 64, tiles = 8, blocks = 2, row_threads = 8, row_chunks = 1>,
             #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                          #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 256>]>]>]
      : tensor<?x65xbf16>
      -> tensor<?x65x!fp8moe.e4m3, #column_major>, tensor<?x65x!fp8moe.e4m3>, tensor<1x65xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x65x!fp8moe.e4m3, #column_major>, tensor<?x65x!fp8moe.e4m3>, tensor<1x65xf32>, tensor<?xf32>
}
