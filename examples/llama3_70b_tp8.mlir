// The linear layers of Llama3 70B on one of eight GPUs (tensor parallelism), forward and backward.
// Weights are [N, K], as in torch.nn.Linear. Every matmul has a name and the decision `undecided`:
// the compiler decides which are worth FP8.
//
//   fp8moe-compile examples/llama3_70b_tp8.mlir --target=sm_90a --tokens=8192 -o out --report
//       a table of the time of each in bf16 and in FP8, with the reason of the decision
//   fp8moe-opt examples/llama3_70b_tp8.mlir --fp8moe-attach-target=chip=sm_90a --fp8moe-select-precision=tokens=8192
//       the decisions in the IR, which can be edited before the compiler follows them
//
// Hidden size 8192, 64 heads and 8 key-value heads of 128, feed-forward size 28672, 128256 words.
// Each GPU has an eighth of N in wq, wk, wv, w1, w3 and output, and an eighth of K in wo and w2.

#columns = #fp8moe.strided<[1, 0]>

module {
  // The layers share their input, so those in FP8 share its quantization.
  func.func @attention_in_forward(
      %x: tensor<?x8192xbf16> {fp8moe.name = "x"},
      %wq: tensor<1024x8192xbf16> {fp8moe.name = "wq"},
      %wk: tensor<128x8192xbf16> {fp8moe.name = "wk"},
      %wv: tensor<128x8192xbf16> {fp8moe.name = "wv"})
      -> (tensor<?x1024xbf16> {fp8moe.name = "wq_y"},
          tensor<?x128xbf16> {fp8moe.name = "wk_y"},
          tensor<?x128xbf16> {fp8moe.name = "wv_y"}) {
    %wq_t = fp8moe.transpose %wq [1, 0] : tensor<1024x8192xbf16> -> tensor<8192x1024xbf16, #columns>
    %wq_y = fp8moe.linear %x, %wq_t precision <undecided, "layers.0.attention.wq", forward>
        : tensor<?x8192xbf16>, tensor<8192x1024xbf16, #columns> -> tensor<?x1024xbf16>
    %wk_t = fp8moe.transpose %wk [1, 0] : tensor<128x8192xbf16> -> tensor<8192x128xbf16, #columns>
    %wk_y = fp8moe.linear %x, %wk_t precision <undecided, "layers.0.attention.wk", forward>
        : tensor<?x8192xbf16>, tensor<8192x128xbf16, #columns> -> tensor<?x128xbf16>
    %wv_t = fp8moe.transpose %wv [1, 0] : tensor<128x8192xbf16> -> tensor<8192x128xbf16, #columns>
    %wv_y = fp8moe.linear %x, %wv_t precision <undecided, "layers.0.attention.wv", forward>
        : tensor<?x8192xbf16>, tensor<8192x128xbf16, #columns> -> tensor<?x128xbf16>
    return %wq_y, %wk_y, %wv_y : tensor<?x1024xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
  }

  // The gradients of the shared input are added.
  func.func @attention_in_backward(
      %x: tensor<?x8192xbf16> {fp8moe.name = "x"},
      %grad_wq_y: tensor<?x1024xbf16> {fp8moe.name = "grad_wq_y"},
      %grad_wk_y: tensor<?x128xbf16> {fp8moe.name = "grad_wk_y"},
      %grad_wv_y: tensor<?x128xbf16> {fp8moe.name = "grad_wv_y"},
      %wq: tensor<1024x8192xbf16> {fp8moe.name = "wq"},
      %wk: tensor<128x8192xbf16> {fp8moe.name = "wk"},
      %wv: tensor<128x8192xbf16> {fp8moe.name = "wv"})
      -> (tensor<?x8192xbf16> {fp8moe.name = "grad_x"},
          tensor<1024x8192xbf16> {fp8moe.name = "grad_wq"},
          tensor<128x8192xbf16> {fp8moe.name = "grad_wk"},
          tensor<128x8192xbf16> {fp8moe.name = "grad_wv"}) {
    %grad_x_wq = fp8moe.linear %grad_wq_y, %wq precision <undecided, "layers.0.attention.wq", dgrad>
        : tensor<?x1024xbf16>, tensor<1024x8192xbf16> -> tensor<?x8192xbf16>
    %grad_x_wk = fp8moe.linear %grad_wk_y, %wk
        accumulate(%grad_x_wq : tensor<?x8192xbf16>) precision <undecided, "layers.0.attention.wk", dgrad>
        : tensor<?x128xbf16>, tensor<128x8192xbf16> -> tensor<?x8192xbf16>
    %grad_x = fp8moe.linear %grad_wv_y, %wv
        accumulate(%grad_x_wk : tensor<?x8192xbf16>) precision <undecided, "layers.0.attention.wv", dgrad>
        : tensor<?x128xbf16>, tensor<128x8192xbf16> -> tensor<?x8192xbf16>
    %grad_wq_y_t = fp8moe.transpose %grad_wq_y [1, 0] : tensor<?x1024xbf16> -> tensor<1024x?xbf16, #columns>
    %grad_wq = fp8moe.linear %grad_wq_y_t, %x precision <undecided, "layers.0.attention.wq", wgrad>
        : tensor<1024x?xbf16, #columns>, tensor<?x8192xbf16> -> tensor<1024x8192xbf16>
    %grad_wk_y_t = fp8moe.transpose %grad_wk_y [1, 0] : tensor<?x128xbf16> -> tensor<128x?xbf16, #columns>
    %grad_wk = fp8moe.linear %grad_wk_y_t, %x precision <undecided, "layers.0.attention.wk", wgrad>
        : tensor<128x?xbf16, #columns>, tensor<?x8192xbf16> -> tensor<128x8192xbf16>
    %grad_wv_y_t = fp8moe.transpose %grad_wv_y [1, 0] : tensor<?x128xbf16> -> tensor<128x?xbf16, #columns>
    %grad_wv = fp8moe.linear %grad_wv_y_t, %x precision <undecided, "layers.0.attention.wv", wgrad>
        : tensor<128x?xbf16, #columns>, tensor<?x8192xbf16> -> tensor<128x8192xbf16>
    return %grad_x, %grad_wq, %grad_wk, %grad_wv
        : tensor<?x8192xbf16>, tensor<1024x8192xbf16>, tensor<128x8192xbf16>, tensor<128x8192xbf16>
  }

  func.func @attention_out_forward(
      %x: tensor<?x1024xbf16> {fp8moe.name = "x"},
      %wo: tensor<8192x1024xbf16> {fp8moe.name = "wo"})
      -> (tensor<?x8192xbf16> {fp8moe.name = "wo_y"}) {
    %wo_t = fp8moe.transpose %wo [1, 0] : tensor<8192x1024xbf16> -> tensor<1024x8192xbf16, #columns>
    %wo_y = fp8moe.linear %x, %wo_t precision <undecided, "layers.0.attention.wo", forward>
        : tensor<?x1024xbf16>, tensor<1024x8192xbf16, #columns> -> tensor<?x8192xbf16>
    return %wo_y : tensor<?x8192xbf16>
  }

  func.func @attention_out_backward(
      %x: tensor<?x1024xbf16> {fp8moe.name = "x"},
      %grad_wo_y: tensor<?x8192xbf16> {fp8moe.name = "grad_wo_y"},
      %wo: tensor<8192x1024xbf16> {fp8moe.name = "wo"})
      -> (tensor<?x1024xbf16> {fp8moe.name = "grad_x"},
          tensor<8192x1024xbf16> {fp8moe.name = "grad_wo"}) {
    %grad_x = fp8moe.linear %grad_wo_y, %wo precision <undecided, "layers.0.attention.wo", dgrad>
        : tensor<?x8192xbf16>, tensor<8192x1024xbf16> -> tensor<?x1024xbf16>
    %grad_wo_y_t = fp8moe.transpose %grad_wo_y [1, 0] : tensor<?x8192xbf16> -> tensor<8192x?xbf16, #columns>
    %grad_wo = fp8moe.linear %grad_wo_y_t, %x precision <undecided, "layers.0.attention.wo", wgrad>
        : tensor<8192x?xbf16, #columns>, tensor<?x1024xbf16> -> tensor<8192x1024xbf16>
    return %grad_x, %grad_wo : tensor<?x1024xbf16>, tensor<8192x1024xbf16>
  }

  func.func @feed_forward_in_forward(
      %x: tensor<?x8192xbf16> {fp8moe.name = "x"},
      %w1: tensor<3584x8192xbf16> {fp8moe.name = "w1"},
      %w3: tensor<3584x8192xbf16> {fp8moe.name = "w3"})
      -> (tensor<?x3584xbf16> {fp8moe.name = "w1_y"},
          tensor<?x3584xbf16> {fp8moe.name = "w3_y"}) {
    %w1_t = fp8moe.transpose %w1 [1, 0] : tensor<3584x8192xbf16> -> tensor<8192x3584xbf16, #columns>
    %w1_y = fp8moe.linear %x, %w1_t precision <undecided, "layers.0.feed_forward.w1", forward>
        : tensor<?x8192xbf16>, tensor<8192x3584xbf16, #columns> -> tensor<?x3584xbf16>
    %w3_t = fp8moe.transpose %w3 [1, 0] : tensor<3584x8192xbf16> -> tensor<8192x3584xbf16, #columns>
    %w3_y = fp8moe.linear %x, %w3_t precision <undecided, "layers.0.feed_forward.w3", forward>
        : tensor<?x8192xbf16>, tensor<8192x3584xbf16, #columns> -> tensor<?x3584xbf16>
    return %w1_y, %w3_y : tensor<?x3584xbf16>, tensor<?x3584xbf16>
  }

  func.func @feed_forward_in_backward(
      %x: tensor<?x8192xbf16> {fp8moe.name = "x"},
      %grad_w1_y: tensor<?x3584xbf16> {fp8moe.name = "grad_w1_y"},
      %grad_w3_y: tensor<?x3584xbf16> {fp8moe.name = "grad_w3_y"},
      %w1: tensor<3584x8192xbf16> {fp8moe.name = "w1"},
      %w3: tensor<3584x8192xbf16> {fp8moe.name = "w3"})
      -> (tensor<?x8192xbf16> {fp8moe.name = "grad_x"},
          tensor<3584x8192xbf16> {fp8moe.name = "grad_w1"},
          tensor<3584x8192xbf16> {fp8moe.name = "grad_w3"}) {
    %grad_x_w1 = fp8moe.linear %grad_w1_y, %w1 precision <undecided, "layers.0.feed_forward.w1", dgrad>
        : tensor<?x3584xbf16>, tensor<3584x8192xbf16> -> tensor<?x8192xbf16>
    %grad_x = fp8moe.linear %grad_w3_y, %w3
        accumulate(%grad_x_w1 : tensor<?x8192xbf16>) precision <undecided, "layers.0.feed_forward.w3", dgrad>
        : tensor<?x3584xbf16>, tensor<3584x8192xbf16> -> tensor<?x8192xbf16>
    %grad_w1_y_t = fp8moe.transpose %grad_w1_y [1, 0] : tensor<?x3584xbf16> -> tensor<3584x?xbf16, #columns>
    %grad_w1 = fp8moe.linear %grad_w1_y_t, %x precision <undecided, "layers.0.feed_forward.w1", wgrad>
        : tensor<3584x?xbf16, #columns>, tensor<?x8192xbf16> -> tensor<3584x8192xbf16>
    %grad_w3_y_t = fp8moe.transpose %grad_w3_y [1, 0] : tensor<?x3584xbf16> -> tensor<3584x?xbf16, #columns>
    %grad_w3 = fp8moe.linear %grad_w3_y_t, %x precision <undecided, "layers.0.feed_forward.w3", wgrad>
        : tensor<3584x?xbf16, #columns>, tensor<?x8192xbf16> -> tensor<3584x8192xbf16>
    return %grad_x, %grad_w1, %grad_w3 : tensor<?x8192xbf16>, tensor<3584x8192xbf16>, tensor<3584x8192xbf16>
  }

  func.func @feed_forward_out_forward(
      %x: tensor<?x3584xbf16> {fp8moe.name = "x"},
      %w2: tensor<8192x3584xbf16> {fp8moe.name = "w2"})
      -> (tensor<?x8192xbf16> {fp8moe.name = "w2_y"}) {
    %w2_t = fp8moe.transpose %w2 [1, 0] : tensor<8192x3584xbf16> -> tensor<3584x8192xbf16, #columns>
    %w2_y = fp8moe.linear %x, %w2_t precision <undecided, "layers.0.feed_forward.w2", forward>
        : tensor<?x3584xbf16>, tensor<3584x8192xbf16, #columns> -> tensor<?x8192xbf16>
    return %w2_y : tensor<?x8192xbf16>
  }

  func.func @feed_forward_out_backward(
      %x: tensor<?x3584xbf16> {fp8moe.name = "x"},
      %grad_w2_y: tensor<?x8192xbf16> {fp8moe.name = "grad_w2_y"},
      %w2: tensor<8192x3584xbf16> {fp8moe.name = "w2"})
      -> (tensor<?x3584xbf16> {fp8moe.name = "grad_x"},
          tensor<8192x3584xbf16> {fp8moe.name = "grad_w2"}) {
    %grad_x = fp8moe.linear %grad_w2_y, %w2 precision <undecided, "layers.0.feed_forward.w2", dgrad>
        : tensor<?x8192xbf16>, tensor<8192x3584xbf16> -> tensor<?x3584xbf16>
    %grad_w2_y_t = fp8moe.transpose %grad_w2_y [1, 0] : tensor<?x8192xbf16> -> tensor<8192x?xbf16, #columns>
    %grad_w2 = fp8moe.linear %grad_w2_y_t, %x precision <undecided, "layers.0.feed_forward.w2", wgrad>
        : tensor<8192x?xbf16, #columns>, tensor<?x3584xbf16> -> tensor<8192x3584xbf16>
    return %grad_x, %grad_w2 : tensor<?x3584xbf16>, tensor<8192x3584xbf16>
  }

  // The last layer. Recipes usually exclude it from FP8 by its name.
  func.func @output_forward(
      %x: tensor<?x8192xbf16> {fp8moe.name = "x"},
      %output: tensor<16032x8192xbf16> {fp8moe.name = "output"})
      -> (tensor<?x16032xbf16> {fp8moe.name = "output_y"}) {
    %output_t = fp8moe.transpose %output [1, 0] : tensor<16032x8192xbf16> -> tensor<8192x16032xbf16, #columns>
    %output_y = fp8moe.linear %x, %output_t precision <undecided, "output", forward>
        : tensor<?x8192xbf16>, tensor<8192x16032xbf16, #columns> -> tensor<?x16032xbf16>
    return %output_y : tensor<?x16032xbf16>
  }

  func.func @output_backward(
      %x: tensor<?x8192xbf16> {fp8moe.name = "x"},
      %grad_output_y: tensor<?x16032xbf16> {fp8moe.name = "grad_output_y"},
      %output: tensor<16032x8192xbf16> {fp8moe.name = "output"})
      -> (tensor<?x8192xbf16> {fp8moe.name = "grad_x"},
          tensor<16032x8192xbf16> {fp8moe.name = "grad_output"}) {
    %grad_x = fp8moe.linear %grad_output_y, %output precision <undecided, "output", dgrad>
        : tensor<?x16032xbf16>, tensor<16032x8192xbf16> -> tensor<?x8192xbf16>
    %grad_output_y_t = fp8moe.transpose %grad_output_y [1, 0] : tensor<?x16032xbf16> -> tensor<16032x?xbf16, #columns>
    %grad_output = fp8moe.linear %grad_output_y_t, %x precision <undecided, "output", wgrad>
        : tensor<16032x?xbf16, #columns>, tensor<?x8192xbf16> -> tensor<16032x8192xbf16>
    return %grad_x, %grad_output : tensor<?x8192xbf16>, tensor<16032x8192xbf16>
  }
}
