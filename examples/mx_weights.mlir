// The casts of the expert weights of one MoE layer to MXFP8, as they were first written
// for training (pytorch/ao, PR 2998): 64 experts with 1408 x 2048 weights each.
//
// Blocks of 32 lie along the dimension that a matmul contracts: K in the forward pass,
// N for the gradient of the input. The first cast, to_mx(B), takes rows. The second one
// wants columns, for which there was a kernel of matrices only ("dim1"). So all experts
// are cast as one matrix, and its data and its scales are copied back to one matrix per
// expert, in the order that the next matmul reads:
//
//   B [E, N, K] -> reshape [E N, K] -> cast along dimension 0
//     data   [E N, K] column-major -> [E, N, K], contiguous, each expert column-major
//     scales [K, E N / 32]         -> [K, E, N / 32] -> transpose, contiguous, tiles
//
// The layout passes leave one kernel: it reads the weights once, and writes data and
// scales of both casts where the matmuls read them.
//
// Try it:
//   fp8moe-compile examples/mx_weights.mlir --target=sm_90a --target=cpu -o out --report
//   fp8moe-run out/cpu --random=1 --outputs=outputs.safetensors

#columns = #fp8moe.strided<[1, 0]>
#expert_columns = #fp8moe.strided<[0, 2, 1]>
// The layout of scales that the tensor cores of Blackwell read.
#tiles = #fp8moe.scale_blocked<128x4>

module {
  func.func @mx_weights(
      %weights: tensor<64x1408x2048xbf16> {fp8moe.name = "weights"})
      -> (tensor<64x1408x2048x!fp8moe.e4m3> {fp8moe.name = "forward"},
          tensor<64x1408x64xf8E8M0FNU, #tiles> {fp8moe.name = "forward_scales"},
          tensor<64x1408x2048x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "backward"},
          tensor<64x2048x44xf8E8M0FNU, #tiles> {fp8moe.name = "backward_scales"}) {

    // The forward pass: to_mx(B), and its scales to tiles.
    %forward, %rows = fp8moe.mx_quantize %weights along [2] mode rceil
        : tensor<64x1408x2048xbf16>
        -> tensor<64x1408x2048x!fp8moe.e4m3>, tensor<64x1408x64xf8E8M0FNU>
    %forward_scales = fp8moe.relayout %rows
        : tensor<64x1408x64xf8E8M0FNU> -> tensor<64x1408x64xf8E8M0FNU, #tiles>

    // The backward pass: all experts as one matrix, cast along its columns.
    %matrix = fp8moe.reshape %weights
        : tensor<64x1408x2048xbf16> -> tensor<90112x2048xbf16>
    %q, %s = fp8moe.mx_quantize %matrix along [0] mode rceil : tensor<90112x2048xbf16>
        -> tensor<90112x2048x!fp8moe.e4m3, #columns>, tensor<2048x2816xf8E8M0FNU>

    // Its data: each expert's columns were a column of all experts apart.
    %experts = fp8moe.reshape %q : tensor<90112x2048x!fp8moe.e4m3, #columns>
        -> tensor<64x1408x2048x!fp8moe.e4m3, #fp8moe.strided<[2, 0, 1]>>
    %transposed = fp8moe.transpose %experts [0, 2, 1]
        : tensor<64x1408x2048x!fp8moe.e4m3, #fp8moe.strided<[2, 0, 1]>>
        -> tensor<64x2048x1408x!fp8moe.e4m3, #fp8moe.strided<[1, 0, 2]>>
    %copied = fp8moe.contiguous %transposed
        : tensor<64x2048x1408x!fp8moe.e4m3, #fp8moe.strided<[1, 0, 2]>>
        -> tensor<64x2048x1408x!fp8moe.e4m3>
    %backward = fp8moe.transpose %copied [0, 2, 1]
        : tensor<64x2048x1408x!fp8moe.e4m3>
        -> tensor<64x1408x2048x!fp8moe.e4m3, #expert_columns>

    // Its scales: one matrix for each expert, in tiles.
    %split = fp8moe.reshape %s
        : tensor<2048x2816xf8E8M0FNU> -> tensor<2048x64x44xf8E8M0FNU>
    %moved = fp8moe.transpose %split [1, 0, 2] : tensor<2048x64x44xf8E8M0FNU>
        -> tensor<64x2048x44xf8E8M0FNU, #fp8moe.strided<[1, 0, 2]>>
    %of_experts = fp8moe.contiguous %moved
        : tensor<64x2048x44xf8E8M0FNU, #fp8moe.strided<[1, 0, 2]>>
        -> tensor<64x2048x44xf8E8M0FNU>
    %backward_scales = fp8moe.relayout %of_experts
        : tensor<64x2048x44xf8E8M0FNU> -> tensor<64x2048x44xf8E8M0FNU, #tiles>

    return %forward, %forward_scales, %backward, %backward_scales
        : tensor<64x1408x2048x!fp8moe.e4m3>, tensor<64x1408x64xf8E8M0FNU, #tiles>,
          tensor<64x1408x2048x!fp8moe.e4m3, #expert_columns>,
          tensor<64x2048x44xf8E8M0FNU, #tiles>
  }
}
