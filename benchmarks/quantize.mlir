// The quantize kernels that benchmarks/quantize.py times. All sizes are dynamic, so
// that one artifact serves every shape.

#column_major = #fp8moe.strided<[1, 0]>
#expert_column_major = #fp8moe.strided<[0, 2, 1]>

// Weight gradient operands: one scale per group and column.
func.func @jagged_colwise(%x: tensor<?x?xbf16> {fp8moe.name = "x"},
                          %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
    -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
        tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0]
      rounding pow2
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

func.func @jagged_colwise_column_major_input(
    %x: tensor<?x?xbf16, #column_major> {fp8moe.name = "x"},
    %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
    -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
        tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0]
      rounding pow2 : tensor<?x?xbf16, #column_major>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
}

// Activations and output gradients: one scale per row.
func.func @rowwise(%x: tensor<?x?xbf16> {fp8moe.name = "x"})
    -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?xf32>
}

// Weights [E, K, N], per-expert column-major: one scale per expert and output column.
func.func @weights_forward(%x: tensor<?x?x?xbf16, #expert_column_major> {fp8moe.name = "x"})
    -> (tensor<?x?x?x!fp8moe.e4m3, #expert_column_major> {fp8moe.name = "q"},
        tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x?x?xbf16, #expert_column_major>
      -> tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3, #expert_column_major>, tensor<?x?xf32>
}

// These weights for the data gradient: one scale per expert and K, and K is no
// longer contiguous.
func.func @weights_dgrad(%x: tensor<?x?x?xbf16, #expert_column_major> {fp8moe.name = "x"})
    -> (tensor<?x?x?x!fp8moe.e4m3> {fp8moe.name = "q"}, tensor<?x?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [2] rounding pow2
      : tensor<?x?x?xbf16, #expert_column_major>
      -> tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?xf32>
  return %q, %s : tensor<?x?x?x!fp8moe.e4m3>, tensor<?x?xf32>
}
