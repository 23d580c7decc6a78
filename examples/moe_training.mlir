// The matmuls of one MoE layer as in a training step, in the shapes of moe_layer.mlir. Forward
// quantizes the operands of backward, too, and saves them.
//
//   forward    y                       and, for the backward: x per group and column, W along N
//   backward   grad_x and grad_W       of grad_y and these
//
// x and the weights are each quantized along both axes in one program. The compiler fuses both
// operations if that is predicted to be faster. It does so for x here, and for the weights if
// their number of experts is static, such as 64. Fused weights are quantized along one axis and
// rescaled to the other one (docs/design/kernels.md#both-axes-by-rescaling). The saved x takes one
// byte per element instead of bf16's two. The saved weights take one more byte per element.
//
// The compiler does not choose the layout of a tensor that one program passes to another. Here the
// contracted dimension is contiguous and groups begin at multiples of 128 rows, which NVIDIA's
// matmuls read fastest.
//
// Try it:
//   fp8moe-compile examples/moe_training.mlir --target=cpu -o out
//   fp8moe-run out/cpu --program=forward --random=1 --tokens=100 \
//     --shape weights=4x2048x1408 --shape offsets=4 --outputs=outputs.safetensors
//   fp8moe-run out/cpu --program=backward --random=1 --tokens=100 \
//     --shape x_columns=640x2048 --shape x_scales=4x2048 --shape weights_n=4x2048x1408 \
//     --shape weights_scales=4x2048 --shape offsets=4
// (With padding, 100 rows in 4 groups need up to 640 rows, which the forward prints.)

#expert_column_major = #fp8moe.strided<[0, 2, 1]>
#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
#padded_transposed = #fp8moe.strided<[0, 1], groups<dim = 1, pad = 128>>

module {
  func.func @forward(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"},
      %weights: tensor<?x2048x1408xbf16, #expert_column_major> {fp8moe.name = "weights"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x1408xbf16> {fp8moe.name = "y"},
          tensor<?x2048x!fp8moe.e4m3, #padded> {fp8moe.name = "x_columns"},
          tensor<?x2048xf32> {fp8moe.name = "x_scales"},
          tensor<?x2048x1408x!fp8moe.e4m3> {fp8moe.name = "weights_n"},
          tensor<?x2048xf32> {fp8moe.name = "weights_scales"}) {

    // One power-of-two scale per token, and one per group and feature.
    %xq, %xs = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>
    %xc, %xcs = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
        along [0] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3, #padded>, tensor<?x2048xf32>

    // Each expert's weights get scales per output feature for y, and per input feature for grad_x.
    %wk, %wks = fp8moe.dynamic_quantize %weights along [1] rounding pow2
        : tensor<?x2048x1408xbf16, #expert_column_major>
        -> tensor<?x2048x1408x!fp8moe.e4m3, #expert_column_major>, tensor<?x1408xf32>
    %wn, %wns = fp8moe.dynamic_quantize %weights along [2] rounding pow2
        : tensor<?x2048x1408xbf16, #expert_column_major>
        -> tensor<?x2048x1408x!fp8moe.e4m3>, tensor<?x2048xf32>

    %y = fp8moe.grouped_matmul %xq, %wk groups(%offsets : tensor<?xi32>)
        scales(%xs, %wks : tensor<?xf32>, tensor<?x1408xf32>) direction quantize
        : tensor<?x2048x!fp8moe.e4m3>,
          tensor<?x2048x1408x!fp8moe.e4m3, #expert_column_major>
        -> tensor<?x1408xbf16>
    return %y, %xc, %xcs, %wn, %wns
        : tensor<?x1408xbf16>, tensor<?x2048x!fp8moe.e4m3, #padded>, tensor<?x2048xf32>,
          tensor<?x2048x1408x!fp8moe.e4m3>, tensor<?x2048xf32>
  }

  func.func @backward(
      %grad_y: tensor<?x1408xbf16> {fp8moe.name = "grad_y"},
      %xc: tensor<?x2048x!fp8moe.e4m3, #padded> {fp8moe.name = "x_columns"},
      %xcs: tensor<?x2048xf32> {fp8moe.name = "x_scales"},
      %wn: tensor<?x2048x1408x!fp8moe.e4m3> {fp8moe.name = "weights_n"},
      %wns: tensor<?x2048xf32> {fp8moe.name = "weights_scales"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2048xbf16> {fp8moe.name = "grad_x"},
          tensor<?x1408x2048xbf16> {fp8moe.name = "grad_weights"}) {
    %gq, %gs = fp8moe.dynamic_quantize %grad_y along [1] rounding pow2
        : tensor<?x1408xbf16> -> tensor<?x1408x!fp8moe.e4m3>, tensor<?xf32>
    %gc, %gcs = fp8moe.jagged_dynamic_quantize %grad_y groups(%offsets : tensor<?xi32>)
        along [0] rounding pow2
        : tensor<?x1408xbf16> -> tensor<?x1408x!fp8moe.e4m3, #padded>, tensor<?x1408xf32>

    %wt = fp8moe.transpose %wn [0, 2, 1] : tensor<?x2048x1408x!fp8moe.e4m3>
        -> tensor<?x1408x2048x!fp8moe.e4m3, #expert_column_major>
    %grad_x = fp8moe.grouped_matmul %gq, %wt groups(%offsets : tensor<?xi32>)
        scales(%gs, %wns : tensor<?xf32>, tensor<?x2048xf32>) direction quantize
        : tensor<?x1408x!fp8moe.e4m3>,
          tensor<?x1408x2048x!fp8moe.e4m3, #expert_column_major>
        -> tensor<?x2048xbf16>

    %gt = fp8moe.transpose %gc [1, 0] : tensor<?x1408x!fp8moe.e4m3, #padded>
        -> tensor<1408x?x!fp8moe.e4m3, #padded_transposed>
    %grad_weights = fp8moe.grouped_matmul %gt, %xc groups(%offsets : tensor<?xi32>)
        scales(%gcs, %xcs : tensor<?x1408xf32>, tensor<?x2048xf32>) direction quantize
        : tensor<1408x?x!fp8moe.e4m3, #padded_transposed>,
          tensor<?x2048x!fp8moe.e4m3, #padded>
        -> tensor<?x1408x2048xbf16>
    return %grad_x, %grad_weights : tensor<?x2048xbf16>, tensor<?x1408x2048xbf16>
  }
}
