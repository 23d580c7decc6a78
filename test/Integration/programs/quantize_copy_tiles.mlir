// Quantized lines and their copy with every kind of tile: blocks of more threads, and clusters that divide lines.
//
// A program of the numerics tests, for sm_90a. The function's name ends with the elements of a line.

#columns = #fp8moe.strided<[1, 0]>
#padded_32 = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 32>>
#padded_128 = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
#kn = #fp8moe.strided<[0, 2, 1]>

func.func @tokens_e4m3_pow2_2048(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2048x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?x2048x!fp8moe.e4m3, #padded_128> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %copy, %s = fp8moe.dynamic_quantize_copy %x along 1 rounding pow2 groups(%offsets : tensor<?xi32>)
      tiles [#fp8moe.quantize_copy<lines = 64, threads = 1024, cluster = 1>]
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?x2048x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
  return %q, %copy, %s : tensor<?x2048x!fp8moe.e4m3>, tensor<?x2048x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
}

func.func @tokens_e5m2_none_288(
      %x: tensor<?x288xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x288x!fp8moe.e5m2> {fp8moe.name = "q"}, tensor<?x288x!fp8moe.e5m2, #padded_32> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %copy, %s = fp8moe.dynamic_quantize_copy %x along 1 rounding none groups(%offsets : tensor<?xi32>)
      tiles [#fp8moe.quantize_copy<lines = 32, threads = 512, cluster = 2>]
      : tensor<?x288xbf16> -> tensor<?x288x!fp8moe.e5m2>, tensor<?x288x!fp8moe.e5m2, #padded_32>, tensor<?xf32>
  return %q, %copy, %s : tensor<?x288x!fp8moe.e5m2>, tensor<?x288x!fp8moe.e5m2, #padded_32>, tensor<?xf32>
}

func.func @tokens_e4m3_none_5152(
      %x: tensor<?x5152xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x5152x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?x5152x!fp8moe.e4m3, #padded_128> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %copy, %s = fp8moe.dynamic_quantize_copy %x along 1 rounding none groups(%offsets : tensor<?xi32>)
      tiles [#fp8moe.quantize_copy<lines = 64, threads = 512, cluster = 2>]
      : tensor<?x5152xbf16> -> tensor<?x5152x!fp8moe.e4m3>, tensor<?x5152x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
  return %q, %copy, %s : tensor<?x5152x!fp8moe.e4m3>, tensor<?x5152x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
}

func.func @tokens_e4m3_pow2_7168(
      %x: tensor<?x7168xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x7168x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?x7168x!fp8moe.e4m3, #padded_128> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %copy, %s = fp8moe.dynamic_quantize_copy %x along 1 rounding pow2 groups(%offsets : tensor<?xi32>)
      tiles [#fp8moe.quantize_copy<lines = 32, threads = 512, cluster = 2>]
      : tensor<?x7168xbf16> -> tensor<?x7168x!fp8moe.e4m3>, tensor<?x7168x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
  return %q, %copy, %s : tensor<?x7168x!fp8moe.e4m3>, tensor<?x7168x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
}

func.func @tokens_e5m2_pow2_7168(
      %x: tensor<?x7168xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x7168x!fp8moe.e5m2> {fp8moe.name = "q"}, tensor<?x7168x!fp8moe.e5m2, #padded_128> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %copy, %s = fp8moe.dynamic_quantize_copy %x along 1 rounding pow2 groups(%offsets : tensor<?xi32>)
      tiles [#fp8moe.quantize_copy<lines = 64, threads = 1024, cluster = 4>]
      : tensor<?x7168xbf16> -> tensor<?x7168x!fp8moe.e5m2>, tensor<?x7168x!fp8moe.e5m2, #padded_128>, tensor<?xf32>
  return %q, %copy, %s : tensor<?x7168x!fp8moe.e5m2>, tensor<?x7168x!fp8moe.e5m2, #padded_128>, tensor<?xf32>
}

func.func @matrix_e5m2_pow2_3584(%x: tensor<?x3584xbf16> {fp8moe.name = "x"})
      -> (tensor<?x3584x!fp8moe.e5m2> {fp8moe.name = "q"}, tensor<?x3584x!fp8moe.e5m2, #columns> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %copy, %s = fp8moe.dynamic_quantize_copy %x along 1 rounding pow2
      tiles [#fp8moe.quantize_copy<lines = 32, threads = 1024, cluster = 2>]
      : tensor<?x3584xbf16> -> tensor<?x3584x!fp8moe.e5m2>, tensor<?x3584x!fp8moe.e5m2, #columns>, tensor<?xf32>
  return %q, %copy, %s : tensor<?x3584x!fp8moe.e5m2>, tensor<?x3584x!fp8moe.e5m2, #columns>, tensor<?xf32>
}

func.func @experts_e4m3_none_1408(%x: tensor<?x1408x?xbf16, #kn> {fp8moe.name = "x"})
      -> (tensor<?x1408x?x!fp8moe.e4m3, #kn> {fp8moe.name = "q"}, tensor<?x1408x?x!fp8moe.e4m3> {fp8moe.name = "copy"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %copy, %s = fp8moe.dynamic_quantize_copy %x along 1 rounding none
      tiles [#fp8moe.quantize_copy<lines = 32, threads = 512, cluster = 4>]
      : tensor<?x1408x?xbf16, #kn> -> tensor<?x1408x?x!fp8moe.e4m3, #kn>, tensor<?x1408x?x!fp8moe.e4m3>, tensor<?x?xf32>
  return %q, %copy, %s : tensor<?x1408x?x!fp8moe.e4m3, #kn>, tensor<?x1408x?x!fp8moe.e4m3>, tensor<?x?xf32>
}
