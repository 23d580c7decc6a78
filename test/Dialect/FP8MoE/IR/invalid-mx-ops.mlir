// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

// mx_quantize

func.func @f(%x: tensor<96xf32>) {
  // expected-error @below {{expects an input of rank 2 or 3, found rank 1}}
  %0:2 = fp8moe.mx_quantize %x along [0] mode rceil : tensor<96xf32> -> tensor<96x!fp8moe.e4m3>, tensor<3xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<2x2x2x96xf32>) {
  // expected-error @below {{expects an input of rank 2 or 3, found rank 4}}
  %0:2 = fp8moe.mx_quantize %x along [3] mode rceil : tensor<2x2x2x96xf32> -> tensor<2x2x2x96x!fp8moe.e4m3>, tensor<2x2x2x3xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{expects an axis from 0 to 1 for an input of type 'tensor<64x96xf32>', found 2}}
  %0:2 = fp8moe.mx_quantize %x along [2] mode rceil : tensor<64x96xf32> -> tensor<64x96x!fp8moe.e4m3>, tensor<64x3xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{result #1 must be variadic of tensor of f8E8M0FNU whose encoding, if any, is a layout, but got 'tensor<64x3xf32>'}}
  %0:2 = fp8moe.mx_quantize %x along [1] mode rceil : tensor<64x96xf32> -> tensor<64x96x!fp8moe.e4m3>, tensor<64x3xf32>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{expects scales #0 to have shape [64, 3] (the input's other dimensions, then its blocks of 32), found [64, 4]}}
  %0:2 = fp8moe.mx_quantize %x along [1] mode rceil : tensor<64x96xf32> -> tensor<64x96x!fp8moe.e4m3>, tensor<64x4xf8E8M0FNU>
  return
}

// -----

// The dimension of the blocks is the last one of the scales.
func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{expects scales #0 to have shape [96, 2] (the input's other dimensions, then its blocks of 32), found [2, 96]}}
  %0:2 = fp8moe.mx_quantize %x along [0] mode rceil : tensor<64x96xf32> -> tensor<64x96x!fp8moe.e4m3>, tensor<2x96xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{expects scales #0 to be dense row-major, found #fp8moe.strided<[1, 0]>}}
  %0:2 = fp8moe.mx_quantize %x along [1] mode rceil : tensor<64x96xf32> -> tensor<64x96x!fp8moe.e4m3>, tensor<64x3xf8E8M0FNU, #fp8moe.strided<[1, 0]>>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{expects data #0 to have shape [64, 96] (that of the input), found [96, 64]}}
  %0:2 = fp8moe.mx_quantize %x along [1] mode rceil : tensor<64x96xf32> -> tensor<96x64x!fp8moe.e4m3>, tensor<64x3xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{expects data #0 to have packed groups, found #fp8moe.strided<[0, 1], groups<dim = 0, pad = 32>>; use fp8moe.relayout with 'groups' to pack them first}}
  %0:2 = fp8moe.mx_quantize %x along [1] mode rceil : tensor<64x96xf32> -> tensor<64x96x!fp8moe.e4m3, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 32>>>, tensor<64x3xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{cannot choose the unknown strides of data #0 of type 'tensor<64x96x!fp8moe.e4m3, #fp8moe.strided<[0, 1], strides = [?, 1]>>'; give all strides, or leave them out for dense ones}}
  %0:2 = fp8moe.mx_quantize %x along [1] mode rceil : tensor<64x96xf32> -> tensor<64x96x!fp8moe.e4m3, #fp8moe.strided<[0, 1], strides = [?, 1]>>, tensor<64x3xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>, %ends: tensor<1xi32>) {
  // expected-error @below {{expects group offsets exactly when the scales have a blocked layout with padded groups; remove 'groups(...)' or pad the scales' layout}}
  %0:2 = fp8moe.mx_quantize %x along [1] mode rceil groups(%ends : tensor<1xi32>) : tensor<64x96xf32> -> tensor<64x96x!fp8moe.e4m3>, tensor<64x3xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{expects group offsets exactly when the scales have a blocked layout with padded groups; add 'groups(%offsets : tensor<Exi32>)'}}
  %0:2 = fp8moe.mx_quantize %x along [1] mode rceil : tensor<64x96xf32> -> tensor<64x96x!fp8moe.e4m3>, tensor<256x3xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>, %ends: tensor<1xi32>) {
  // expected-error @below {{has blocks along 0 and expects groups of scales along dimension 1, found #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>}}
  %0:2 = fp8moe.mx_quantize %x along [0] mode rceil groups(%ends : tensor<1xi32>) : tensor<64x96xf32> -> tensor<64x96x!fp8moe.e4m3>, tensor<256x3xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
  return
}

// -----

// The padded extent is round_up(64 + 1 * 127, 128) = 256.
func.func @f(%x: tensor<64x96xf32>, %ends: tensor<1xi32>) {
  // expected-error @below {{expects scales #0 to have shape [256, 3] (the input's other dimensions, then its blocks of 32), found [128, 3]}}
  %0:2 = fp8moe.mx_quantize %x along [1] mode rceil groups(%ends : tensor<1xi32>) : tensor<64x96xf32> -> tensor<64x96x!fp8moe.e4m3>, tensor<128x3xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
  return
}

// -----

func.func @f(%x: tensor<2x64x96xf32>, %ends: tensor<1xi32>) {
  // expected-error @below {{expects an input of rank 2 when groups are given, found rank 3}}
  %0:2 = fp8moe.mx_quantize %x along [1] mode rceil groups(%ends : tensor<1xi32>) : tensor<2x64x96xf32>
      -> tensor<2x64x96x!fp8moe.e4m3>, tensor<256x3xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
  return
}

// -----

// Quantization along two axes

func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{expects one axis or two different ones, found [1, 1]}}
  %0:4 = fp8moe.mx_quantize %x along [1, 1] mode ceil : tensor<64x96xf32>
      -> tensor<64x96x!fp8moe.e4m3>, tensor<64x96x!fp8moe.e4m3>, tensor<64x3xf8E8M0FNU>, tensor<64x3xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{expects 4 results, data and scales for each of 2 axes, found 2}}
  %0:2 = fp8moe.mx_quantize %x along [0, 1] mode ceil : tensor<64x96xf32>
      -> tensor<64x96x!fp8moe.e4m3>, tensor<96x2xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>) {
  // expected-error @below {{expects scales #1 to have shape [64, 3] (the input's other dimensions, then its blocks of 32), found [96, 2]}}
  %0:4 = fp8moe.mx_quantize %x along [0, 1] mode ceil : tensor<64x96xf32>
      -> tensor<64x96x!fp8moe.e4m3>, tensor<64x96x!fp8moe.e4m3>, tensor<96x2xf8E8M0FNU>, tensor<96x2xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<2x64x96xf32>) {
  // expected-error @below {{expects axes 1 and 2 of an input of rank 3, each of whose first dimension is a matrix, found [0, 2]; give axis 0 an operation of its own}}
  %0:4 = fp8moe.mx_quantize %x along [0, 2] mode ceil : tensor<2x64x96xf32>
      -> tensor<2x64x96x!fp8moe.e4m3>, tensor<2x64x96x!fp8moe.e4m3>, tensor<64x96x1xf8E8M0FNU>, tensor<2x64x3xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<2x64x96xf32>) {
  // expected-error @below {{expects axes 1 and 2 of an input of rank 3, each of whose first dimension is a matrix, found [0]; give axis 0 an operation of its own, without 'square'}}
  %0:2 = fp8moe.mx_quantize %x along [0] mode even square : tensor<2x64x96xf32>
      -> tensor<2x64x96x!fp8moe.e4m3>, tensor<64x96x1xf8E8M0FNU>
  return
}

// -----

func.func @f(%x: tensor<64x96xf32>, %ends: tensor<1xi32>) {
  // expected-error @below {{expects no groups with 'square', whose blocks are those of weights; remove 'square' or 'groups(...)'}}
  %0:2 = fp8moe.mx_quantize %x along [1] mode rceil square groups(%ends : tensor<1xi32>) : tensor<64x96xf32>
      -> tensor<64x96x!fp8moe.e4m3>, tensor<256x3xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
  return
}

// -----

// mx_dequantize

func.func @f(%q: tensor<96x!fp8moe.e4m3>, %s: tensor<3xf8E8M0FNU>) {
  // expected-error @below {{expects an input of rank 2 or 3, found rank 1}}
  %0 = fp8moe.mx_dequantize %q by %s along 0 : tensor<96x!fp8moe.e4m3>, tensor<3xf8E8M0FNU> -> tensor<96xf32>
  return
}

// -----

func.func @f(%q: tensor<64x96x!fp8moe.e4m3>, %s: tensor<64x3xf8E8M0FNU>) {
  // expected-error @below {{expects an axis from 0 to 1 for an input of type 'tensor<64x96x!fp8moe.e4m3>', found -1}}
  %0 = fp8moe.mx_dequantize %q by %s along -1 : tensor<64x96x!fp8moe.e4m3>, tensor<64x3xf8E8M0FNU> -> tensor<64x96xf32>
  return
}

// -----

func.func @f(%q: tensor<64x96x!fp8moe.e4m3>, %s: tensor<64x3xf8E8M0FNU>) {
  // expected-error @below {{expects the result to have shape [64, 96] (that of the input), found [64, 97]}}
  %0 = fp8moe.mx_dequantize %q by %s along 1 : tensor<64x96x!fp8moe.e4m3>, tensor<64x3xf8E8M0FNU> -> tensor<64x97xf32>
  return
}

// -----

func.func @f(%q: tensor<64x96x!fp8moe.e4m3>, %s: tensor<64x4xf8E8M0FNU>) {
  // expected-error @below {{expects the scales to have shape [64, 3] (the input's other dimensions, then its blocks of 32), found [64, 4]}}
  %0 = fp8moe.mx_dequantize %q by %s along 1 : tensor<64x96x!fp8moe.e4m3>, tensor<64x4xf8E8M0FNU> -> tensor<64x96xf32>
  return
}

// -----

func.func @f(%q: tensor<64x96x!fp8moe.e4m3>, %s: tensor<64x3xf8E8M0FNU, #fp8moe.strided<[1, 0]>>) {
  // expected-error @below {{expects the scales to be dense row-major, found #fp8moe.strided<[1, 0]>}}
  %0 = fp8moe.mx_dequantize %q by %s along 1
      : tensor<64x96x!fp8moe.e4m3>, tensor<64x3xf8E8M0FNU, #fp8moe.strided<[1, 0]>> -> tensor<64x96xf32>
  return
}

// -----

func.func @f(%q: tensor<64x96x!fp8moe.e4m3>, %s: tensor<64x3xf8E8M0FNU>, %ends: tensor<1xi32>) {
  // expected-error @below {{expects group offsets exactly when the scales have a blocked layout with padded groups; remove 'groups(...)' or pad the scales' layout}}
  %0 = fp8moe.mx_dequantize %q by %s along 1 groups(%ends : tensor<1xi32>)
      : tensor<64x96x!fp8moe.e4m3>, tensor<64x3xf8E8M0FNU> -> tensor<64x96xf32>
  return
}

// -----

func.func @f(%q: tensor<64x96xbf16>, %s: tensor<64x3xf8E8M0FNU>) {
  // expected-error @below {{operand #0 must be tensor of FP8}}
  %0 = fp8moe.mx_dequantize %q by %s along 1 : tensor<64x96xbf16>, tensor<64x3xf8E8M0FNU> -> tensor<64x96xf32>
  return
}
