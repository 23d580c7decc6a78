// The matmuls of one MoE layer in FP8, forward and backward, in the shapes of
// DeepSeek-MoE-16B: hidden size 2048, expert intermediate size 1408, and numbers of
// tokens and of experts that are known only at run time.
//
// The layer is y = x W[g] for the rows of group g. `weights` is [E, K, N] as training
// frameworks hold it, each expert's matrix column-major (`weight.transpose(-2, -1)` of
// an [E, N, K] parameter). Tokens are sorted by expert, and `offsets` holds the end row
// of each expert's group.
//
// Every operand is quantized along its contracted dimension, so that the scales can be applied
// after the sum. There are six quantizations:
//
//   y       = x  W        contracts K   x rowwise,            W along K
//   grad_x  = dy W^T      contracts N   dy rowwise,           W along N
//   grad_W  = dy^T x      contracts M   dy, x per group and column
//
// No quantized tensor has a layout below; every type is row-major. The compiler lets each
// quantization write the layout that its matmul reads. On NVIDIA, the contracted dimension is
// contiguous, and groups of contracted rows begin at multiples of 128. No copy and no padding
// kernel remains; see
//
//   fp8moe-compile examples/moe_layer.mlir --target=sm_90a --emit=tensor
//
// Try it:
//   fp8moe-compile examples/moe_layer.mlir --target=cpu -o out
//   fp8moe-run out/cpu --program=backward --random=1 --tokens=100 \
//     --shape weights=4x2048x1408 --shape offsets=4 --outputs=outputs.safetensors

#expert_column_major = #fp8moe.strided<[0, 2, 1]>

module {
  func.func @forward(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"},
      %weights: tensor<?x2048x1408xbf16, #expert_column_major> {fp8moe.name = "weights"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x1408xbf16> {fp8moe.name = "y"}) {

    // One power-of-two scale per token.
    %xq, %xs = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>

    // Weights get one scale per expert and output feature.
    %wq, %ws = fp8moe.dynamic_quantize %weights along [1] rounding pow2
        : tensor<?x2048x1408xbf16, #expert_column_major>
        -> tensor<?x2048x1408x!fp8moe.e4m3>, tensor<?x1408xf32>

    %y = fp8moe.grouped_matmul %xq, %wq groups(%offsets : tensor<?xi32>)
        scales(%xs, %ws : tensor<?xf32>, tensor<?x1408xf32>) direction quantize
        : tensor<?x2048x!fp8moe.e4m3>, tensor<?x2048x1408x!fp8moe.e4m3>
        -> tensor<?x1408xbf16>
    return %y : tensor<?x1408xbf16>
  }

  func.func @backward(
      %grad_y: tensor<?x1408xbf16> {fp8moe.name = "grad_y"},
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"},
      %weights: tensor<?x2048x1408xbf16, #expert_column_major> {fp8moe.name = "weights"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2048xbf16> {fp8moe.name = "grad_x"},
          tensor<?x1408x2048xbf16> {fp8moe.name = "grad_weights"}) {

    // grad_x is the grouped product of the output gradient and the transposed weights.
    %gq, %gs = fp8moe.dynamic_quantize %grad_y along [1] rounding pow2
        : tensor<?x1408xbf16> -> tensor<?x1408x!fp8moe.e4m3>, tensor<?xf32>
    %wq, %ws = fp8moe.dynamic_quantize %weights along [2] rounding pow2
        : tensor<?x2048x1408xbf16, #expert_column_major>
        -> tensor<?x2048x1408x!fp8moe.e4m3>, tensor<?x2048xf32>
    %wt = fp8moe.transpose %wq [0, 2, 1] : tensor<?x2048x1408x!fp8moe.e4m3>
        -> tensor<?x1408x2048x!fp8moe.e4m3, #expert_column_major>
    %grad_x = fp8moe.grouped_matmul %gq, %wt groups(%offsets : tensor<?xi32>)
        scales(%gs, %ws : tensor<?xf32>, tensor<?x2048xf32>) direction quantize
        : tensor<?x1408x!fp8moe.e4m3>,
          tensor<?x1408x2048x!fp8moe.e4m3, #expert_column_major>
        -> tensor<?x2048xbf16>

    // wgrad: for each group a sum over its tokens. There is one scale per group and feature, so a
    // group with large gradients costs the other groups no precision.
    %gc, %gcs = fp8moe.jagged_dynamic_quantize %grad_y groups(%offsets : tensor<?xi32>)
        along [0] rounding pow2
        : tensor<?x1408xbf16> -> tensor<?x1408x!fp8moe.e4m3>, tensor<?x1408xf32>
    %xc, %xcs = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
        along [0] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?x2048xf32>
    %gt = fp8moe.transpose %gc [1, 0] : tensor<?x1408x!fp8moe.e4m3>
        -> tensor<1408x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>
    %grad_weights = fp8moe.grouped_matmul %gt, %xc groups(%offsets : tensor<?xi32>)
        scales(%gcs, %xcs : tensor<?x1408xf32>, tensor<?x2048xf32>) direction quantize
        : tensor<1408x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<?x2048x!fp8moe.e4m3>
        -> tensor<?x1408x2048xbf16>
    return %grad_x, %grad_weights : tensor<?x2048xbf16>, tensor<?x1408x2048xbf16>
  }
}
