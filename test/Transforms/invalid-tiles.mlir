// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles))"

// expected-error@below {{the module names no target; add the attribute}}
func.func @no_target(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
  return %s : tensor<?xf32>
}

// -----

// A tile of another kernel than the one that fits the layouts.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @kept(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error-re@+1 {{'fp8moe.dynamic_quantize' has the tile two_pass<columns = 64, threads = 256>, but on target sm_90a its layouts take two_pass<columns = 4, threads = 128>, two_pass<columns = 8, threads = 256>, two_pass<columns = 16, threads = 512>, register_resident<columns = 16, threads = 128, chunks = 1, rounds = 1, blocks = {{[0-9]+}}>,}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// A block must be whole wavefronts of 64 threads.

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @threads(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{has the tile two_pass<columns = 1, threads = 32>, but on target gfx942 its layouts take two_pass<columns = 2, threads = 128>}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 1, threads = 32>]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// AMD has no tensor maps.

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @tensor_maps(%x: tensor<?x64xbf16>) -> tensor<64xf32> {
    // expected-error@+1 {{has the tile single_pass_outer<columns = 64, stages = 13>, but on target gfx942 its layouts take two_pass<columns = 64, threads = 256>}}
    %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
        tiles [#fp8moe.single_pass_outer<columns = 64, stages = 13>]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FNUZ, #fp8moe.strided<[1, 0]>>, tensor<64xf32>
    return %s : tensor<64xf32>
  }
}

// -----

// With 512 threads and f32 input, this kernel has too few registers on NVIDIA.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @registers(%x: tensor<?x256xf32, #col>) -> (tensor<?x256xf8E4M3FN>, tensor<256xf32>) {
    // expected-error@+1 {{its layouts take two_pass<columns = 128, threads = 256>; use one of these or none}}
    %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
        tiles [#fp8moe.two_pass<columns = 128, threads = 512>]
        : tensor<?x256xf32, #col> -> tensor<?x256xf8E4M3FN>, tensor<256xf32>
    return %q, %s : tensor<?x256xf8E4M3FN>, tensor<256xf32>
  }
}

// -----

// If many tiles are legal, the error lists only the most similar ones.

#columns = #fp8moe.strided<[1, 0], align = 16>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @another_chips_tile(%a: tensor<?x?xbf16, #fp8moe.strided<[0, 1], align = 16>>, %b: tensor<?x?xbf16, #columns>)
      -> tensor<?x?xbf16> {
    // expected-error-re@+1 {{has the tile mfma<rows = 128, columns = 128>, but on target sm_90a its layouts take {{[0-9]+}} tiles, such as wgmma<rows = 128, columns = 128, {{.*}}; use one of these or none, for which fp8moe-select-tiles{print-candidates} lists all}}
    %y = fp8moe.linear %a, %b tiles [#fp8moe.mfma<rows = 128, columns = 128>]
        : tensor<?x?xbf16, #fp8moe.strided<[0, 1], align = 16>>, tensor<?x?xbf16, #columns> -> tensor<?x?xbf16>
    return %y : tensor<?x?xbf16>
  }
}

// -----

// wgmma tiles are for matmuls.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @other_operation(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{has the tile wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong>, but on target sm_90a its layouts take two_pass<columns = 4, threads = 128>}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong>]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// A tile after one that takes every size never runs.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @never(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{never reaches the tile two_pass<columns = 8, threads = 256>, as those before it take all of that; exchange them, or remove one}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 4, threads = 128>, #fp8moe.two_pass<columns = 8, threads = 256>]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// Two earlier ranges cover the third one.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @hidden(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{never reaches the tile two_pass<columns = 8, threads = 256> for mean_length above 100 up_to 300, as those before it take all of that; exchange them, or remove one}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 4, threads = 128> for mean_length up_to 200,
               #fp8moe.two_pass<columns = 16, threads = 512> for mean_length above 200 up_to 400,
               #fp8moe.two_pass<columns = 8, threads = 256> for mean_length above 100 up_to 300,
               #fp8moe.two_pass<columns = 4, threads = 128>]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// Earlier ranges of lengths cover everything, so a range of bytes never runs.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @hidden_bytes(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{never reaches the tile two_pass<columns = 8, threads = 256> for group_bytes up_to 50 percent of l2, as those before it take all of that; exchange them, or remove one}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 4, threads = 128>,
               #fp8moe.two_pass<columns = 8, threads = 256> for group_bytes up_to 50 percent of l2]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// A tile with 128 rows is too small for 512 threads that each load 16 bytes.
#expert_columns = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @wide(%a: tensor<65536x4096xbf16>, %b: tensor<8x4096x8192xbf16, #expert_columns>, %ends: tensor<8xi32>) -> tensor<65536x8192xbf16> {
    // expected-error@+1 {{has the tile mfma<rows = 128, columns = 256>, but on target gfx942}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        tiles [#fp8moe.mfma<rows = 128, columns = 256>]
        : tensor<65536x4096xbf16>, tensor<8x4096x8192xbf16, #expert_columns> -> tensor<65536x8192xbf16>
    return %o : tensor<65536x8192xbf16>
  }
}

// -----

// An mfma kernel has one tile for all sizes.
#expert_columns = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @several(%a: tensor<?x256xbf16>, %b: tensor<4x256x256xbf16, #expert_columns>, %ends: tensor<4xi32>) -> tensor<?x256xbf16> {
    // expected-error@+1 {{'fp8moe.grouped_matmul' has 2 tiles, but on target gfx942 kernels have one for all sizes; remove all but one, or 'tiles' and fp8moe-select-tiles chooses}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
        tiles least_waves [#fp8moe.mfma<rows = 256, columns = 256> wave 3, #fp8moe.mfma<rows = 128, columns = 128> wave 9]
        : tensor<?x256xbf16>, tensor<4x256x256xbf16, #expert_columns> -> tensor<?x256xbf16>
    return %o : tensor<?x256xbf16>
  }
}

// -----

// Rescaling needs power-of-two scales, which keep the mantissa.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @rescaled_rounding(%x: tensor<4096x4100xbf16>)
      -> (tensor<4096x4100xf8E4M3FN, #col>, tensor<4096x4100xf8E4M3FN>) {
    // expected-error@+1 {{has the tile rescaled_both_axes<threads = 256, chunks = 1, blocks = 4>, but on target sm_90a its layouts, types and rounding take a kernel for each axis only; use that, or no tiles}}
    %q:2, %s:2 = fp8moe.dynamic_quantize %x along [0, 1] rounding none
        tiles [#fp8moe.rescaled_both_axes<threads = 256, chunks = 1, blocks = 4>]
        : tensor<4096x4100xbf16> -> tensor<4096x4100xf8E4M3FN, #col>, tensor<4096x4100xf8E4M3FN>, tensor<4100xf32>, tensor<4096xf32>
    return %q#0, %q#1 : tensor<4096x4100xf8E4M3FN, #col>, tensor<4096x4100xf8E4M3FN>
  }
}

// -----

// No kernel for both axes writes two FP8 types.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @two_types(%x: tensor<?x1024xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x1024xf8E4M3FN, #col>, tensor<?x1024xf8E5M2>) {
    // expected-error@+1 {{has the tile single_pass_both_axes<columns = 64, stages = 9, row_bytes = 2048, row_stages = 16>, but on target sm_90a its layouts, types and rounding take a kernel for each axis only; use that, or no tiles}}
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0, 1] rounding pow2
        tiles [#fp8moe.single_pass_both_axes<columns = 64, stages = 9, row_bytes = 2048, row_stages = 16>]
        : tensor<?x1024xbf16> -> tensor<?x1024xf8E4M3FN, #col>, tensor<?x1024xf8E5M2>, tensor<8x1024xf32>, tensor<?xf32>
    return %q#0, %q#1 : tensor<?x1024xf8E4M3FN, #col>, tensor<?x1024xf8E5M2>
  }
}

// -----

// `scale` has no alternatives for different sizes.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @scales_in_a_range(%x: tensor<?x2048xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{'fp8moe.scale' takes one tile, without a range; remove the others}}
    %s = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN
        tiles [#fp8moe.two_pass<columns = 4, threads = 128> for mean_length up_to 512,
               #fp8moe.two_pass<columns = 8, threads = 256>] : tensor<?x2048xbf16> -> tensor<?xf32>
    return %s : tensor<?xf32>
  }
}
