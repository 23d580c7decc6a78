// The quantizations of the backward pass of one MoE layer, in the shapes of
// DeepSeek-MoE-16B: hidden size 2048, expert intermediate size 1408, 64 routed
// experts, and a number of tokens that is known only at run time.
//
// The layer is y = x W with one weight matrix per expert. Tokens are sorted by
// expert, so that each expert owns a range of rows, a group, and `offsets` holds
// the end row of each group. From the gradient of y the backward pass computes
//
//   dgrad   dx[m, :] = dy[m, :] W[g]^T               for each row m of group g
//   wgrad   dW[g]    = x[rows of g]^T dy[rows of g]  for each group g
//
// and each of its FP8 matmuls needs its operands quantized in its own way. Scales
// lie along the dimension that the matmul does not contract: one scale per row of
// dy for dgrad, one per group and column of x and of dy for wgrad, where rows
// are contracted.
//
// Try it:
//   fp8moe-compile examples/moe_backward.mlir --target=sm_90a --target=gfx942 --target=cpu -o out --report
//   fp8moe-run out/cpu --random=1 --tokens=5000 --outputs=outputs.safetensors

// A tensor's encoding is its layout in memory: the dimensions from outermost to
// innermost. This one is column-major; no encoding means row-major.
#column_major = #fp8moe.strided<[1, 0]>

module {
  // `?` is the number of tokens: one compiled artifact serves every batch.
  // `fp8moe.name` names a buffer for the caller. `!fp8moe.e4m3` is the e4m3 flavour
  // of the target: f8E4M3FN on NVIDIA and gfx950, f8E4M3FNUZ on gfx942.
  func.func @moe_backward(
      %grad_out: tensor<?x2048xbf16> {fp8moe.name = "grad_out"},
      %activations: tensor<?x1408xbf16> {fp8moe.name = "activations"},
      %offsets: tensor<64xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2048x!fp8moe.e4m3> {fp8moe.name = "grad_rowwise"},
          tensor<?xf32> {fp8moe.name = "grad_rowwise_scales"},
          tensor<?x2048x!fp8moe.e4m3, #column_major> {fp8moe.name = "grad_colwise"},
          tensor<64x2048xf32> {fp8moe.name = "grad_colwise_scales"},
          tensor<?x1408x!fp8moe.e4m3, #column_major> {fp8moe.name = "activations_colwise"},
          tensor<64x1408xf32> {fp8moe.name = "activations_colwise_scales"}) {

    // For dgrad: one power-of-two scale per row of the gradient.
    %grad_row, %grad_row_scales = fp8moe.dynamic_quantize %grad_out along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>

    // For wgrad the tensor cores read rows as the contracted dimension, so both
    // operands must be column-major. A framework's exporter says so with the chain
    // `.t().contiguous().t()`: two views around a copy that moves every byte.
    %grad_t = fp8moe.transpose %grad_out [1, 0]
        : tensor<?x2048xbf16> -> tensor<2048x?xbf16, #column_major>
    %grad_c = fp8moe.contiguous %grad_t
        : tensor<2048x?xbf16, #column_major> -> tensor<2048x?xbf16>
    %grad_cm = fp8moe.transpose %grad_c [1, 0]
        : tensor<2048x?xbf16> -> tensor<?x2048xbf16, #column_major>

    // One scale per group and column. Groups may be empty and of any size; rows past
    // the last offset become zeros.
    %grad_col, %grad_col_scales = fp8moe.jagged_dynamic_quantize %grad_cm
        groups(%offsets : tensor<64xi32>) along [0] rounding pow2
        : tensor<?x2048xbf16, #column_major>
        -> tensor<?x2048x!fp8moe.e4m3, #column_major>, tensor<64x2048xf32>

    // As above, for the activations that the forward pass saved.
    %act_t = fp8moe.transpose %activations [1, 0]
        : tensor<?x1408xbf16> -> tensor<1408x?xbf16, #column_major>
    %act_c = fp8moe.contiguous %act_t
        : tensor<1408x?xbf16, #column_major> -> tensor<1408x?xbf16>
    %act_cm = fp8moe.transpose %act_c [1, 0]
        : tensor<1408x?xbf16> -> tensor<?x1408xbf16, #column_major>
    %act_col, %act_col_scales = fp8moe.jagged_dynamic_quantize %act_cm
        groups(%offsets : tensor<64xi32>) along [0] rounding pow2
        : tensor<?x1408xbf16, #column_major>
        -> tensor<?x1408x!fp8moe.e4m3, #column_major>, tensor<64x1408xf32>

    return %grad_row, %grad_row_scales, %grad_col, %grad_col_scales, %act_col, %act_col_scales
        : tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>,
          tensor<?x2048x!fp8moe.e4m3, #column_major>, tensor<64x2048xf32>,
          tensor<?x1408x!fp8moe.e4m3, #column_major>, tensor<64x1408xf32>
  }
}
