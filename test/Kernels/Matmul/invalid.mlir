// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu)"

module attributes {fp8moe.target = #fp8moe.target<"sm_100a">} {
  func.func @blackwell(%a: tensor<?x64xbf16>, %b: tensor<2x64x64xbf16, #fp8moe.strided<[0, 2, 1]>>,
      %ends: tensor<2xi32>) -> tensor<?x64xbf16> {
    // expected-error@+1 {{'fp8moe.grouped_matmul' is not supported on target sm_100a yet; compile the function for sm_90a or gfx942 or gfx950 or 'cpu'}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        : tensor<?x64xbf16>, tensor<2x64x64xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @row_major(%a: tensor<?x64xf8E4M3FN>, %b: tensor<2x64x64xf8E4M3FN>,
      %ends: tensor<2xi32>, %sa: tensor<?xf32>, %sb: tensor<2x64xf32>) -> tensor<?x64xbf16> {
    // expected-error@+1 {{on sm_90a expects the second operand to be contiguous along dimension 1, found 'tensor<2x64x64xf8E4M3FN>'; run fp8moe-optimize-layouts, or fp8moe.relayout it}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        scales(%sa, %sb : tensor<?xf32>, tensor<2x64xf32>) direction quantize
        : tensor<?x64xf8E4M3FN>, tensor<2x64x64xf8E4M3FN> -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @contraction(%a: tensor<?x60xbf16>, %b: tensor<2x60x64xbf16, #fp8moe.strided<[0, 2, 1]>>,
      %ends: tensor<2xi32>) -> tensor<?x64xbf16> {
    // expected-error@+1 {{on sm_90a expects strides of the first operand that are multiples of 8 elements (16 bytes), found 60; pad the tensor}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        : tensor<?x60xbf16>, tensor<2x60x64xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @columns(%a: tensor<?x64xbf16>, %b: tensor<2x64x60xbf16, #fp8moe.strided<[0, 2, 1]>>,
      %ends: tensor<2xi32>) -> tensor<?x60xbf16> {
    // expected-error@+1 {{expects strides of the result that are multiples of 8 elements (16 bytes), found 60}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        : tensor<?x64xbf16>, tensor<2x64x60xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x60xbf16>
    return %o : tensor<?x60xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @registers(%a: tensor<?x64xbf16>, %b: tensor<2x64x64xbf16, #fp8moe.strided<[0, 2, 1]>>,
      %ends: tensor<2xi32>) -> tensor<?x64xbf16> {
    // expected-error@+1 {{has a tile that target sm_90a cannot run: a thread needs 328 registers for its accumulators and what goes with them, it has 240; use another one, such as}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        tiles [#fp8moe.wgmma<rows = 128, columns = 256, stages = 2, schedule = ping_pong>]
        : tensor<?x64xbf16>, tensor<2x64x64xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}

// -----

// A copy of an N-major B has 64 columns, so tiles must be multiples of 64 columns wide.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @boxes(%a: tensor<?x64xbf16>, %b: tensor<2x64x192xbf16>, %ends: tensor<2xi32>) -> tensor<?x192xbf16> {
    // expected-error@+1 {{has a tile that target sm_90a cannot run: the second operand is contiguous along its columns, which takes tiles of whole boxes of 64 of them, found 96; use another one, such as}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        tiles [#fp8moe.wgmma<rows = 128, columns = 96, stages = 4, schedule = ping_pong>]
        : tensor<?x64xbf16>, tensor<2x64x192xbf16> -> tensor<?x192xbf16>
    return %o : tensor<?x192xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @memory(%a: tensor<?x64xbf16>, %b: tensor<2x64x64xbf16, #fp8moe.strided<[0, 2, 1]>>,
      %ends: tensor<2xi32>) -> tensor<?x64xbf16> {
    // expected-error@+1 {{has a tile that target sm_90a cannot run: it takes 264304 bytes of shared memory, a block has 232448}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 7, schedule = ping_pong>]
        : tensor<?x64xbf16>, tensor<2x64x64xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @too_large(%a: tensor<?x4294967296xbf16>,
      %b: tensor<2x4294967296x64xbf16, #fp8moe.strided<[0, 2, 1]>>, %ends: tensor<2xi32>)
      -> tensor<?x64xbf16> {
    // expected-error@+1 {{on sm_90a takes sizes from 1 to 2147418112, found 4294967296}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        : tensor<?x4294967296xbf16>, tensor<2x4294967296x64xbf16, #fp8moe.strided<[0, 2, 1]>>
        -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @undecided(%a: tensor<64x128xbf16>, %b: tensor<128x64xbf16, #fp8moe.strided<[1, 0]>>) -> tensor<64x64xbf16> {
    // expected-error @below {{cannot be lowered while its precision is undecided; run --fp8moe-select-precision}}
    %0 = fp8moe.linear %a, %b precision <undecided, "wq", forward>
        : tensor<64x128xbf16>, tensor<128x64xbf16, #fp8moe.strided<[1, 0]>> -> tensor<64x64xbf16>
    return %0 : tensor<64x64xbf16>
  }
}
