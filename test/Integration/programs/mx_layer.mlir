// bf16 experts that were decided to be FP8 with recipe mxfp8: forward, dgrad and wgrad. Numerics
// tests run these programs. The number of tokens is dynamic. Sizes are no multiples of tiles,
// stages or blocks. The second function gets the gradient transposed.

#column_major = #fp8moe.strided<[1, 0]>
#expert_columns = #fp8moe.strided<[0, 2, 1]>

func.func @experts(
      %x: tensor<?x208xbf16> {fp8moe.name = "x"}, %w: tensor<5x304x208xbf16> {fp8moe.name = "w"},
      %g: tensor<?x304xbf16> {fp8moe.name = "g"}, %offsets: tensor<5xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x304xbf16> {fp8moe.name = "y"}, tensor<?x208xbf16> {fp8moe.name = "dx"},
          tensor<5x304x208xbf16> {fp8moe.name = "dw"}) {
  %wt = fp8moe.transpose %w [0, 2, 1] : tensor<5x304x208xbf16> -> tensor<5x208x304xbf16, #expert_columns>
  %y = fp8moe.grouped_matmul %x, %wt groups(%offsets : tensor<5xi32>) precision <fp8, "w", forward, recipe = mxfp8>
      : tensor<?x208xbf16>, tensor<5x208x304xbf16, #expert_columns> -> tensor<?x304xbf16>
  %dx = fp8moe.grouped_matmul %g, %w groups(%offsets : tensor<5xi32>) precision <fp8, "w", dgrad, recipe = mxfp8>
      : tensor<?x304xbf16>, tensor<5x304x208xbf16> -> tensor<?x208xbf16>
  %gt = fp8moe.transpose %g [1, 0] : tensor<?x304xbf16> -> tensor<304x?xbf16, #column_major>
  %dw = fp8moe.grouped_matmul %gt, %x groups(%offsets : tensor<5xi32>) precision <fp8, "w", wgrad, recipe = mxfp8>
      : tensor<304x?xbf16, #column_major>, tensor<?x208xbf16> -> tensor<5x304x208xbf16>
  return %y, %dx, %dw : tensor<?x304xbf16>, tensor<?x208xbf16>, tensor<5x304x208xbf16>
}

func.func @transposed_gradient(
      %x: tensor<?x208xbf16> {fp8moe.name = "x"}, %gt: tensor<304x?xbf16> {fp8moe.name = "gt"},
      %offsets: tensor<5xi32> {fp8moe.name = "offsets"}) -> (tensor<5x304x208xbf16> {fp8moe.name = "dw"}) {
  %dw = fp8moe.grouped_matmul %gt, %x groups(%offsets : tensor<5xi32>) precision <fp8, "w", wgrad, recipe = mxfp8>
      : tensor<304x?xbf16>, tensor<?x208xbf16> -> tensor<5x304x208xbf16>
  return %dw : tensor<5x304x208xbf16>
}
