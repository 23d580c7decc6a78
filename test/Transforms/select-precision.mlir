// Predicted times decide for each use of a module, and together for matmuls that share a
// quantization.

// RUN: fp8moe-opt %s --fp8moe-select-precision | FileCheck %s
// RUN: fp8moe-opt %s --fp8moe-select-precision="policy=none" | FileCheck %s --check-prefix=NONE
// RUN: fp8moe-opt %s --fp8moe-select-precision="policy=all" | FileCheck %s --check-prefix=ALL
// RUN: fp8moe-opt %s --fp8moe-select-precision="filter-fqns=attention,large" | FileCheck %s --check-prefix=FILTER
// RUN: fp8moe-opt %s --fp8moe-select-precision="for=cpu" | FileCheck %s --check-prefix=CPU
// RUN: fp8moe-opt %s --fp8moe-select-precision="for=h20" | FileCheck %s --check-prefix=H20
// RUN: fp8moe-opt %s --fp8moe-select-precision="tokens=64" | FileCheck %s --check-prefix=FEW

// NONE-NOT: precision <fp8, "{{[a-z.]*}}", forward, bf16
// FILTER-NOT: precision <fp8, "{{[a-z.]*attention}}
// CPU-NOT: precision <fp8, "{{[a-z.]*}}", {{[a-z]*}}, bf16

#columns = #fp8moe.strided<[1, 0]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func @large(
  // CHECK: precision <fp8, "layers.large", forward, bf16_ns = {{[0-9]+}}, fp8_ns = {{[0-9]+}}, reason = "FP8 is predicted to be {{1.[3-9][0-9]}}x as fast">
  // NONE-LABEL: func @large(
  // NONE: precision <bf16, "layers.large", {{.*}} reason = "policy none">
  // FILTER-LABEL: func @large(
  // FILTER: precision <bf16, "layers.large", {{.*}} reason = "filtered by 'large'">
  // `card` names a card: an H20 multiplies more slowly than an H200.
  // H20-LABEL: func @large(
  // H20: precision <fp8, "layers.large", forward, bf16_ns = {{[0-9]{8},}}
  // CPU-LABEL: func @large(
  // CPU: precision <bf16, "layers.large", forward, reason = "no times are predicted on cpu">
  func.func @large(%x: tensor<?x8192xbf16>, %w: tensor<8192x8192xbf16, #columns>) -> tensor<?x8192xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "layers.large", forward>
        : tensor<?x8192xbf16>, tensor<8192x8192xbf16, #columns> -> tensor<?x8192xbf16>
    return %y : tensor<?x8192xbf16>
  }

  // Quantizing takes longer than the FP8 matmul saves.
  // CHECK-LABEL: func @small(
  // CHECK: precision <bf16, "small", forward, bf16_ns = {{[0-9]+}}, fp8_ns = {{[0-9]+}}, reason = "FP8 is predicted to take {{.*}}x the time">
  // ALL-LABEL: func @small(
  // ALL: precision <fp8, "small", {{.*}} reason = "policy all">
  func.func @small(%x: tensor<?x256xbf16>, %w: tensor<256x256xbf16, #columns>) -> tensor<?x256xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "small", forward>
        : tensor<?x256xbf16>, tensor<256x256xbf16, #columns> -> tensor<?x256xbf16>
    return %y : tensor<?x256xbf16>
  }

  // FP8 instructions need multiples of 16, so no policy chooses FP8.
  // CHECK-LABEL: func @unaligned(
  // CHECK: precision <bf16, "unaligned", {{.*}} reason = "N = 8200 is no multiple of 16">
  // ALL-LABEL: func @unaligned(
  // ALL: precision <bf16, "unaligned", {{.*}} reason = "N = 8200 is no multiple of 16">
  func.func @unaligned(%x: tensor<?x8192xbf16>, %w: tensor<8192x8200xbf16, #columns>) -> tensor<?x8200xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "unaligned", forward>
        : tensor<?x8192xbf16>, tensor<8192x8200xbf16, #columns> -> tensor<?x8200xbf16>
    return %y : tensor<?x8200xbf16>
  }

  // A given decision stays.
  // CHECK-LABEL: func @edited(
  // CHECK: precision <bf16, "layers.edited", forward> :
  // ALL-LABEL: func @edited(
  // ALL: precision <bf16, "layers.edited", forward> :
  func.func @edited(%x: tensor<?x8192xbf16>, %w: tensor<8192x8192xbf16, #columns>) -> tensor<?x8192xbf16> {
    %y = fp8moe.linear %x, %w precision <bf16, "layers.edited", forward>
        : tensor<?x8192xbf16>, tensor<8192x8192xbf16, #columns> -> tensor<?x8192xbf16>
    return %y : tensor<?x8192xbf16>
  }

  // With few rows, the time to quantize the weights dominates.
  // CHECK-LABEL: func @rows(
  // CHECK: precision <fp8, "rows", forward
  // FEW-LABEL: func @rows(
  // FEW: precision <bf16, "rows", forward
  func.func @rows(%x: tensor<?x4096xbf16>, %w: tensor<4096x4096xbf16, #columns>) -> tensor<?x4096xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "rows", forward>
        : tensor<?x4096xbf16>, tensor<4096x4096xbf16, #columns> -> tensor<?x4096xbf16>
    return %y : tensor<?x4096xbf16>
  }

  // With few rows per expert, FP8 gains in neither gradient. dgrad reads bf16 weights without a
  // copy.
  // CHECK-LABEL: func @experts(
  // CHECK: precision <bf16, "experts", dgrad
  // CHECK: precision <bf16, "experts", wgrad
  func.func @experts(%g: tensor<1024x2048xbf16>, %x: tensor<1024x2048xbf16>, %w: tensor<64x2048x2048xbf16>,
      %ends: tensor<64xi32>) -> (tensor<1024x2048xbf16>, tensor<64x2048x2048xbf16>) {
    %0 = fp8moe.grouped_matmul %g, %w groups(%ends : tensor<64xi32>) precision <undecided, "experts", dgrad>
        : tensor<1024x2048xbf16>, tensor<64x2048x2048xbf16> -> tensor<1024x2048xbf16>
    %t = fp8moe.transpose %g [1, 0] : tensor<1024x2048xbf16> -> tensor<2048x1024xbf16, #columns>
    %1 = fp8moe.grouped_matmul %t, %x groups(%ends : tensor<64xi32>) precision <undecided, "experts", wgrad>
        : tensor<2048x1024xbf16, #columns>, tensor<1024x2048xbf16> -> tensor<64x2048x2048xbf16>
    return %0, %1 : tensor<1024x2048xbf16>, tensor<64x2048x2048xbf16>
  }

  // In bf16, an MN-major A needs a copy, which makes FP8 faster.
  // CHECK-LABEL: func @rowmajor(
  // CHECK: precision <bf16, "rowmajor", forward
  // CHECK-LABEL: func @copied(
  // CHECK: precision <fp8, "copied", forward
  func.func @rowmajor(%x: tensor<?x512xbf16>, %w: tensor<512x512xbf16>) -> tensor<?x512xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "rowmajor", forward>
        : tensor<?x512xbf16>, tensor<512x512xbf16> -> tensor<?x512xbf16>
    return %y : tensor<?x512xbf16>
  }
  func.func @copied(%x: tensor<?x512xbf16, #columns>, %w: tensor<512x512xbf16>) -> tensor<?x512xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "copied", forward>
        : tensor<?x512xbf16, #columns>, tensor<512x512xbf16> -> tensor<?x512xbf16>
    return %y : tensor<?x512xbf16>
  }

  // The quantization of x is too slow for wv alone, but wv can share it with wq.
  // CHECK-LABEL: func @alone(
  // CHECK: precision <bf16, "attention.wv", forward
  func.func @alone(%x: tensor<?x2048xbf16>, %w: tensor<2048x128xbf16, #columns>) -> tensor<?x128xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "attention.wv", forward>
        : tensor<?x2048xbf16>, tensor<2048x128xbf16, #columns> -> tensor<?x128xbf16>
    return %y : tensor<?x128xbf16>
  }

  // CHECK-LABEL: func @beside(
  // CHECK: precision <fp8, "attention.wq", forward
  // CHECK: precision <fp8, "attention.wv", forward
  func.func @beside(%x: tensor<?x2048xbf16>, %q: tensor<2048x4096xbf16, #columns>, %v: tensor<2048x128xbf16, #columns>)
      -> (tensor<?x4096xbf16>, tensor<?x128xbf16>) {
    %0 = fp8moe.linear %x, %q precision <undecided, "attention.wq", forward>
        : tensor<?x2048xbf16>, tensor<2048x4096xbf16, #columns> -> tensor<?x4096xbf16>
    %1 = fp8moe.linear %x, %v precision <undecided, "attention.wv", forward>
        : tensor<?x2048xbf16>, tensor<2048x128xbf16, #columns> -> tensor<?x128xbf16>
    return %0, %1 : tensor<?x4096xbf16>, tensor<?x128xbf16>
  }

  // Times of impossibly large tensors saturate, and their sum does not overflow.
  // CHECK-LABEL: func @huge(
  // CHECK-COUNT-3: precision <{{fp8|bf16}}, "huge{{[0-9]}}", forward, bf16_ns = {{[0-9]+}}, fp8_ns = {{[0-9]+}}
  func.func @huge(%x: tensor<1073741824x1048576xbf16>, %w: tensor<1048576x1073741824xbf16, #columns>)
      -> (tensor<1073741824x1073741824xf32>, tensor<1073741824x1073741824xf32>, tensor<1073741824x1073741824xf32>) {
    %0 = fp8moe.linear %x, %w precision <undecided, "huge0", forward>
        : tensor<1073741824x1048576xbf16>, tensor<1048576x1073741824xbf16, #columns> -> tensor<1073741824x1073741824xf32>
    %1 = fp8moe.linear %x, %w precision <undecided, "huge1", forward>
        : tensor<1073741824x1048576xbf16>, tensor<1048576x1073741824xbf16, #columns> -> tensor<1073741824x1073741824xf32>
    %2 = fp8moe.linear %x, %w precision <undecided, "huge2", forward>
        : tensor<1073741824x1048576xbf16>, tensor<1048576x1073741824xbf16, #columns> -> tensor<1073741824x1073741824xf32>
    return %0, %1, %2
        : tensor<1073741824x1073741824xf32>, tensor<1073741824x1073741824xf32>, tensor<1073741824x1073741824xf32>
  }

  // The alignment of sizes is still known if their bytes overflow 64 bits.
  // CHECK-LABEL: func @rows_beyond_bytes(
  // CHECK: precision <{{fp8|bf16}}, "rows", forward
  func.func @rows_beyond_bytes(%x: tensor<9223372036854775807x4096xbf16>, %w: tensor<4096x8192xbf16>)
      -> tensor<9223372036854775807x8192xbf16> {
    %y = fp8moe.linear %x, %w precision <undecided, "rows", forward>
        : tensor<9223372036854775807x4096xbf16>, tensor<4096x8192xbf16> -> tensor<9223372036854775807x8192xbf16>
    return %y : tensor<9223372036854775807x8192xbf16>
  }
}
