// Sizes on both sides of each of torchao's thresholds. Neither the use of the weights nor the
// number of rows or experts matters.

// RUN: fp8moe-opt %s --fp8moe-select-precision="policy=torchao" | FileCheck %s --check-prefix=ROW
// RUN: fp8moe-opt %s --fp8moe-select-precision="policy=torchao recipe=tensorwise" | FileCheck %s --check-prefix=TENSOR

#columns = #fp8moe.strided<[1, 0]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // ROW-LABEL: func @n_2048(
  // ROW: precision <bf16, "n_2048", forward{{.*}} reason = "torchao: N = 2048 <= 2048"
  func.func @n_2048(%x: tensor<?x8192xbf16>, %w: tensor<8192x2048xbf16>) -> tensor<?x2048xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "n_2048", forward>
        : tensor<?x8192xbf16>, tensor<8192x2048xbf16> -> tensor<?x2048xbf16>
    return %y : tensor<?x2048xbf16>
  }

  // ROW-LABEL: func @n_2064(
  // ROW: precision <fp8, "n_2064", forward{{.*}} reason = "torchao: above its thresholds"
  func.func @n_2064(%x: tensor<?x8192xbf16>, %w: tensor<8192x2064xbf16>) -> tensor<?x2064xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "n_2064", forward>
        : tensor<?x8192xbf16>, tensor<8192x2064xbf16> -> tensor<?x2064xbf16>
    return %y : tensor<?x2064xbf16>
  }

  // ROW-LABEL: func @k_1024(
  // ROW: precision <bf16, "k_1024", forward{{.*}} reason = "torchao: K = 1024 <= 1024"
  func.func @k_1024(%x: tensor<?x1024xbf16>, %w: tensor<1024x8192xbf16>) -> tensor<?x8192xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "k_1024", forward>
        : tensor<?x1024xbf16>, tensor<1024x8192xbf16> -> tensor<?x8192xbf16>
    return %y : tensor<?x8192xbf16>
  }

  // ROW-LABEL: func @k_1040(
  // ROW: precision <fp8, "k_1040", forward
  func.func @k_1040(%x: tensor<?x1040xbf16>, %w: tensor<1040x8192xbf16>) -> tensor<?x8192xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "k_1040", forward>
        : tensor<?x1040xbf16>, tensor<1040x8192xbf16> -> tensor<?x8192xbf16>
    return %y : tensor<?x8192xbf16>
  }

  // ROW-LABEL: func @n_4096_k_2048(
  // ROW: precision <bf16, "n_4096_k_2048", forward{{.*}} reason = "torchao: N = 4096 <= 4096 and K = 2048 <= 2048"
  func.func @n_4096_k_2048(%x: tensor<?x2048xbf16>, %w: tensor<2048x4096xbf16>) -> tensor<?x4096xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "n_4096_k_2048", forward>
        : tensor<?x2048xbf16>, tensor<2048x4096xbf16> -> tensor<?x4096xbf16>
    return %y : tensor<?x4096xbf16>
  }

  // ROW-LABEL: func @n_4112_k_2048(
  // ROW: precision <fp8, "n_4112_k_2048", forward
  func.func @n_4112_k_2048(%x: tensor<?x2048xbf16>, %w: tensor<2048x4112xbf16>) -> tensor<?x4112xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "n_4112_k_2048", forward>
        : tensor<?x2048xbf16>, tensor<2048x4112xbf16> -> tensor<?x4112xbf16>
    return %y : tensor<?x4112xbf16>
  }

  // ROW-LABEL: func @n_4096_k_2064(
  // ROW: precision <fp8, "n_4096_k_2064", forward
  func.func @n_4096_k_2064(%x: tensor<?x2064xbf16>, %w: tensor<2064x4096xbf16>) -> tensor<?x4096xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "n_4096_k_2064", forward>
        : tensor<?x2064xbf16>, tensor<2064x4096xbf16> -> tensor<?x4096xbf16>
    return %y : tensor<?x4096xbf16>
  }

  // ROW-LABEL: func @n_unaligned(
  // ROW: precision <bf16, "n_unaligned", forward{{.*}} reason = "N = 8200 is no multiple of 16"
  func.func @n_unaligned(%x: tensor<?x8192xbf16>, %w: tensor<8192x8200xbf16>) -> tensor<?x8200xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "n_unaligned", forward>
        : tensor<?x8192xbf16>, tensor<8192x8200xbf16> -> tensor<?x8200xbf16>
    return %y : tensor<?x8200xbf16>
  }

  // ROW-LABEL: func @k_unaligned(
  // ROW: precision <bf16, "k_unaligned", forward{{.*}} reason = "K = 8200 is no multiple of 16"
  func.func @k_unaligned(%x: tensor<?x8200xbf16>, %w: tensor<8200x8192xbf16>) -> tensor<?x8192xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "k_unaligned", forward>
        : tensor<?x8200xbf16>, tensor<8200x8192xbf16> -> tensor<?x8192xbf16>
    return %y : tensor<?x8192xbf16>
  }

  // TENSOR-LABEL: func @n_1024_k_4096(
  // TENSOR: precision <bf16, "n_1024_k_4096", forward{{.*}} reason = "torchao: K = 4096 <= 4096 and N = 1024 <= 1024"
  func.func @n_1024_k_4096(%x: tensor<?x4096xbf16>, %w: tensor<4096x1024xbf16>) -> tensor<?x1024xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "n_1024_k_4096", forward>
        : tensor<?x4096xbf16>, tensor<4096x1024xbf16> -> tensor<?x1024xbf16>
    return %y : tensor<?x1024xbf16>
  }

  // TENSOR-LABEL: func @n_1040_k_4096(
  // TENSOR: precision <fp8, "n_1040_k_4096", forward
  func.func @n_1040_k_4096(%x: tensor<?x4096xbf16>, %w: tensor<4096x1040xbf16>) -> tensor<?x1040xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "n_1040_k_4096", forward>
        : tensor<?x4096xbf16>, tensor<4096x1040xbf16> -> tensor<?x1040xbf16>
    return %y : tensor<?x1040xbf16>
  }

  // TENSOR-LABEL: func @n_1024_k_4112(
  // TENSOR: precision <fp8, "n_1024_k_4112", forward
  func.func @n_1024_k_4112(%x: tensor<?x4112xbf16>, %w: tensor<4112x1024xbf16>) -> tensor<?x1024xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "n_1024_k_4112", forward>
        : tensor<?x4112xbf16>, tensor<4112x1024xbf16> -> tensor<?x1024xbf16>
    return %y : tensor<?x1024xbf16>
  }

  // TENSOR-LABEL: func @n_16_k_16(
  // TENSOR: precision <bf16, "n_16_k_16", forward
  func.func @n_16_k_16(%x: tensor<?x16xbf16>, %w: tensor<16x16xbf16>) -> tensor<?x16xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "n_16_k_16", forward>
        : tensor<?x16xbf16>, tensor<16x16xbf16> -> tensor<?x16xbf16>
    return %y : tensor<?x16xbf16>
  }

  // TENSOR-LABEL: func @tensorwise_unaligned(
  // TENSOR: precision <bf16, "tensorwise_unaligned", forward{{.*}} reason = "N = 8200 is no multiple of 16"
  func.func @tensorwise_unaligned(%x: tensor<?x8192xbf16>, %w: tensor<8192x8200xbf16>) -> tensor<?x8200xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "tensorwise_unaligned", forward>
        : tensor<?x8192xbf16>, tensor<8192x8200xbf16> -> tensor<?x8200xbf16>
    return %y : tensor<?x8200xbf16>
  }

  // N = 4096 and K = 2064 give FP8 in every use. With N and K exchanged, they would be too small.
  // ROW-LABEL: func @uses(
  // ROW: precision <fp8, "w", dgrad
  // ROW: precision <fp8, "w", wgrad
  // ROW: precision <fp8, "experts", forward
  // ROW: precision <fp8, "experts", dgrad
  // ROW: precision <fp8, "experts", wgrad
  func.func @uses(%g: tensor<?x4096xbf16>, %x: tensor<?x2064xbf16>, %w: tensor<4096x2064xbf16>,
      %e: tensor<8x4096x2064xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x2064xbf16>, tensor<4096x2064xbf16>, tensor<?x4096xbf16>, tensor<?x2064xbf16>, tensor<8x4096x2064xbf16>) {
    %0 = fp8moe.linear %g, %w precision <undecided, "w", dgrad>
        : tensor<?x4096xbf16>, tensor<4096x2064xbf16> -> tensor<?x2064xbf16>
    %t = fp8moe.transpose %g [1, 0] : tensor<?x4096xbf16> -> tensor<4096x?xbf16, #columns>
    %1 = fp8moe.linear %t, %x precision <undecided, "w", wgrad>
        : tensor<4096x?xbf16, #columns>, tensor<?x2064xbf16> -> tensor<4096x2064xbf16>
    %et = fp8moe.transpose %e [0, 2, 1] : tensor<8x4096x2064xbf16> -> tensor<8x2064x4096xbf16, #fp8moe.strided<[0, 2, 1]>>
    %2 = fp8moe.grouped_matmul %x, %et groups(%ends : tensor<8xi32>) precision <undecided, "experts", forward>
        : tensor<?x2064xbf16>, tensor<8x2064x4096xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x4096xbf16>
    %3 = fp8moe.grouped_matmul %g, %e groups(%ends : tensor<8xi32>) precision <undecided, "experts", dgrad>
        : tensor<?x4096xbf16>, tensor<8x4096x2064xbf16> -> tensor<?x2064xbf16>
    %4 = fp8moe.grouped_matmul %t, %x groups(%ends : tensor<8xi32>) precision <undecided, "experts", wgrad>
        : tensor<4096x?xbf16, #columns>, tensor<?x2064xbf16> -> tensor<8x4096x2064xbf16>
    return %0, %1, %2, %3, %4
        : tensor<?x2064xbf16>, tensor<4096x2064xbf16>, tensor<?x4096xbf16>, tensor<?x2064xbf16>, tensor<8x4096x2064xbf16>
  }
}
