// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

// grouped_matmul with block scales

func.func @f(%a: tensor<64x96x!fp8moe.e4m3>, %b: tensor<2x96x32x!fp8moe.e4m3>, %ends: tensor<2xi32>,
             %sa: tensor<64x3xf8E8M0FNU>, %sb: tensor<2x32xf32>) {
  // expected-error @below {{expects scales of slices (f32) for both operands, or of blocks (f8E8M0FNU) for both, found 'f8E8M0FNU' and 'f32'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<64x3xf8E8M0FNU>, tensor<2x32xf32>)
      : tensor<64x96x!fp8moe.e4m3>, tensor<2x96x32x!fp8moe.e4m3> -> tensor<64x32xbf16>
  return
}

// -----

func.func @f(%a: tensor<64x96x!fp8moe.e4m3>, %b: tensor<2x96x32x!fp8moe.e4m3>, %ends: tensor<2xi32>,
             %sa: tensor<64x3xf8E8M0FNU>, %sb: tensor<2x32x3xf8E8M0FNU>) {
  // expected-error @below {{has scales of blocks, which always dequantize; remove 'direction'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<64x3xf8E8M0FNU>, tensor<2x32x3xf8E8M0FNU>) direction dequantize
      : tensor<64x96x!fp8moe.e4m3>, tensor<2x96x32x!fp8moe.e4m3> -> tensor<64x32xbf16>
  return
}

// -----

func.func @f(%a: tensor<64x96x!fp8moe.e4m3>, %b: tensor<2x96x32x!fp8moe.e4m3>, %ends: tensor<2xi32>,
             %sa: tensor<64x3xf8E8M0FNU>, %sb: tensor<2x3x32xf8E8M0FNU>) {
  // expected-error @below {{expects the scales of the second operand to have shape [2, 32, 3] (the input's other dimensions, then its blocks of 32), found [2, 3, 32]}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<64x3xf8E8M0FNU>, tensor<2x3x32xf8E8M0FNU>)
      : tensor<64x96x!fp8moe.e4m3>, tensor<2x96x32x!fp8moe.e4m3> -> tensor<64x32xbf16>
  return
}

// -----

// In a K-grouped matmul, blocks lie along the groups, so the scales need padded groups, too.
func.func @f(%a: tensor<32x64x!fp8moe.e4m3>, %b: tensor<64x96x!fp8moe.e4m3>, %ends: tensor<2xi32>,
             %sa: tensor<32x2xf8E8M0FNU>, %sb: tensor<96x2xf8E8M0FNU>) {
  // expected-error @below {{expects group offsets exactly when the scales have a blocked layout with padded groups; use #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<32x2xf8E8M0FNU>, tensor<96x2xf8E8M0FNU>)
      : tensor<32x64x!fp8moe.e4m3>, tensor<64x96x!fp8moe.e4m3> -> tensor<2x32x96xbf16>
  return
}

// -----

#rows = #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>
#columns = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>
#tiles = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>
func.func @f(%a: tensor<32x96x!fp8moe.e4m3, #rows>, %b: tensor<96x96x!fp8moe.e4m3, #columns>, %ends: tensor<2xi32>,
             %sa: tensor<32x12xf8E8M0FNU, #tiles>, %sb: tensor<96x12xf8E8M0FNU, #tiles>) {
  // expected-error @below {{has scales of blocks, which start at the first row of each group, and expects operands with packed groups, found 'tensor<32x96x!fp8moe.e4m3, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>>'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<32x12xf8E8M0FNU, #tiles>, tensor<96x12xf8E8M0FNU, #tiles>)
      : tensor<32x96x!fp8moe.e4m3, #rows>, tensor<96x96x!fp8moe.e4m3, #columns> -> tensor<2x32x96xbf16>
  return
}

// -----

// A dense matmul has no groups, so its scales cannot have any.
func.func @f(%a: tensor<32x64x!fp8moe.e4m3>, %b: tensor<64x96x!fp8moe.e4m3>,
             %sa: tensor<256x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>,
             %sb: tensor<96x2xf8E8M0FNU>) {
  // expected-error @below {{expects group offsets exactly when the scales have a blocked layout with padded groups; use #fp8moe.scale_blocked<128x4>, or fp8moe.grouped_matmul}}
  %0 = fp8moe.linear %a, %b
      scales(%sa, %sb : tensor<256x2xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>, tensor<96x2xf8E8M0FNU>)
      : tensor<32x64x!fp8moe.e4m3>, tensor<64x96x!fp8moe.e4m3> -> tensor<32x96xbf16>
  return
}

// -----

func.func @f(%a: tensor<32x64x!fp8moe.e4m3>, %b: tensor<64x96x!fp8moe.e4m3>, %sa: tensor<32x2xf8E8M0FNU>, %sb: tensor<2x96xf8E8M0FNU>) {
  // expected-error @below {{expects the scales of the second operand to have shape [96, 2]}}
  %0 = fp8moe.linear %a, %b scales(%sa, %sb : tensor<32x2xf8E8M0FNU>, tensor<2x96xf8E8M0FNU>)
      : tensor<32x64x!fp8moe.e4m3>, tensor<64x96x!fp8moe.e4m3> -> tensor<32x96xbf16>
  return
}

// -----

func.func @f(%a: tensor<32x64x!fp8moe.e4m3>, %b: tensor<64x96x!fp8moe.e4m3>, %sa: tensor<32x2xf8E8M0FNU>) {
  // expected-error @below {{has scales of blocks of the first operand only; give those of the second one, too}}
  %0 = fp8moe.linear %a, %b scales(%sa : tensor<32x2xf8E8M0FNU>)
      : tensor<32x64x!fp8moe.e4m3>, tensor<64x96x!fp8moe.e4m3> -> tensor<32x96xbf16>
  return
}
