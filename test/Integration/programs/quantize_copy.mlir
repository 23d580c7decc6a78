// FP8 data and their transposed copy, as a matmul and its gradient read them. Numerics tests run
// these programs on every target. The number in a function's name is the row length. On sm_90a, one
// kernel writes both results.

#columns = #fp8moe.strided<[1, 0]>
#padded_32 = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 32>>
#padded_128 = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
#kn = #fp8moe.strided<[0, 2, 1]>

func.func @tokens_e4m3_pow2_16(
      %x: tensor<?x16xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x16x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x16x!fp8moe.e4m3, #padded_128> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x16xbf16> -> tensor<?x16x!fp8moe.e4m3>, tensor<?xf32>
  %copy = fp8moe.relayout %q groups(%offsets : tensor<?xi32>)
      : tensor<?x16x!fp8moe.e4m3> -> tensor<?x16x!fp8moe.e4m3, #padded_128>
  return %q, %copy, %s : tensor<?x16x!fp8moe.e4m3>, tensor<?x16x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
}

func.func @tokens_e5m2_none_272(
      %x: tensor<?x272xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x272x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x272x!fp8moe.e5m2, #padded_32> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
      : tensor<?x272xbf16> -> tensor<?x272x!fp8moe.e5m2>, tensor<?xf32>
  %copy = fp8moe.relayout %q groups(%offsets : tensor<?xi32>)
      : tensor<?x272x!fp8moe.e5m2> -> tensor<?x272x!fp8moe.e5m2, #padded_32>
  return %q, %copy, %s : tensor<?x272x!fp8moe.e5m2>, tensor<?x272x!fp8moe.e5m2, #padded_32>, tensor<?xf32>
}

func.func @tokens_e4m3_pow2_2048(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2048x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x2048x!fp8moe.e4m3, #padded_128> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>
  %copy = fp8moe.relayout %q groups(%offsets : tensor<?xi32>)
      : tensor<?x2048x!fp8moe.e4m3> -> tensor<?x2048x!fp8moe.e4m3, #padded_128>
  return %q, %copy, %s : tensor<?x2048x!fp8moe.e4m3>, tensor<?x2048x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
}

func.func @tokens_e4m3_none_5136(
      %x: tensor<?x5136xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x5136x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x5136x!fp8moe.e4m3, #padded_128> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
      : tensor<?x5136xbf16> -> tensor<?x5136x!fp8moe.e4m3>, tensor<?xf32>
  %copy = fp8moe.relayout %q groups(%offsets : tensor<?xi32>)
      : tensor<?x5136x!fp8moe.e4m3> -> tensor<?x5136x!fp8moe.e4m3, #padded_128>
  return %q, %copy, %s : tensor<?x5136x!fp8moe.e4m3>, tensor<?x5136x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
}

func.func @tokens_e4m3_pow2_7168(
      %x: tensor<?x7168xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x7168x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x7168x!fp8moe.e4m3, #padded_128> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x7168xbf16> -> tensor<?x7168x!fp8moe.e4m3>, tensor<?xf32>
  %copy = fp8moe.relayout %q groups(%offsets : tensor<?xi32>)
      : tensor<?x7168x!fp8moe.e4m3> -> tensor<?x7168x!fp8moe.e4m3, #padded_128>
  return %q, %copy, %s : tensor<?x7168x!fp8moe.e4m3>, tensor<?x7168x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
}

func.func @tokens_e4m3_pow2_14336(
      %x: tensor<?x14336xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x14336x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x14336x!fp8moe.e4m3, #padded_128> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x14336xbf16> -> tensor<?x14336x!fp8moe.e4m3>, tensor<?xf32>
  %copy = fp8moe.relayout %q groups(%offsets : tensor<?xi32>)
      : tensor<?x14336x!fp8moe.e4m3> -> tensor<?x14336x!fp8moe.e4m3, #padded_128>
  return %q, %copy, %s : tensor<?x14336x!fp8moe.e4m3>, tensor<?x14336x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
}

func.func @tokens_e4m3_none_8192(
      %x: tensor<?x8192xbf16> {fp8moe.name = "x"}, %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x8192x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x8192x!fp8moe.e4m3, #padded_128> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
      : tensor<?x8192xbf16> -> tensor<?x8192x!fp8moe.e4m3>, tensor<?xf32>
  %copy = fp8moe.relayout %q groups(%offsets : tensor<?xi32>)
      : tensor<?x8192x!fp8moe.e4m3> -> tensor<?x8192x!fp8moe.e4m3, #padded_128>
  return %q, %copy, %s : tensor<?x8192x!fp8moe.e4m3>, tensor<?x8192x!fp8moe.e4m3, #padded_128>, tensor<?xf32>
}

func.func @matrix_e4m3_pow2_512(%x: tensor<?x512xbf16> {fp8moe.name = "x"})
      -> (tensor<?x512x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x512x!fp8moe.e4m3, #columns> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x512xbf16> -> tensor<?x512x!fp8moe.e4m3>, tensor<?xf32>
  %copy = fp8moe.relayout %q : tensor<?x512x!fp8moe.e4m3> -> tensor<?x512x!fp8moe.e4m3, #columns>
  return %q, %copy, %s : tensor<?x512x!fp8moe.e4m3>, tensor<?x512x!fp8moe.e4m3, #columns>, tensor<?xf32>
}

func.func @matrix_e5m2_pow2_3600(%x: tensor<?x3600xbf16> {fp8moe.name = "x"})
      -> (tensor<?x3600x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x3600x!fp8moe.e5m2, #columns> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x3600xbf16> -> tensor<?x3600x!fp8moe.e5m2>, tensor<?xf32>
  %copy = fp8moe.relayout %q : tensor<?x3600x!fp8moe.e5m2> -> tensor<?x3600x!fp8moe.e5m2, #columns>
  return %q, %copy, %s : tensor<?x3600x!fp8moe.e5m2>, tensor<?x3600x!fp8moe.e5m2, #columns>, tensor<?xf32>
}

func.func @matrix_e5m2_none_20480(%x: tensor<?x20480xbf16> {fp8moe.name = "x"})
      -> (tensor<?x20480x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x20480x!fp8moe.e5m2, #columns> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
      : tensor<?x20480xbf16> -> tensor<?x20480x!fp8moe.e5m2>, tensor<?xf32>
  %copy = fp8moe.relayout %q : tensor<?x20480x!fp8moe.e5m2> -> tensor<?x20480x!fp8moe.e5m2, #columns>
  return %q, %copy, %s : tensor<?x20480x!fp8moe.e5m2>, tensor<?x20480x!fp8moe.e5m2, #columns>, tensor<?xf32>
}

func.func @matrix_e5m2_pow2_28672(%x: tensor<?x28672xbf16> {fp8moe.name = "x"})
      -> (tensor<?x28672x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x28672x!fp8moe.e5m2, #columns> {fp8moe.name = "copy"},
          tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x28672xbf16> -> tensor<?x28672x!fp8moe.e5m2>, tensor<?xf32>
  %copy = fp8moe.relayout %q : tensor<?x28672x!fp8moe.e5m2> -> tensor<?x28672x!fp8moe.e5m2, #columns>
  return %q, %copy, %s : tensor<?x28672x!fp8moe.e5m2>, tensor<?x28672x!fp8moe.e5m2, #columns>, tensor<?xf32>
}

func.func @experts_e4m3_pow2_272(%x: tensor<?x272x?xbf16, #kn> {fp8moe.name = "x"})
      -> (tensor<?x272x?x!fp8moe.e4m3, #kn> {fp8moe.name = "q"},
          tensor<?x272x?x!fp8moe.e4m3> {fp8moe.name = "copy"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x272x?xbf16, #kn> -> tensor<?x272x?x!fp8moe.e4m3, #kn>, tensor<?x?xf32>
  %copy = fp8moe.relayout %q : tensor<?x272x?x!fp8moe.e4m3, #kn> -> tensor<?x272x?x!fp8moe.e4m3>
  return %q, %copy, %s : tensor<?x272x?x!fp8moe.e4m3, #kn>, tensor<?x272x?x!fp8moe.e4m3>, tensor<?x?xf32>
}

func.func @experts_e4m3_none_1408(%x: tensor<?x1408x?xbf16, #kn> {fp8moe.name = "x"})
      -> (tensor<?x1408x?x!fp8moe.e4m3, #kn> {fp8moe.name = "q"},
          tensor<?x1408x?x!fp8moe.e4m3> {fp8moe.name = "copy"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
      : tensor<?x1408x?xbf16, #kn> -> tensor<?x1408x?x!fp8moe.e4m3, #kn>, tensor<?x?xf32>
  %copy = fp8moe.relayout %q : tensor<?x1408x?x!fp8moe.e4m3, #kn> -> tensor<?x1408x?x!fp8moe.e4m3>
  return %q, %copy, %s : tensor<?x1408x?x!fp8moe.e4m3, #kn>, tensor<?x1408x?x!fp8moe.e4m3>, tensor<?x?xf32>
}
