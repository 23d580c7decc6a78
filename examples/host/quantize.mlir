#column_major = #fp8moe.strided<[1, 0]>

func.func @quantize_grad(
    %grad: tensor<?x2048xbf16> {fp8moe.name = "grad"}, %offsets: tensor<64xi32> {fp8moe.name = "offsets"})
    -> (tensor<?x2048x!fp8moe.e4m3, #column_major> {fp8moe.name = "q"},
        tensor<64x2048xf32> {fp8moe.name = "scales"}) {
  %q, %s = fp8moe.jagged_dynamic_quantize %grad groups(%offsets : tensor<64xi32>) along [0] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3, #column_major>, tensor<64x2048xf32>
  return %q, %s : tensor<?x2048x!fp8moe.e4m3, #column_major>, tensor<64x2048xf32>
}
