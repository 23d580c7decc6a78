// The casts of the expert weights of one MoE layer to MXFP8, as they were first written
// for training (pytorch/ao, PR 2998): 64 experts with 1408 x 2048 weights each.
//
// Blocks of 32 lie along the contracted dimension: K for forward, N for dgrad. The first cast,
// to_mx(B), quantizes rows. The second one needs columns, for which only a kernel for matrices
// existed ("dim1"). All experts are therefore cast as one matrix. Its data and scales are copied
// back to one matrix per expert, in the order that the next matmul reads:
//
//   B [E, N, K] -> reshape [E N, K] -> cast along dimension 0
//     data   [E N, K] column-major -> [E, N, K], contiguous, each expert column-major
//     scales [K, E N / 32]         -> [K, E, N / 32] -> transpose, contiguous, tiles
//
// The layout passes leave one kernel. It reads the weights once and writes data and scales of both
// casts in the layouts that the matmuls read.
//
// Try it:
//   fp8moe-compile examples/mx_weights.mlir --target=sm_90a --target=cpu -o out --report
//   fp8moe-run out/cpu --random=1 --outputs=outputs.safetensors

#columns = #fp8moe.strided<[1, 0]>
#expert_columns = #fp8moe.strided<[0, 2, 1]>
// The layout of scales for Blackwell's tensor cores.
#tiles = #fp8moe.scale_blocked<128x4>

module {
  func.func @mx_weights(
      %weights: tensor<64x1408x2048xbf16> {fp8moe.name = "weights"})
      -> (tensor<64x1408x2048x!fp8moe.e4m3> {fp8moe.name = "forward"},
          tensor<64x1408x64xf8E8M0FNU, #tiles> {fp8moe.name = "forward_scales"},
          tensor<64x1408x2048x!fp8moe.e4m3, #expert_columns> {fp8moe.name = "backward"},
          tensor<64x2048x44xf8E8M0FNU, #tiles> {fp8moe.name = "backward_scales"}) {

    // Forward: to_mx(B), then its scales are blocked.
    %forward, %rows = fp8moe.mx_quantize %weights along [2] mode rceil
        : tensor<64x1408x2048xbf16>
        -> tensor<64x1408x2048x!fp8moe.e4m3>, tensor<64x1408x64xf8E8M0FNU>
    %forward_scales = fp8moe.relayout %rows
        : tensor<64x1408x64xf8E8M0FNU> -> tensor<64x1408x64xf8E8M0FNU, #tiles>

    // Backward: all experts as one matrix, cast along its columns.
    %matrix = fp8moe.reshape %weights
        : tensor<64x1408x2048xbf16> -> tensor<90112x2048xbf16>
    %q, %s = fp8moe.mx_quantize %matrix along [0] mode rceil : tensor<90112x2048xbf16>
        -> tensor<90112x2048x!fp8moe.e4m3, #columns>, tensor<2048x2816xf8E8M0FNU>

    // Data: one column of the matrix spans all experts, and becomes a column of each.
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

    // Scales: one blocked matrix per expert.
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
