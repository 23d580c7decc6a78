// A whole MoE layer in FP8, except its router: one program for forward, one for backward. Sizes are
// those of Qwen3-30B-A3B: hidden size 2048, 128 experts of 768, 8192 tokens with 8 experts each.
// The number of rows per expert is known only at run time.
//
//   h = x[rows] gate_up[g],  a = silu(h[:, :768]) * h[:, 768:],  y = a down[g]
//
// Rows are sorted by expert. `rows` has each row's token, and `offsets` the end row of each
// expert's group. The caller sums the rows of y of each token, weighted by its router. A row of
// `grad_y` is the gradient of that sum times the weight.
//
// Gathered tokens and activations are never in memory in bf16: the quantize kernels compute them
// and read their input once for both axes. Forward saves h and the FP8 columns for wgrad. The
// compiler chooses all layouts:
//
//   fp8moe-opt examples/moe_block.mlir --fp8moe-attach-target=chip=sm_90a \
//     --fp8moe-settle-layouts
//
// Every kernel with its bytes and time, beside the layer's lower bound:
//
//   fp8moe-compile examples/moe_block.mlir --target=sm_90a --report -o out

#columns = #fp8moe.strided<[0, 2, 1]>
// Groups of contracted rows begin at multiples of 128, which adds up to 128 * 127 rows. Both
// programs use this tensor, so its layout is part of their interface.
#padded = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>
#padded_t = #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>

module {
  func.func @forward(
      %x: tensor<8192x2048xbf16> {fp8moe.name = "x"},
      %rows: tensor<65536xi32> {fp8moe.name = "rows"},
      %offsets: tensor<128xi32> {fp8moe.name = "offsets"},
      %gate_up: tensor<128x2048x1536xbf16, #columns> {fp8moe.name = "gate_up"},
      %down: tensor<128x768x2048xbf16, #columns> {fp8moe.name = "down"})
      -> (tensor<65536x2048xbf16> {fp8moe.name = "y"},
          tensor<65536x1536xbf16> {fp8moe.name = "h"},
          tensor<81792x2048x!fp8moe.e4m3, #padded> {fp8moe.name = "x_columns"},
          tensor<128x2048xf32> {fp8moe.name = "x_scales"},
          tensor<81792x768x!fp8moe.e4m3, #padded> {fp8moe.name = "a_columns"},
          tensor<128x768xf32> {fp8moe.name = "a_scales"}) {

    // Gathered tokens: rows for this matmul, columns for the backward.
    %x_sorted = fp8moe.gather_rows %x rows(%rows : tensor<65536xi32>)
        : tensor<8192x2048xbf16> -> tensor<65536x2048xbf16>
    %xq, %xs = fp8moe.dynamic_quantize %x_sorted along [1] rounding pow2
        : tensor<65536x2048xbf16> -> tensor<65536x2048x!fp8moe.e4m3>, tensor<65536xf32>
    %xc, %xcs = fp8moe.jagged_dynamic_quantize %x_sorted
        groups(%offsets : tensor<128xi32>) along [0] rounding pow2
        : tensor<65536x2048xbf16> -> tensor<81792x2048x!fp8moe.e4m3, #padded>, tensor<128x2048xf32>
    %uq, %us = fp8moe.dynamic_quantize %gate_up along [1] rounding pow2
        : tensor<128x2048x1536xbf16, #columns>
        -> tensor<128x2048x1536x!fp8moe.e4m3, #columns>, tensor<128x1536xf32>
    %h = fp8moe.grouped_matmul %xq, %uq groups(%offsets : tensor<128xi32>)
        scales(%xs, %us : tensor<65536xf32>, tensor<128x1536xf32>) direction quantize
        : tensor<65536x2048x!fp8moe.e4m3>, tensor<128x2048x1536x!fp8moe.e4m3, #columns>
        -> tensor<65536x1536xbf16>

    %a = fp8moe.swiglu %h : tensor<65536x1536xbf16> -> tensor<65536x768xbf16>
    %aq, %as = fp8moe.dynamic_quantize %a along [1] rounding pow2
        : tensor<65536x768xbf16> -> tensor<65536x768x!fp8moe.e4m3>, tensor<65536xf32>
    %ac, %acs = fp8moe.jagged_dynamic_quantize %a
        groups(%offsets : tensor<128xi32>) along [0] rounding pow2
        : tensor<65536x768xbf16> -> tensor<81792x768x!fp8moe.e4m3, #padded>, tensor<128x768xf32>
    %dq, %ds = fp8moe.dynamic_quantize %down along [1] rounding pow2
        : tensor<128x768x2048xbf16, #columns>
        -> tensor<128x768x2048x!fp8moe.e4m3, #columns>, tensor<128x2048xf32>
    %y = fp8moe.grouped_matmul %aq, %dq groups(%offsets : tensor<128xi32>)
        scales(%as, %ds : tensor<65536xf32>, tensor<128x2048xf32>) direction quantize
        : tensor<65536x768x!fp8moe.e4m3>, tensor<128x768x2048x!fp8moe.e4m3, #columns>
        -> tensor<65536x2048xbf16>
    return %y, %h, %xc, %xcs, %ac, %acs
        : tensor<65536x2048xbf16>, tensor<65536x1536xbf16>,
          tensor<81792x2048x!fp8moe.e4m3, #padded>, tensor<128x2048xf32>,
          tensor<81792x768x!fp8moe.e4m3, #padded>, tensor<128x768xf32>
  }

  func.func @backward(
      %grad_y: tensor<65536x2048xbf16> {fp8moe.name = "grad_y"},
      %offsets: tensor<128xi32> {fp8moe.name = "offsets"},
      %gate_up: tensor<128x2048x1536xbf16, #columns> {fp8moe.name = "gate_up"},
      %down: tensor<128x768x2048xbf16, #columns> {fp8moe.name = "down"},
      %h: tensor<65536x1536xbf16> {fp8moe.name = "h"},
      %xc: tensor<81792x2048x!fp8moe.e4m3, #padded> {fp8moe.name = "x_columns"},
      %xcs: tensor<128x2048xf32> {fp8moe.name = "x_scales"},
      %ac: tensor<81792x768x!fp8moe.e4m3, #padded> {fp8moe.name = "a_columns"},
      %acs: tensor<128x768xf32> {fp8moe.name = "a_scales"})
      -> (tensor<65536x2048xbf16> {fp8moe.name = "grad_x_sorted"},
          tensor<128x1536x2048xbf16> {fp8moe.name = "grad_gate_up"},
          tensor<128x2048x768xbf16> {fp8moe.name = "grad_down"}) {

    // The backward of down: gradients of the activations and of the weights.
    %gq, %gs = fp8moe.dynamic_quantize %grad_y along [1] rounding pow2
        : tensor<65536x2048xbf16> -> tensor<65536x2048x!fp8moe.e4m3>, tensor<65536xf32>
    %gc, %gcs = fp8moe.jagged_dynamic_quantize %grad_y
        groups(%offsets : tensor<128xi32>) along [0] rounding pow2
        : tensor<65536x2048xbf16> -> tensor<81792x2048x!fp8moe.e4m3, #padded>, tensor<128x2048xf32>
    %dq, %ds = fp8moe.dynamic_quantize %down along [2] rounding pow2
        : tensor<128x768x2048xbf16, #columns>
        -> tensor<128x768x2048x!fp8moe.e4m3>, tensor<128x768xf32>
    %dt = fp8moe.transpose %dq [0, 2, 1] : tensor<128x768x2048x!fp8moe.e4m3>
        -> tensor<128x2048x768x!fp8moe.e4m3, #columns>
    %grad_a = fp8moe.grouped_matmul %gq, %dt groups(%offsets : tensor<128xi32>)
        scales(%gs, %ds : tensor<65536xf32>, tensor<128x768xf32>) direction quantize
        : tensor<65536x2048x!fp8moe.e4m3>, tensor<128x2048x768x!fp8moe.e4m3, #columns>
        -> tensor<65536x768xbf16>
    %gt = fp8moe.transpose %gc [1, 0] : tensor<81792x2048x!fp8moe.e4m3, #padded>
        -> tensor<2048x81792x!fp8moe.e4m3, #padded_t>
    %grad_down = fp8moe.grouped_matmul %gt, %ac groups(%offsets : tensor<128xi32>)
        scales(%gcs, %acs : tensor<128x2048xf32>, tensor<128x768xf32>) direction quantize
        : tensor<2048x81792x!fp8moe.e4m3, #padded_t>,
          tensor<81792x768x!fp8moe.e4m3, #padded> -> tensor<128x2048x768xbf16>

    // The backward of SwiGLU and gate_up.
    %grad_h = fp8moe.swiglu_gradient %grad_a, %h
        : tensor<65536x768xbf16>, tensor<65536x1536xbf16> -> tensor<65536x1536xbf16>
    %hq, %hs = fp8moe.dynamic_quantize %grad_h along [1] rounding pow2
        : tensor<65536x1536xbf16> -> tensor<65536x1536x!fp8moe.e4m3>, tensor<65536xf32>
    %hc, %hcs = fp8moe.jagged_dynamic_quantize %grad_h
        groups(%offsets : tensor<128xi32>) along [0] rounding pow2
        : tensor<65536x1536xbf16> -> tensor<81792x1536x!fp8moe.e4m3, #padded>, tensor<128x1536xf32>
    %uq, %us = fp8moe.dynamic_quantize %gate_up along [2] rounding pow2
        : tensor<128x2048x1536xbf16, #columns>
        -> tensor<128x2048x1536x!fp8moe.e4m3>, tensor<128x2048xf32>
    %ut = fp8moe.transpose %uq [0, 2, 1] : tensor<128x2048x1536x!fp8moe.e4m3>
        -> tensor<128x1536x2048x!fp8moe.e4m3, #columns>
    %grad_x = fp8moe.grouped_matmul %hq, %ut groups(%offsets : tensor<128xi32>)
        scales(%hs, %us : tensor<65536xf32>, tensor<128x2048xf32>) direction quantize
        : tensor<65536x1536x!fp8moe.e4m3>, tensor<128x1536x2048x!fp8moe.e4m3, #columns>
        -> tensor<65536x2048xbf16>
    %ht = fp8moe.transpose %hc [1, 0] : tensor<81792x1536x!fp8moe.e4m3, #padded>
        -> tensor<1536x81792x!fp8moe.e4m3, #padded_t>
    %grad_gate_up = fp8moe.grouped_matmul %ht, %xc groups(%offsets : tensor<128xi32>)
        scales(%hcs, %xcs : tensor<128x1536xf32>, tensor<128x2048xf32>) direction quantize
        : tensor<1536x81792x!fp8moe.e4m3, #padded_t>,
          tensor<81792x2048x!fp8moe.e4m3, #padded> -> tensor<128x1536x2048xbf16>
    return %grad_x, %grad_gate_up, %grad_down
        : tensor<65536x2048xbf16>, tensor<128x1536x2048xbf16>, tensor<128x2048x768xbf16>
  }
}
