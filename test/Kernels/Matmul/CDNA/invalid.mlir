// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --convert-fp8moe-to-gpu

#neither = #fp8moe.strided<[0, 1, 2], strides = [65536, 1024, 8]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @neither_along_the_contraction_nor_the_columns(%a: tensor<?x64xbf16>, %b: tensor<2x64x64xbf16, #neither>,
                                                           %ends: tensor<2xi32>) -> tensor<?x64xbf16> {
    // expected-error@+1 {{on gfx942 expects the second operand to be contiguous along dimension 1; run fp8moe-optimize-layouts, or fp8moe.relayout it}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<?x64xbf16>, tensor<2x64x64xbf16, #neither> -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}

// -----

// A lane loads 16 bytes, so the strides of B must be multiples of 16 bytes, too.
module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  func.func @columns(%a: tensor<?x64xbf16>, %b: tensor<2x64x60xbf16>, %ends: tensor<2xi32>) -> tensor<?x60xbf16> {
    // expected-error@+1 {{on gfx950 expects strides of the second operand that are multiples of 8 elements (16 bytes), found 60; pad the tensor}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<?x64xbf16>, tensor<2x64x60xbf16> -> tensor<?x60xbf16>
    return %o : tensor<?x60xbf16>
  }
}

// -----

// An unpadded K-grouped matmul masks both ends. Together with a transposed operand, that needs too
// many registers for this tile.
module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  func.func @masks_beside_transposed(%a: tensor<256x1024xbf16>, %b: tensor<1024x256xbf16>, %ends: tensor<8xi32>) -> tensor<8x256x256xbf16> {
    // expected-error@+1 {{'fp8moe.grouped_matmul' has the tile mfma<rows = 256, columns = 256>, but on target gfx950 its layouts take mfma<rows = 128, columns = 256>, mfma<rows = 128, columns = 128>; use one of these or none}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<256x1024xbf16>, tensor<1024x256xbf16> -> tensor<8x256x256xbf16>
    return %o : tensor<8x256x256xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  func.func @contraction(%a: tensor<?x60xbf16>, %b: tensor<2x60x64xbf16, #fp8moe.strided<[0, 2, 1]>>,
      %ends: tensor<2xi32>) -> tensor<?x64xbf16> {
    // expected-error@+1 {{on gfx950 expects strides of the first operand that are multiples of 8 elements (16 bytes), found 60; pad the tensor}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<?x60xbf16>, tensor<2x60x64xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}

// -----

module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  func.func @long_contraction(%a: tensor<?x8388608xbf16>, %b: tensor<2x8388608x64xbf16, #fp8moe.strided<[0, 2, 1]>>,
      %ends: tensor<2xi32>) -> tensor<?x64xbf16> {
    // expected-error@+1 {{on gfx950 takes strides of the first operand up to 4194176, found 8388608; split the tensor, or compile the function for target 'cpu'}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<?x8388608xbf16>, tensor<2x8388608x64xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}

// -----

#wide = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @column_major_result(%a: tensor<32x64xbf16>, %b: tensor<2x64x64xbf16, #fp8moe.strided<[0, 2, 1]>>,
      %ends: tensor<2xi32>) -> tensor<32x64xbf16, #wide> {
    // expected-error@+1 {{on gfx942 expects the result to be contiguous along dimension 1; fp8moe.relayout such a result instead}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<32x64xbf16>, tensor<2x64x64xbf16, #fp8moe.strided<[0, 2, 1]>> -> tensor<32x64xbf16, #wide>
    return %o : tensor<32x64xbf16, #wide>
  }
}

// -----

// Rows with unaligned pitches are shifted in registers. The accumulators of this tile leave too
// few.
#tiles_of_groups = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>
module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  func.func @sums_and_shifted_lines(%a: tensor<512x1024xf8E4M3FN>, %b: tensor<1024x256xf8E4M3FN, #fp8moe.strided<[1, 0]>>,
                                    %ends: tensor<8xi32>, %sa: tensor<512x64xf8E8M0FNU, #tiles_of_groups>,
                                    %sb: tensor<256x64xf8E8M0FNU, #tiles_of_groups>) -> tensor<8x512x256xbf16> {
    // expected-error@+1 {{'fp8moe.grouped_matmul' has the tile mfma<rows = 256, columns = 256>, but on target gfx950 its layouts take mfma<rows = 128, columns = 256>, mfma<rows = 128, columns = 128>; use one of these or none}}
    %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<512x64xf8E8M0FNU, #tiles_of_groups>, tensor<256x64xf8E8M0FNU, #tiles_of_groups>)
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<512x1024xf8E4M3FN>, tensor<1024x256xf8E4M3FN, #fp8moe.strided<[1, 0]>> -> tensor<8x512x256xbf16>
    return %y : tensor<8x512x256xbf16>
  }
}
