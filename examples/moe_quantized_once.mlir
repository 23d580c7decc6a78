// The matmuls of one MoE layer as a training step runs them, in the shapes of moe_training.mlir,
// with x and the weights quantized once instead of once for each dimension (docs/design/quantized-once.md):
//
//   forward    y                       and, for the backward: the FP8 data of x and W once more,
//                                      contiguous along what it contracts, with the same scales
//   backward   grad_x and grad_W       of grad_y and these
//
// In the backward the scales of W (one per expert and output feature) and those of x (one per
// token) belong to the contraction. They cannot come behind the sum, so grad_y is divided by them
// before it is quantized: by those of W along rows, by those of x along columns. Scales are powers
// of two, so that no division rounds.
//
// Data are read once and written twice by one kernel; there is no second quantization whose scales
// would have to wait for all rows of a group.
//
// Try it:
//   fp8moe-compile examples/moe_quantized_once.mlir --target=cpu -o out
//   fp8moe-run out/cpu --program=forward --random=1 --tokens=100 \
//     --shape weights=4x2048x1408 --shape offsets=4 --outputs=outputs.safetensors
//   fp8moe-run out/cpu --program=backward --random=1 --tokens=100 \
//     --shape x_columns=640x2048 --shape weights_n=4x2048x1408 \
//     --shape weights_scales=4x1408 --shape offsets=4
// (100 rows in 4 groups have room for 640, which the forward prints.)

#expert_column_major = #fp8moe.strided<[0, 2, 1]>
// What kernels that divide rely on.
#aligned = #fp8moe.strided<[0, 1], align = 16>
#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
#padded_transposed = #fp8moe.strided<[0, 1], groups<dim = 1, pad = 128>>

module {
  func.func @forward(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"},
      %weights: tensor<?x2048x1408xbf16, #expert_column_major> {fp8moe.name = "weights"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x1408xbf16> {fp8moe.name = "y"},
          tensor<?x2048x!fp8moe.e4m3, #padded> {fp8moe.name = "x_columns"},
          tensor<?xf32> {fp8moe.name = "x_scales"},
          tensor<?x2048x1408x!fp8moe.e4m3> {fp8moe.name = "weights_n"},
          tensor<?x1408xf32> {fp8moe.name = "weights_scales"}) {

    // One power-of-two scale per token, and one per expert and output feature.
    %xq, %xs = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>
    %wk, %ws = fp8moe.dynamic_quantize %weights along [1] rounding pow2
        : tensor<?x2048x1408xbf16, #expert_column_major>
        -> tensor<?x2048x1408x!fp8moe.e4m3, #expert_column_major>, tensor<?x1408xf32>

    // The same bytes as the backward contracts them. fp8moe-fuse-copies makes this a part of the
    // quantization.
    %xc = fp8moe.relayout %xq groups(%offsets : tensor<?xi32>)
        : tensor<?x2048x!fp8moe.e4m3> -> tensor<?x2048x!fp8moe.e4m3, #padded>
    %wn = fp8moe.relayout %wk : tensor<?x2048x1408x!fp8moe.e4m3, #expert_column_major>
        -> tensor<?x2048x1408x!fp8moe.e4m3>

    %y = fp8moe.grouped_matmul %xq, %wk groups(%offsets : tensor<?xi32>)
        scales(%xs, %ws : tensor<?xf32>, tensor<?x1408xf32>) direction quantize
        : tensor<?x2048x!fp8moe.e4m3>,
          tensor<?x2048x1408x!fp8moe.e4m3, #expert_column_major>
        -> tensor<?x1408xbf16>
    return %y, %xc, %xs, %wn, %ws
        : tensor<?x1408xbf16>, tensor<?x2048x!fp8moe.e4m3, #padded>, tensor<?xf32>,
          tensor<?x2048x1408x!fp8moe.e4m3>, tensor<?x1408xf32>
  }

  func.func @backward(
      %grad_y: tensor<?x1408xbf16, #aligned> {fp8moe.name = "grad_y"},
      %xc: tensor<?x2048x!fp8moe.e4m3, #padded> {fp8moe.name = "x_columns"},
      %xs: tensor<?xf32> {fp8moe.name = "x_scales"},
      %wn: tensor<?x2048x1408x!fp8moe.e4m3> {fp8moe.name = "weights_n"},
      %ws: tensor<?x1408xf32> {fp8moe.name = "weights_scales"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2048xbf16> {fp8moe.name = "grad_x"},
          tensor<?x1408x2048xbf16> {fp8moe.name = "grad_weights"}) {
    %gc, %gq, %gcs, %gs = fp8moe.jagged_dynamic_quantize %grad_y groups(%offsets : tensor<?xi32>)
        divided(%xs, %ws : tensor<?xf32>, tensor<?x1408xf32>) along [0, 1] rounding pow2
        : tensor<?x1408xbf16, #aligned>
        -> tensor<?x1408x!fp8moe.e4m3, #padded>, tensor<?x1408x!fp8moe.e4m3>,
           tensor<?x1408xf32>, tensor<?xf32>

    %wt = fp8moe.transpose %wn [0, 2, 1] : tensor<?x2048x1408x!fp8moe.e4m3>
        -> tensor<?x1408x2048x!fp8moe.e4m3, #expert_column_major>
    %grad_x = fp8moe.grouped_matmul %gq, %wt groups(%offsets : tensor<?xi32>)
        scales(%gs : tensor<?xf32>) direction quantize
        : tensor<?x1408x!fp8moe.e4m3>,
          tensor<?x1408x2048x!fp8moe.e4m3, #expert_column_major>
        -> tensor<?x2048xbf16>

    %gt = fp8moe.transpose %gc [1, 0] : tensor<?x1408x!fp8moe.e4m3, #padded>
        -> tensor<1408x?x!fp8moe.e4m3, #padded_transposed>
    %grad_weights = fp8moe.grouped_matmul %gt, %xc groups(%offsets : tensor<?xi32>)
        scales(%gcs : tensor<?x1408xf32>) direction quantize
        : tensor<1408x?x!fp8moe.e4m3, #padded_transposed>,
          tensor<?x2048x!fp8moe.e4m3, #padded>
        -> tensor<?x1408x2048xbf16>
    return %grad_x, %grad_weights : tensor<?x2048xbf16>, tensor<?x1408x2048xbf16>
  }
}
