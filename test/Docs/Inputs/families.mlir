// Together, these quantizations use every kernel of the table in docs/design/kernels.md, on the
// targets that have it.

#columns = #fp8moe.strided<[1, 0]>
#experts = #fp8moe.strided<[0, 2, 1]>

func.func @across_rows(%x: tensor<?x2048xbf16>, %ends: tensor<8xi32>) -> tensor<?x2048x!fp8moe.e4m3, #columns> {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<8x2048xf32>
  return %q : tensor<?x2048x!fp8moe.e4m3, #columns>
}

func.func @along_columns(%x: tensor<?x2048xbf16, #columns>, %ends: tensor<8xi32>) -> tensor<?x2048x!fp8moe.e4m3, #columns> {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding pow2
      : tensor<?x2048xbf16, #columns> -> tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<8x2048xf32>
  return %q : tensor<?x2048x!fp8moe.e4m3, #columns>
}

func.func @both_axes(%x: tensor<?x2048xbf16>, %ends: tensor<8xi32>)
    -> (tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<?x2048x!fp8moe.e4m3>) {
  %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0, 1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<?x2048x!fp8moe.e4m3>, tensor<8x2048xf32>, tensor<?xf32>
  return %q#0, %q#1 : tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<?x2048x!fp8moe.e4m3>
}

func.func @many_experts(%w: tensor<64x1408x2048xbf16>)
    -> (tensor<64x1408x2048x!fp8moe.e4m3, #experts>, tensor<64x1408x2048x!fp8moe.e4m3>) {
  %q:2, %s:2 = fp8moe.dynamic_quantize %w along [1, 2] rounding pow2
      : tensor<64x1408x2048xbf16>
      -> tensor<64x1408x2048x!fp8moe.e4m3, #experts>, tensor<64x1408x2048x!fp8moe.e4m3>, tensor<64x2048xf32>, tensor<64x1408xf32>
  return %q#0, %q#1 : tensor<64x1408x2048x!fp8moe.e4m3, #experts>, tensor<64x1408x2048x!fp8moe.e4m3>
}

func.func @two_layouts(%x: tensor<?x2048xbf16>) -> (tensor<?x2048x!fp8moe.e4m3>, tensor<?x2048x!fp8moe.e4m3, #columns>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>
  %copy = fp8moe.relayout %q : tensor<?x2048x!fp8moe.e4m3> -> tensor<?x2048x!fp8moe.e4m3, #columns>
  return %q, %copy : tensor<?x2048x!fp8moe.e4m3>, tensor<?x2048x!fp8moe.e4m3, #columns>
}
