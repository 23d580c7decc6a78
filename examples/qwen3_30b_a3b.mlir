// The matmuls of a mixture-of-experts layer of Qwen3-30B-A3B, forward and backward: 128 experts of
// hidden size 768. They are so small that FP8 is not always faster. Every matmul has a name and the
// decision `undecided`: the compiler decides which are worth FP8.
//
//   fp8moe-compile examples/qwen3_30b_a3b.mlir --target=sm_90a --tokens=131072 -o out --report
//
// Weights are [E, N, K], as transformers stores them, with gate and up projection in one. Tokens
// are sorted by expert, and `offsets` has the end row of each expert's group.

#columns = #fp8moe.strided<[1, 0]>
#expert_columns = #fp8moe.strided<[0, 2, 1]>

module {
  func.func @gate_up_forward(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"},
      %gate_up_proj: tensor<128x1536x2048xbf16> {fp8moe.name = "gate_up_proj"},
      %offsets: tensor<128xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x1536xbf16> {fp8moe.name = "y"}) {
    %gate_up_proj_t = fp8moe.transpose %gate_up_proj [0, 2, 1] : tensor<128x1536x2048xbf16> -> tensor<128x2048x1536xbf16, #expert_columns>
    %y = fp8moe.grouped_matmul %x, %gate_up_proj_t groups(%offsets : tensor<128xi32>)
        precision <undecided, "layers.0.mlp.experts.gate_up_proj", forward>
        : tensor<?x2048xbf16>, tensor<128x2048x1536xbf16, #expert_columns> -> tensor<?x1536xbf16>
    return %y : tensor<?x1536xbf16>
  }

  func.func @gate_up_backward(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"},
      %grad_y: tensor<?x1536xbf16> {fp8moe.name = "grad_y"},
      %gate_up_proj: tensor<128x1536x2048xbf16> {fp8moe.name = "gate_up_proj"},
      %offsets: tensor<128xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2048xbf16> {fp8moe.name = "grad_x"},
          tensor<128x1536x2048xbf16> {fp8moe.name = "grad_gate_up_proj"}) {
    %grad_x = fp8moe.grouped_matmul %grad_y, %gate_up_proj groups(%offsets : tensor<128xi32>)
        precision <undecided, "layers.0.mlp.experts.gate_up_proj", dgrad>
        : tensor<?x1536xbf16>, tensor<128x1536x2048xbf16> -> tensor<?x2048xbf16>
    %grad_y_t = fp8moe.transpose %grad_y [1, 0] : tensor<?x1536xbf16> -> tensor<1536x?xbf16, #columns>
    %grad_gate_up_proj = fp8moe.grouped_matmul %grad_y_t, %x groups(%offsets : tensor<128xi32>)
        precision <undecided, "layers.0.mlp.experts.gate_up_proj", wgrad>
        : tensor<1536x?xbf16, #columns>, tensor<?x2048xbf16> -> tensor<128x1536x2048xbf16>
    return %grad_x, %grad_gate_up_proj : tensor<?x2048xbf16>, tensor<128x1536x2048xbf16>
  }

  func.func @down_forward(
      %x: tensor<?x768xbf16> {fp8moe.name = "x"},
      %down_proj: tensor<128x2048x768xbf16> {fp8moe.name = "down_proj"},
      %offsets: tensor<128xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2048xbf16> {fp8moe.name = "y"}) {
    %down_proj_t = fp8moe.transpose %down_proj [0, 2, 1] : tensor<128x2048x768xbf16> -> tensor<128x768x2048xbf16, #expert_columns>
    %y = fp8moe.grouped_matmul %x, %down_proj_t groups(%offsets : tensor<128xi32>)
        precision <undecided, "layers.0.mlp.experts.down_proj", forward>
        : tensor<?x768xbf16>, tensor<128x768x2048xbf16, #expert_columns> -> tensor<?x2048xbf16>
    return %y : tensor<?x2048xbf16>
  }

  func.func @down_backward(
      %x: tensor<?x768xbf16> {fp8moe.name = "x"},
      %grad_y: tensor<?x2048xbf16> {fp8moe.name = "grad_y"},
      %down_proj: tensor<128x2048x768xbf16> {fp8moe.name = "down_proj"},
      %offsets: tensor<128xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x768xbf16> {fp8moe.name = "grad_x"},
          tensor<128x2048x768xbf16> {fp8moe.name = "grad_down_proj"}) {
    %grad_x = fp8moe.grouped_matmul %grad_y, %down_proj groups(%offsets : tensor<128xi32>)
        precision <undecided, "layers.0.mlp.experts.down_proj", dgrad>
        : tensor<?x2048xbf16>, tensor<128x2048x768xbf16> -> tensor<?x768xbf16>
    %grad_y_t = fp8moe.transpose %grad_y [1, 0] : tensor<?x2048xbf16> -> tensor<2048x?xbf16, #columns>
    %grad_down_proj = fp8moe.grouped_matmul %grad_y_t, %x groups(%offsets : tensor<128xi32>)
        precision <undecided, "layers.0.mlp.experts.down_proj", wgrad>
        : tensor<2048x?xbf16, #columns>, tensor<?x768xbf16> -> tensor<128x2048x768xbf16>
    return %grad_x, %grad_down_proj : tensor<?x768xbf16>, tensor<128x2048x768xbf16>
  }
}
