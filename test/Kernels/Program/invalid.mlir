// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --convert-fp8moe-to-gpu

// expected-error@+1 {{target 'cpu' is not a GPU; use convert-fp8moe-to-loops, or name a GPU}}
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @no_kernel(%x: tensor<?x2048xbf16>) -> tensor<16x2048xbf16> {
    // expected-error@+1 {{'tensor.cast' is not supported on target sm_90a yet; compile the function for target 'cpu', or keep only views, copies, quantizations and dequantizations by given scales, dynamic quantizations, scales, MX quantizations, operations on rows and grouped matmuls in it}}
    %s = tensor.cast %x : tensor<?x2048xbf16> to tensor<16x2048xbf16>
    return %s : tensor<16x2048xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @flavour(%x: tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>) {
    // expected-error@+1 {{'fp8moe.dynamic_quantize' to 'f8E4M3FN' (the hardware has the other flavour; use !fp8moe.e4m3 or !fp8moe.e5m2) is not supported on target gfx942}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %q, %s : tensor<?x64xf8E4M3FN>, tensor<?xf32>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @neutral(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{'fp8moe.dynamic_quantize' still has the target-neutral element type '!fp8moe.e4m3'; run fp8moe-resolve-fp8-types first}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// The neutral type occurs only in an attribute, not in a tensor.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @neutral_scale(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{'fp8moe.scale' computes scales for the target-neutral type '!fp8moe.e4m3'; run fp8moe-resolve-fp8-types first}}
    %s = fp8moe.scale %x along 1 rounding pow2 fp8 !fp8moe.e4m3
        : tensor<?x64xbf16> -> tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @rank(%x: tensor<2x3x4x64xbf16>)
      -> (tensor<2x3x4x64xf8E4M3FN>, tensor<2x3x4xf32>) {
    // expected-error@+1 {{'fp8moe.dynamic_quantize' of a tensor of rank 4 (expected at most 3; merge dimensions with fp8moe.reshape) is not supported on target sm_90a}}
    %q, %s = fp8moe.dynamic_quantize %x along [3] rounding pow2
        : tensor<2x3x4x64xbf16> -> tensor<2x3x4x64xf8E4M3FN>, tensor<2x3x4xf32>
    return %q, %s : tensor<2x3x4x64xf8E4M3FN>, tensor<2x3x4xf32>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @element(%x: tensor<4x8xf64>) -> tensor<4x8xf64, #fp8moe.strided<[1, 0]>> {
    // expected-error@+1 {{'fp8moe.relayout' with elements of type 'f64' (expected 8, 16 or 32 bits) is not supported on target sm_90a}}
    %r = fp8moe.relayout %x : tensor<4x8xf64> -> tensor<4x8xf64, #fp8moe.strided<[1, 0]>>
    return %r : tensor<4x8xf64, #fp8moe.strided<[1, 0]>>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @tile(%x: tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>) {
    // expected-error@+1 {{'fp8moe.dynamic_quantize' has the tile two_pass<columns = 64, threads = 128>, but on target sm_90a its layouts take two_pass<columns = 4, threads = 128>, two_pass<columns = 8, threads = 256>, two_pass<columns = 16, threads = 512>,}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 64, threads = 128>]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %q, %s : tensor<?x64xf8E4M3FN>, tensor<?xf32>
  }
}

// -----

// Tiles are chosen by fp8moe-select-tiles, not by this conversion.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @no_tiles(%x: tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>) {
    // expected-error@+1 {{'fp8moe.dynamic_quantize' has no tiles; run fp8moe-select-tiles, or write 'tiles [...]'}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %q, %s : tensor<?x64xf8E4M3FN>, tensor<?xf32>
  }
}

// -----

// A kernel with conditions must be followed by one without.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @not_everything(%x: tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<64xf32>) {
    // expected-error@+1 {{'fp8moe.dynamic_quantize' leaves what single_pass_outer<columns = 64, stages = 13> does not take to no kernel; add an alternative behind it that takes everything, such as two_pass<columns = 64, threads = 256>, or run fp8moe-select-tiles}}
    %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
        tiles [#fp8moe.single_pass_outer<columns = 64, stages = 13>]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<64xf32>
    return %q, %s : tensor<?x64xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<64xf32>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @some_lengths(%x: tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>) {
    // expected-error@+1 {{'fp8moe.dynamic_quantize' leaves a mean length of 513 to no kernel}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 4, threads = 128> for mean_length up_to 512,
               #fp8moe.two_pass<columns = 8, threads = 256> for mean_length above 4096]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %q, %s : tensor<?x64xf8E4M3FN>, tensor<?xf32>
  }
}

// -----

// Ranges of group_bytes cannot be proven to cover everything, so a fallback without a range is
// needed.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @bytes(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{leaves what two_pass<columns = 8, threads = 256> does not take to no kernel; add an alternative behind it that takes everything, such as}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 4, threads = 128> for group_bytes up_to 50 percent of l2,
               #fp8moe.two_pass<columns = 8, threads = 256> for group_bytes above 50 percent of l2]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// A range of group_bytes does not close a gap between ranges of lengths either.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @gap(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
    // expected-error@+1 {{leaves a mean length of 201 to no kernel}}
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.two_pass<columns = 4, threads = 128> for mean_length up_to 200,
               #fp8moe.two_pass<columns = 8, threads = 256> for group_bytes up_to 1000000000]
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    return %s : tensor<?xf32>
  }
}

// -----

// Blocked scales that are returned unchanged would need a copy, which no kernel does.
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @blocked_argument(%s: tensor<256x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>)
      -> tensor<256x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4>> {
    // expected-error@+1 {{result #0 would be a copy of tiled scales, 'tensor<256x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>', which target gfx942 does not make; return once what an operation of the function writes}}
    return %s : tensor<256x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
  }
}

// -----

// A program that was already lowered for the CPU.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func private @entry(%x: index) {
    return
  }
  fp8moe_plan.program @p {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{launches '@entry', a function of the host, but kernels for sm_90a are functions of a 'gpu.module'; move it into one, or compile the module for target 'cpu'}}
    fp8moe_plan.launch @entry grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 args(%c1) : index
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // expected-error@+1 {{: a manifest holds names in UTF-8 without null characters; rename it}}
  func.func @"\FF"(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}

// -----

// Control flow is an error that says how to write the program instead.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @loop(%x: tensor<?x2048xbf16>) -> tensor<?x2048xbf16> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %m = tensor.dim %x, %c0 : tensor<?x2048xbf16>
    // expected-error@+1 {{'scf.for' is not supported on target sm_90a, where a program launches kernels in one order; a loop is unrolled where its bounds are constants and it makes at most 4096 operations; give it such bounds, make one iteration the program and loop on the host, or compile the function for target 'cpu'}}
    %r = scf.for %i = %c0 to %m step %c1 iter_args(%h = %x) -> tensor<?x2048xbf16> {
      scf.yield %h : tensor<?x2048xbf16>
    }
    return %r : tensor<?x2048xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  func.func @branch(%x: tensor<?x2048xbf16>, %c: tensor<i1>) -> tensor<?x2048xbf16> {
    %first = tensor.extract %c[] : tensor<i1>
    // expected-error@+1 {{'scf.if' is not supported on target gfx950, where a program launches kernels in one order; make each branch a program and choose between them on the host, or compile the function for target 'cpu'}}
    %r = scf.if %first -> tensor<?x2048xbf16> {
      scf.yield %x : tensor<?x2048xbf16>
    } else {
      scf.yield %x : tensor<?x2048xbf16>
    }
    return %r : tensor<?x2048xbf16>
  }
}
