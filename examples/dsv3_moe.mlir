// The matmuls of a mixture-of-experts layer of DeepSeek-V3, forward and backward: 8 of its 256
// experts, as on one of 32 GPUs, each of hidden size 2048, and the shared expert. Every matmul has
// a name and the decision `undecided`: the compiler decides which are worth FP8.
//
//   fp8moe-compile examples/dsv3_moe.mlir --target=sm_90a --tokens=32768 -o out --report
//
// Weights are [E, N, K], as transformers stores them, with gate and up projection in one. Tokens
// are sorted by expert, and `offsets` has the end row of each expert's group.

#columns = #fp8moe.strided<[1, 0]>
#expert_columns = #fp8moe.strided<[0, 2, 1]>

module {
  func.func @gate_up_forward(
      %x: tensor<?x7168xbf16> {fp8moe.name = "x"},
      %gate_up_proj: tensor<8x4096x7168xbf16> {fp8moe.name = "gate_up_proj"},
      %offsets: tensor<8xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x4096xbf16> {fp8moe.name = "y"}) {
    %gate_up_proj_t = fp8moe.transpose %gate_up_proj [0, 2, 1] : tensor<8x4096x7168xbf16> -> tensor<8x7168x4096xbf16, #expert_columns>
    %y = fp8moe.grouped_matmul %x, %gate_up_proj_t groups(%offsets : tensor<8xi32>)
        precision <undecided, "layers.3.mlp.experts.gate_up_proj", forward>
        : tensor<?x7168xbf16>, tensor<8x7168x4096xbf16, #expert_columns> -> tensor<?x4096xbf16>
    return %y : tensor<?x4096xbf16>
  }

  func.func @gate_up_backward(
      %x: tensor<?x7168xbf16> {fp8moe.name = "x"},
      %grad_y: tensor<?x4096xbf16> {fp8moe.name = "grad_y"},
      %gate_up_proj: tensor<8x4096x7168xbf16> {fp8moe.name = "gate_up_proj"},
      %offsets: tensor<8xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x7168xbf16> {fp8moe.name = "grad_x"},
          tensor<8x4096x7168xbf16> {fp8moe.name = "grad_gate_up_proj"}) {
    %grad_x = fp8moe.grouped_matmul %grad_y, %gate_up_proj groups(%offsets : tensor<8xi32>)
        precision <undecided, "layers.3.mlp.experts.gate_up_proj", dgrad>
        : tensor<?x4096xbf16>, tensor<8x4096x7168xbf16> -> tensor<?x7168xbf16>
    %grad_y_t = fp8moe.transpose %grad_y [1, 0] : tensor<?x4096xbf16> -> tensor<4096x?xbf16, #columns>
    %grad_gate_up_proj = fp8moe.grouped_matmul %grad_y_t, %x groups(%offsets : tensor<8xi32>)
        precision <undecided, "layers.3.mlp.experts.gate_up_proj", wgrad>
        : tensor<4096x?xbf16, #columns>, tensor<?x7168xbf16> -> tensor<8x4096x7168xbf16>
    return %grad_x, %grad_gate_up_proj : tensor<?x7168xbf16>, tensor<8x4096x7168xbf16>
  }

  func.func @down_forward(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"},
      %down_proj: tensor<8x7168x2048xbf16> {fp8moe.name = "down_proj"},
      %offsets: tensor<8xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x7168xbf16> {fp8moe.name = "y"}) {
    %down_proj_t = fp8moe.transpose %down_proj [0, 2, 1] : tensor<8x7168x2048xbf16> -> tensor<8x2048x7168xbf16, #expert_columns>
    %y = fp8moe.grouped_matmul %x, %down_proj_t groups(%offsets : tensor<8xi32>)
        precision <undecided, "layers.3.mlp.experts.down_proj", forward>
        : tensor<?x2048xbf16>, tensor<8x2048x7168xbf16, #expert_columns> -> tensor<?x7168xbf16>
    return %y : tensor<?x7168xbf16>
  }

  func.func @down_backward(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"},
      %grad_y: tensor<?x7168xbf16> {fp8moe.name = "grad_y"},
      %down_proj: tensor<8x7168x2048xbf16> {fp8moe.name = "down_proj"},
      %offsets: tensor<8xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2048xbf16> {fp8moe.name = "grad_x"},
          tensor<8x7168x2048xbf16> {fp8moe.name = "grad_down_proj"}) {
    %grad_x = fp8moe.grouped_matmul %grad_y, %down_proj groups(%offsets : tensor<8xi32>)
        precision <undecided, "layers.3.mlp.experts.down_proj", dgrad>
        : tensor<?x7168xbf16>, tensor<8x7168x2048xbf16> -> tensor<?x2048xbf16>
    %grad_y_t = fp8moe.transpose %grad_y [1, 0] : tensor<?x7168xbf16> -> tensor<7168x?xbf16, #columns>
    %grad_down_proj = fp8moe.grouped_matmul %grad_y_t, %x groups(%offsets : tensor<8xi32>)
        precision <undecided, "layers.3.mlp.experts.down_proj", wgrad>
        : tensor<7168x?xbf16, #columns>, tensor<?x2048xbf16> -> tensor<8x7168x2048xbf16>
    return %grad_x, %grad_down_proj : tensor<?x2048xbf16>, tensor<8x7168x2048xbf16>
  }

  // Every token goes to the shared expert.
  func.func @shared_in_forward(
      %x: tensor<?x7168xbf16> {fp8moe.name = "x"},
      %gate_proj: tensor<2048x7168xbf16> {fp8moe.name = "gate_proj"},
      %up_proj: tensor<2048x7168xbf16> {fp8moe.name = "up_proj"})
      -> (tensor<?x2048xbf16> {fp8moe.name = "gate_proj_y"},
          tensor<?x2048xbf16> {fp8moe.name = "up_proj_y"}) {
    %gate_proj_t = fp8moe.transpose %gate_proj [1, 0] : tensor<2048x7168xbf16> -> tensor<7168x2048xbf16, #columns>
    %gate_proj_y = fp8moe.linear %x, %gate_proj_t precision <undecided, "layers.3.mlp.shared_experts.gate_proj", forward>
        : tensor<?x7168xbf16>, tensor<7168x2048xbf16, #columns> -> tensor<?x2048xbf16>
    %up_proj_t = fp8moe.transpose %up_proj [1, 0] : tensor<2048x7168xbf16> -> tensor<7168x2048xbf16, #columns>
    %up_proj_y = fp8moe.linear %x, %up_proj_t precision <undecided, "layers.3.mlp.shared_experts.up_proj", forward>
        : tensor<?x7168xbf16>, tensor<7168x2048xbf16, #columns> -> tensor<?x2048xbf16>
    return %gate_proj_y, %up_proj_y : tensor<?x2048xbf16>, tensor<?x2048xbf16>
  }

  func.func @shared_in_backward(
      %x: tensor<?x7168xbf16> {fp8moe.name = "x"},
      %grad_gate_proj_y: tensor<?x2048xbf16> {fp8moe.name = "grad_gate_proj_y"},
      %grad_up_proj_y: tensor<?x2048xbf16> {fp8moe.name = "grad_up_proj_y"},
      %gate_proj: tensor<2048x7168xbf16> {fp8moe.name = "gate_proj"},
      %up_proj: tensor<2048x7168xbf16> {fp8moe.name = "up_proj"})
      -> (tensor<?x7168xbf16> {fp8moe.name = "grad_x"},
          tensor<2048x7168xbf16> {fp8moe.name = "grad_gate_proj"},
          tensor<2048x7168xbf16> {fp8moe.name = "grad_up_proj"}) {
    %grad_x_gate_proj = fp8moe.linear %grad_gate_proj_y, %gate_proj precision <undecided, "layers.3.mlp.shared_experts.gate_proj", dgrad>
        : tensor<?x2048xbf16>, tensor<2048x7168xbf16> -> tensor<?x7168xbf16>
    %grad_x = fp8moe.linear %grad_up_proj_y, %up_proj
        accumulate(%grad_x_gate_proj : tensor<?x7168xbf16>) precision <undecided, "layers.3.mlp.shared_experts.up_proj", dgrad>
        : tensor<?x2048xbf16>, tensor<2048x7168xbf16> -> tensor<?x7168xbf16>
    %grad_gate_proj_y_t = fp8moe.transpose %grad_gate_proj_y [1, 0] : tensor<?x2048xbf16> -> tensor<2048x?xbf16, #columns>
    %grad_gate_proj = fp8moe.linear %grad_gate_proj_y_t, %x precision <undecided, "layers.3.mlp.shared_experts.gate_proj", wgrad>
        : tensor<2048x?xbf16, #columns>, tensor<?x7168xbf16> -> tensor<2048x7168xbf16>
    %grad_up_proj_y_t = fp8moe.transpose %grad_up_proj_y [1, 0] : tensor<?x2048xbf16> -> tensor<2048x?xbf16, #columns>
    %grad_up_proj = fp8moe.linear %grad_up_proj_y_t, %x precision <undecided, "layers.3.mlp.shared_experts.up_proj", wgrad>
        : tensor<2048x?xbf16, #columns>, tensor<?x7168xbf16> -> tensor<2048x7168xbf16>
    return %grad_x, %grad_gate_proj, %grad_up_proj
        : tensor<?x7168xbf16>, tensor<2048x7168xbf16>, tensor<2048x7168xbf16>
  }

  func.func @shared_out_forward(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"},
      %down_proj: tensor<7168x2048xbf16> {fp8moe.name = "down_proj"})
      -> (tensor<?x7168xbf16> {fp8moe.name = "down_proj_y"}) {
    %down_proj_t = fp8moe.transpose %down_proj [1, 0] : tensor<7168x2048xbf16> -> tensor<2048x7168xbf16, #columns>
    %down_proj_y = fp8moe.linear %x, %down_proj_t precision <undecided, "layers.3.mlp.shared_experts.down_proj", forward>
        : tensor<?x2048xbf16>, tensor<2048x7168xbf16, #columns> -> tensor<?x7168xbf16>
    return %down_proj_y : tensor<?x7168xbf16>
  }

  func.func @shared_out_backward(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"},
      %grad_down_proj_y: tensor<?x7168xbf16> {fp8moe.name = "grad_down_proj_y"},
      %down_proj: tensor<7168x2048xbf16> {fp8moe.name = "down_proj"})
      -> (tensor<?x2048xbf16> {fp8moe.name = "grad_x"},
          tensor<7168x2048xbf16> {fp8moe.name = "grad_down_proj"}) {
    %grad_x = fp8moe.linear %grad_down_proj_y, %down_proj precision <undecided, "layers.3.mlp.shared_experts.down_proj", dgrad>
        : tensor<?x7168xbf16>, tensor<7168x2048xbf16> -> tensor<?x2048xbf16>
    %grad_down_proj_y_t = fp8moe.transpose %grad_down_proj_y [1, 0] : tensor<?x7168xbf16> -> tensor<7168x?xbf16, #columns>
    %grad_down_proj = fp8moe.linear %grad_down_proj_y_t, %x precision <undecided, "layers.3.mlp.shared_experts.down_proj", wgrad>
        : tensor<7168x?xbf16, #columns>, tensor<?x2048xbf16> -> tensor<7168x2048xbf16>
    return %grad_x, %grad_down_proj : tensor<?x2048xbf16>, tensor<7168x2048xbf16>
  }
}
