// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles))" \
// RUN: | FileCheck %s
// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles, fp8moe-select-tiles))" \
// RUN: | FileCheck %s

// The tile follows from layouts, sizes and target. One long segment has little parallelism: few
// columns and many threads a block. Many short segments get small blocks.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @sizes
  func.func @sizes(%x: tensor<?x2048xbf16>, %w: tensor<64x256x5120xbf16>)
      -> (tensor<?x2048xf8E4M3FN>, tensor<2048xf32>,
          tensor<64x256x5120xf8E4M3FN>, tensor<64x5120xf32>) {
    // CHECK: dynamic_quantize %{{.*}} along [0] rounding pow2 tiles [#fp8moe.two_pass<columns = 32, threads = 512>]
    %q0, %s0 = fp8moe.dynamic_quantize %x along [0] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<2048xf32>
    // CHECK: dynamic_quantize %{{.*}} along [1] rounding pow2 tiles [#fp8moe.two_pass<columns = 32, threads = 128>]
    %q1, %s1 = fp8moe.dynamic_quantize %w along [1] rounding pow2
        : tensor<64x256x5120xbf16> -> tensor<64x256x5120xf8E4M3FN>, tensor<64x5120xf32>
    return %q0, %s0, %q1, %s1
        : tensor<?x2048xf8E4M3FN>, tensor<2048xf32>,
          tensor<64x256x5120xf8E4M3FN>, tensor<64x5120xf32>
  }

  // A given tile stays.
  // CHECK-LABEL: func.func @by_hand
  func.func @by_hand(%x: tensor<?x2048xbf16>) -> (tensor<?x2048xf8E4M3FN>, tensor<2048xf32>) {
    // CHECK: tiles [#fp8moe.two_pass<columns = 128, threads = 256>]
    %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
        tiles [#fp8moe.two_pass<columns = 128, threads = 256>]
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<2048xf32>
    return %q, %s : tensor<?x2048xf8E4M3FN>, tensor<2048xf32>
  }

  // A given range stays. A kernel for the rest is added after it.
  // CHECK-LABEL: func.func @range_by_hand
  func.func @range_by_hand(%x: tensor<?x2048xbf16>, %ends: tensor<16xi32>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>) {
    // CHECK: tiles [#fp8moe.single_pass_both_axes<{{[^>]*}}> for mean_length up_to 100, #fp8moe.per_axis<
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<16xi32>)
        along [0, 1] rounding pow2
        tiles [#fp8moe.single_pass_both_axes<columns = 64, stages = 9, row_bytes = 4096, row_stages = 16> for mean_length up_to 100]
        : tensor<?x2048xbf16>
        -> tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<16x2048xf32>,
           tensor<?xf32>
    return %q#0, %q#1 : tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>
  }

  // A given range of bytes stays, too, also along a single axis.
  // CHECK-LABEL: func.func @bytes_by_hand
  func.func @bytes_by_hand(%x: tensor<?x2048xbf16>, %ends: tensor<16xi32>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>) {
    // CHECK: tiles [#fp8moe.single_pass_both_axes<{{[^>]*}}> for group_bytes up_to 60 percent of l2, #fp8moe.per_axis<
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<16xi32>)
        along [0, 1] rounding pow2
        tiles [#fp8moe.single_pass_both_axes<columns = 64, stages = 9, row_bytes = 4096, row_stages = 16> for group_bytes up_to 60 percent of l2]
        : tensor<?x2048xbf16>
        -> tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<16x2048xf32>,
           tensor<?xf32>
    // CHECK: tiles [#fp8moe.two_pass<columns = 4, threads = 128> for group_bytes up_to 50 percent of l2, #fp8moe.{{register_resident|two_pass}}<
    %r, %t = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 4, threads = 128> for group_bytes up_to 50 percent of l2]
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
    return %q#0, %q#1, %r
        : tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>
  }

  // Jagged columns and rows of one tensor get one kernel, if both are used and rows have a static
  // length.
  // CHECK-LABEL: func.func @one_kernel
  func.func @one_kernel(%x: tensor<?x2048xbf16>, %ends: tensor<16xi32>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<16x2048xf32>,
          tensor<?xf32>, tensor<?x2048xf8E4M3FN>) {
    // CHECK: jagged_dynamic_quantize %{{.*}} along [0, 1] rounding pow2 tiles [#fp8moe.single_pass_both_axes<columns = 64, stages = 9, row_bytes = 4096, row_stages = {{[0-9]+}}> for group_bytes up_to 50 percent of l2, #fp8moe.rescaled_both_axes<threads = 128, chunks = 1, blocks = 8> for mean_length above {{[0-9]+}}, #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.single_pass_outer<columns = 64, stages = 13>, #fp8moe.two_pass<columns = 64, threads = 256>]>, #fp8moe.choice<[#fp8moe.register_resident<
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<16xi32>)
        along [0, 1] rounding pow2 : tensor<?x2048xbf16>
        -> tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<16x2048xf32>,
           tensor<?xf32>
    // CHECK: fp8moe.dynamic_quantize %{{.*}} along [1] rounding none tiles
    %r:2, %t:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<16xi32>)
        along [0, 1] rounding none : tensor<?x2048xbf16>
        -> tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<16x2048xf32>,
           tensor<?xf32>
    return %q#0, %q#1, %s#0, %s#1, %r#1
        : tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN>, tensor<16x2048xf32>,
          tensor<?xf32>, tensor<?x2048xf8E4M3FN>
  }

  // Rows of a dynamic length get two kernels. Rows that are too long for shared memory are
  // rescaled.
  // CHECK-LABEL: func.func @two_kernels
  func.func @two_kernels(%x: tensor<?x?xbf16>, %y: tensor<?x16384xbf16>, %ends: tensor<16xi32>)
      -> (tensor<?x?xf8E4M3FN, #col>, tensor<?x?xf8E4M3FN>,
          tensor<?x16384xf8E4M3FN, #col>, tensor<?x16384xf8E4M3FN>) {
    // CHECK: jagged_dynamic_quantize %{{.*}} along [0] rounding pow2 tiles [#fp8moe.single_pass_outer<columns = 64, stages = 13>, #fp8moe.two_pass<
    // CHECK-NOT: both_axes
    // CHECK: jagged_dynamic_quantize %{{.*}} along [0, 1] rounding pow2 tiles [#fp8moe.rescaled_both_axes<threads = 512, chunks = 2, blocks = 1> for mean_length above {{.*}}, #fp8moe.per_axis
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<16xi32>)
        along [0, 1] rounding pow2 : tensor<?x?xbf16>
        -> tensor<?x?xf8E4M3FN, #col>, tensor<?x?xf8E4M3FN>, tensor<16x?xf32>, tensor<?xf32>
    %r:2, %t:2 = fp8moe.jagged_dynamic_quantize %y groups(%ends : tensor<16xi32>)
        along [0, 1] rounding pow2 : tensor<?x16384xbf16>
        -> tensor<?x16384xf8E4M3FN, #col>, tensor<?x16384xf8E4M3FN>, tensor<16x16384xf32>,
           tensor<?xf32>
    return %q#0, %q#1, %r#0, %r#1
        : tensor<?x?xf8E4M3FN, #col>, tensor<?x?xf8E4M3FN>,
          tensor<?x16384xf8E4M3FN, #col>, tensor<?x16384xf8E4M3FN>
  }

  // Both axes must have the same segments to share a kernel. Here axis 0 has one for each index of
  // dimension 1, and axis 2 one for each of dimension 0.
  // CHECK-LABEL: func.func @other_segments
  func.func @other_segments(%w: tensor<512x512x1024xbf16>)
      -> (tensor<512x512x1024xf8E4M3FN, #fp8moe.strided<[1, 2, 0]>>, tensor<512x512x1024xf8E4M3FN>) {
    // CHECK: dynamic_quantize %{{.*}} along [0] rounding pow2 tiles [#fp8moe.single_pass_outer<
    // CHECK: dynamic_quantize %{{.*}} along [2] rounding pow2 tiles [#fp8moe.register_resident<
    %q:2, %s:2 = fp8moe.dynamic_quantize %w along [0, 2] rounding pow2
        : tensor<512x512x1024xbf16>
        -> tensor<512x512x1024xf8E4M3FN, #fp8moe.strided<[1, 2, 0]>>, tensor<512x512x1024xf8E4M3FN>, tensor<512x1024xf32>, tensor<512x512xf32>
    return %q#0, %q#1 : tensor<512x512x1024xf8E4M3FN, #fp8moe.strided<[1, 2, 0]>>, tensor<512x512x1024xf8E4M3FN>
  }

  // Expert weights along both axes are read once.
  // CHECK-LABEL: func.func @many_experts
  func.func @many_experts(%w: tensor<64x1408x2048xbf16>)
      -> (tensor<64x1408x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<64x1408x2048xf8E4M3FN>) {
    // CHECK: along [1, 2] rounding pow2 tiles [#fp8moe.rescaled_both_axes<{{[^>]*}}>, #fp8moe.per_axis<
    %q:2, %s:2 = fp8moe.dynamic_quantize %w along [1, 2] rounding pow2
        : tensor<64x1408x2048xbf16>
        -> tensor<64x1408x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<64x1408x2048xf8E4M3FN>, tensor<64x2048xf32>, tensor<64x1408xf32>
    return %q#0, %q#1 : tensor<64x1408x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<64x1408x2048xf8E4M3FN>
  }

  // With a pitch of 1401 bytes, columns would be stored byte by byte, so each axis gets its own
  // kernel.
  // CHECK-LABEL: func.func @odd_experts
  func.func @odd_experts(%w: tensor<64x1401x2048xbf16>)
      -> (tensor<64x1401x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<64x1401x2048xf8E4M3FN>) {
    // CHECK: dynamic_quantize %{{.*}} along [1] rounding pow2 tiles [#fp8moe.single_pass_outer<
    // CHECK: dynamic_quantize %{{.*}} along [2] rounding pow2 tiles [#fp8moe.register_resident<
    %q:2, %s:2 = fp8moe.dynamic_quantize %w along [1, 2] rounding pow2
        : tensor<64x1401x2048xbf16>
        -> tensor<64x1401x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<64x1401x2048xf8E4M3FN>, tensor<64x2048xf32>, tensor<64x1401xf32>
    return %q#0, %q#1 : tensor<64x1401x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<64x1401x2048xf8E4M3FN>
  }

  // A given kernel for each axis stays.
  // CHECK-LABEL: func.func @each_axis_by_name
  func.func @each_axis_by_name(%w: tensor<64x1408x2048xbf16>)
      -> (tensor<64x1408x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<64x1408x2048xf8E4M3FN>) {
    // CHECK: dynamic_quantize %{{.*}} along [1] rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
    // CHECK: dynamic_quantize %{{.*}} along [2] rounding pow2 tiles [#fp8moe.two_pass<columns = 4, threads = 128>]
    %q:2, %s:2 = fp8moe.dynamic_quantize %w along [1, 2] rounding pow2
        tiles [#fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                                 #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128>]>]>]
        : tensor<64x1408x2048xbf16>
        -> tensor<64x1408x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<64x1408x2048xf8E4M3FN>, tensor<64x2048xf32>, tensor<64x1408xf32>
    return %q#0, %q#1 : tensor<64x1408x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<64x1408x2048xf8E4M3FN>
  }

  // A given tile stays for static sizes, too. A fallback is added after it.
  // CHECK-LABEL: func.func @written
  func.func @written(%w: tensor<2x32x32xbf16>)
      -> (tensor<2x32x32xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<2x32x32xf8E4M3FN>) {
    // CHECK: along [1, 2] rounding pow2 tiles [#fp8moe.rescaled_both_axes<threads = 32, chunks = 1, blocks = 8>, #fp8moe.per_axis<
    %q:2, %s:2 = fp8moe.dynamic_quantize %w along [1, 2] rounding pow2
        tiles [#fp8moe.rescaled_both_axes<threads = 32, chunks = 1, blocks = 8>]
        : tensor<2x32x32xbf16>
        -> tensor<2x32x32xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<2x32x32xf8E4M3FN>, tensor<2x32xf32>, tensor<2x32xf32>
    return %q#0, %q#1 : tensor<2x32x32xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>, tensor<2x32x32xf8E4M3FN>
  }

  // Each axis has a kernel and a tile of its own. Only axis 0 is jagged. Unused results are not
  // computed. The rows are written column-major.
  // CHECK-LABEL: func.func @both_axes
  func.func @both_axes(%x: tensor<?x2048xbf16>, %ends: tensor<64xi32>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>,
          tensor<?xf32>, tensor<?xf32>) {
    // CHECK: %[[Q0:.*]], %[[S0:.*]] = fp8moe.jagged_dynamic_quantize %{{.*}} along [0] rounding pow2 tiles [#fp8moe.single_pass_outer<columns = 64, stages = 13>
    // CHECK: %[[Q1:.*]], %[[S1:.*]] = fp8moe.dynamic_quantize %{{.*}} along [1] rounding pow2 tiles [#fp8moe.
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<64xi32>)
        along [0, 1] rounding pow2 : tensor<?x2048xbf16>
        -> tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>,
           tensor<?xf32>
    // CHECK-NOT: along [0]
    // CHECK: %{{.*}}, %[[S2:.*]] = fp8moe.dynamic_quantize %{{.*}} along [1]
    %r:2, %t:2 = fp8moe.dynamic_quantize %x along [0, 1] rounding none
        : tensor<?x2048xbf16>
        -> tensor<?x2048xf8E4M3FN>, tensor<?x2048xf8E4M3FN>, tensor<2048xf32>, tensor<?xf32>
    // CHECK: return %[[Q0]], %[[Q1]], %[[S0]], %[[S1]], %[[S2]]
    return %q#0, %q#1, %s#0, %s#1, %t#1
        : tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>,
          tensor<?xf32>, tensor<?xf32>
  }
}

// -----

// Rows of 2048 elements are held by groups of at least 16 threads, several in a block.

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  // CHECK-LABEL: func.func @slices
  func.func @slices(%x: tensor<?x2048xbf16>) -> (tensor<?x2048xf8E4M3FNUZ>, tensor<?xf32>) {
    // CHECK: tiles [#fp8moe.register_resident<columns = {{[2-8]}}, threads = 128, chunks = {{[0-9]+}}, rounds = 1, blocks = {{[0-9]+}}>]
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FNUZ>, tensor<?xf32>
    return %q, %s : tensor<?x2048xf8E4M3FNUZ>, tensor<?xf32>
  }
}

// -----

// The CPU has no tiles.

module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
  // CHECK-LABEL: func.func @cpu
  func.func @cpu(%x: tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>) {
    // CHECK-NOT: tile
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %q, %s : tensor<?x64xf8E4M3FN>, tensor<?xf32>
  }
}
