// Views, and the copies around them. Numerics tests run these programs.

#column_major = #fp8moe.strided<[1, 0]>
#expert_column_major = #fp8moe.strided<[0, 2, 1]>

// A framework exports `x.t().contiguous().t()` as these operations, before a jagged quantization.
func.func @exporter_chain(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
          tensor<?x?xf32> {fp8moe.name = "s"}) {
  %t = fp8moe.transpose %x [1, 0] : tensor<?x?xbf16> -> tensor<?x?xbf16, #column_major>
  %c = fp8moe.contiguous %t : tensor<?x?xbf16, #column_major> -> tensor<?x?xbf16>
  %u = fp8moe.transpose %c [1, 0] : tensor<?x?xbf16> -> tensor<?x?xbf16, #column_major>
  %q, %s = fp8moe.jagged_dynamic_quantize %u groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16, #column_major>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

func.func @transpose_only(
      %x: tensor<?x?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x?xf32, #expert_column_major> {fp8moe.name = "y"}) {
  %y = fp8moe.transpose %x [0, 2, 1]
      : tensor<?x?x?xf32> -> tensor<?x?x?xf32, #expert_column_major>
  return %y : tensor<?x?x?xf32, #expert_column_major>
}

func.func @merge(
      %x: tensor<?x16x32xbf16> {fp8moe.name = "x"})
      -> (tensor<?x512xbf16, #column_major> {fp8moe.name = "y"}) {
  %v = fp8moe.reshape %x : tensor<?x16x32xbf16> -> tensor<?x512xbf16>
  %y = fp8moe.relayout %v : tensor<?x512xbf16> -> tensor<?x512xbf16, #column_major>
  return %y : tensor<?x512xbf16, #column_major>
}

func.func @split(
      %x: tensor<?x512xf32> {fp8moe.name = "x"})
      -> (tensor<?x32x16xf32> {fp8moe.name = "y"}) {
  %v = fp8moe.reshape %x : tensor<?x512xf32> -> tensor<?x16x32xf32>
  %t = fp8moe.transpose %v [0, 2, 1] : tensor<?x16x32xf32> -> tensor<?x32x16xf32, #expert_column_major>
  %y = fp8moe.contiguous %t : tensor<?x32x16xf32, #expert_column_major> -> tensor<?x32x16xf32>
  return %y : tensor<?x32x16xf32>
}
