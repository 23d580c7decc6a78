// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles))"

// expected-error@below {{the module names no target; add the attribute}}
func.func @no_target(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
  return %s : tensor<?xf32>
}

// -----

// A tile that is not one of the schedule's.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @kept(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{'fp8moe.dynamic_quantize' has the tile <kept = 64, threads = 256>, but on target sm_90a its layouts take <kept = 4, threads = 128>, <kept = 8, threads = 256>, <kept = 16, threads = 512>, <kept = 16, threads = 128, schedule = held>,}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tile <kept = 64, threads = 256>
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// Half a wavefront is no block.

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @threads(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{has a tile of 32 threads; on gfx942 a block has at most 1024 threads in whole warps of 64}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tile <kept = 1, threads = 32>
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// No tensor maps on AMD.

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @streamed(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{has the schedule 'streamed', which needs the tensor maps of Hopper and later; gfx942 has none; use 'held', 'two_pass' or no tile}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tile <kept = 1, threads = 64, schedule = streamed>
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// 512 threads with 32-bit input have too few registers on NVIDIA for this schedule.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @registers(%x: tensor<?x256xf32, #col>) -> (tensor<?x256xf8E4M3FN>, tensor<256xf32>) {
    // expected-error@+1 {{its layouts take <kept = 128, threads = 256>; use one of these or none}}
    %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
        tile <kept = 128, threads = 512>
        : tensor<?x256xf32, #col> -> tensor<?x256xf8E4M3FN>, tensor<256xf32>
    return %q, %s : tensor<?x256xf8E4M3FN>, tensor<256xf32>
  }
}
