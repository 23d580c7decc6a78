// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

// grouped_matmul

func.func @f(%a: tensor<2x8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{expects operands of ranks 2 and 3 (M-grouped) or 2 and 2 (K-grouped), found 3 and 3}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32>) direction quantize
      : tensor<2x8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<4x!fp8moe.e4m3>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{expects operands of ranks 2 and 3 (M-grouped) or 2 and 2 (K-grouped), found 2 and 1}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32>) direction quantize
      : tensor<8x4x!fp8moe.e4m3>, tensor<4x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{expects both operands FP8 or both bf16, found '!fp8moe.e4m3' and 'bf16'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32>) direction quantize
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xf16>, %b: tensor<2x4x6xf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{operand #0 must be tensor of FP8 or bf16 whose encoding, if any, is a layout, but got 'tensor<8x4xf16>'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<8x4xf16>, tensor<2x4x6xf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xf8E4M3FN>, %b: tensor<2x4x6xf8E4M3FNUZ>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{mixes FP8 flavours: 'f8E4M3FN' and 'f8E4M3FNUZ'; quantize both operands to types of one flavour, or both to !fp8moe types}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32>) direction quantize
      : tensor<8x4xf8E4M3FN>, tensor<2x4x6xf8E4M3FNUZ> -> tensor<8x6xf32>
  return
}

// -----

// f8E4M3FN and the neutral type do not mix: the target may resolve the neutral type to FNUZ.
func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6xf8E4M3FN>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{mixes FP8 flavours: '!fp8moe.e4m3' and 'f8E4M3FN'; quantize both operands to types of one flavour, or both to !fp8moe types}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32>) direction quantize
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6xf8E4M3FN> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e5m2>, %b: tensor<2x4x6x!fp8moe.e5m2>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{does not multiply e5m2 by e5m2; at least one operand must be e4m3 (only gradients need e5m2)}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32>) direction quantize
      : tensor<8x4x!fp8moe.e5m2>, tensor<2x4x6x!fp8moe.e5m2> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xf8E5M2>, %b: tensor<2x4x6xf8E5M2>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{does not multiply e5m2 by e5m2; at least one operand must be e4m3 (only gradients need e5m2)}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32>) direction quantize
      : tensor<8x4xf8E5M2>, tensor<2x4x6xf8E5M2> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>) {
  // expected-error @below {{multiplies FP8 operands and needs 'scales(...)' and 'direction quantize' or 'direction dequantize'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>) {
  // expected-error @below {{multiplies FP8 operands and needs 'scales(...)' and 'direction quantize' or 'direction dequantize'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) direction quantize
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{has scales of slices (f32) and no direction; add 'direction quantize' or 'direction dequantize'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32>)
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{multiplies bf16 operands, which have no 'scales(...)' and no 'direction'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32>) direction quantize
      : tensor<8x4xbf16>, tensor<2x4x6xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{multiplies bf16 operands, which have no 'scales(...)' and no 'direction'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32>)
      : tensor<8x4xbf16>, tensor<2x4x6xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{multiplies bf16 operands, which have no 'scales(...)' and no 'direction'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) direction quantize
      : tensor<8x4xbf16>, tensor<2x4x6xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>, %s: tensor<8xf32>) {
  // expected-error @below {{multiplies bf16 operands, which have no 'scales(...)' and no 'direction'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%s : tensor<8xf32>)
      : tensor<8x4xbf16>, tensor<2x4x6xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %s: tensor<8xf32>) {
  // expected-error @below {{has scales of slices (f32) and no direction; add 'direction quantize' or 'direction dequantize'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%s : tensor<8xf32>)
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %s: tensor<4xf32>) {
  // expected-error @below {{expects the scales of the first operand to have shape [8] ([M])}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%s : tensor<4xf32>) direction quantize
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

// The syntax cannot give scales of B only, but the generic form can.
func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %s: tensor<2x6xf32>) {
  // expected-error @below {{has scales of the second operand only; give those of the first one, too}}
  %0 = "fp8moe.grouped_matmul"(%a, %b, %ends, %s) <{direction = #fp8moe<scale quantize>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0>}>
      : (tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3>, tensor<2xi32>, tensor<2x6xf32>) -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>, %s: tensor<2x6xf32>) {
  // expected-error @below {{multiplies bf16 operands, which have no 'scales(...)' and no 'direction'}}
  %0 = "fp8moe.grouped_matmul"(%a, %b, %ends, %s) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0>}>
      : (tensor<8x4xbf16>, tensor<2x4x6xbf16>, tensor<2xi32>, tensor<2x6xf32>) -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{operand count (3) does not match with the total size (4) specified in attribute 'operandSegmentSizes'}}
  %0 = "fp8moe.grouped_matmul"(%a, %b, %ends) <{operandSegmentSizes = array<i32: 1, 1, 2, 0, 0, 0>}>
      : (tensor<8x4xbf16>, tensor<2x4x6xbf16>, tensor<2xi32>) -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x5xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the contracted sizes to agree, found 5 and 4}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<8x5xbf16>, tensor<2x4x6xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<3x4x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the number of experts and of group offsets to agree, found 3 and 2}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<8x4xbf16>, tensor<3x4x6xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the result to have shape [8, 6] ([M, N]), found [8, 4]}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<8x4xbf16>, tensor<2x4x6xbf16> -> tensor<8x4xf32>
  return
}

// -----

func.func @f(%a: tensor<?x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the result to have shape [?, 6] ([M, N]), found [8, 6]}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<?x4xbf16>, tensor<2x4x6xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{result #0 must be tensor of bf16 or f32 whose encoding, if any, is a layout, but got 'tensor<8x6xf16>'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<8x4xbf16>, tensor<2x4x6xbf16> -> tensor<8x6xf16>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the result to have packed groups, found #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>; use fp8moe.relayout with 'groups' to pack them first}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<8x4xbf16>, tensor<2x4x6xbf16> -> tensor<8x6xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{cannot choose the unknown strides of the result of type 'tensor<8x6xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>'; give all strides, or leave them out for dense ones}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<8x4xbf16>, tensor<2x4x6xbf16> -> tensor<8x6xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the first operand to have packed groups, found #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>; use fp8moe.relayout with 'groups' to pack them first}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<8x4xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>, tensor<2x4x6xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16, #fp8moe.strided<[0, 1, 2], groups<dim = 1, pad = 2>>>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the second operand to have packed groups, found #fp8moe.strided<[0, 1, 2], groups<dim = 1, pad = 2>>; use fp8moe.relayout with 'groups' to pack them first}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<8x4xbf16>, tensor<2x4x6xbf16, #fp8moe.strided<[0, 1, 2], groups<dim = 1, pad = 2>>> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi32, #fp8moe.strided<[0], strides = [2]>>) {
  // expected-error @below {{expects the group offsets to be dense row-major, found #fp8moe.strided<[0], strides = [2]>}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32, #fp8moe.strided<[0], strides = [2]>>)
      : tensor<8x4xbf16>, tensor<2x4x6xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4xbf16>, %b: tensor<2x4x6xbf16>, %ends: tensor<2xi16>) {
  // expected-error @below {{operand #2 must be 1-D tensor of i32 group ends whose encoding, if any, is a layout, but got 'tensor<2xi16>'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi16>)
      : tensor<8x4xbf16>, tensor<2x4x6xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %sa: tensor<4xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{expects the scales of the first operand to have shape [8] ([M]), found [4]}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<4xf32>, tensor<2x6xf32>) direction quantize
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<6x2xf32>) {
  // expected-error @below {{expects the scales of the second operand to have shape [2, 6] ([E, N]), found [6, 2]}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<6x2xf32>) direction quantize
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %sa: tensor<8xf32, #fp8moe.strided<[0], strides = [2]>>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{expects the scales of the first operand to be dense row-major, found #fp8moe.strided<[0], strides = [2]>}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32, #fp8moe.strided<[0], strides = [2]>>, tensor<2x6xf32>) direction quantize
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32, #fp8moe.strided<[1, 0]>>) {
  // expected-error @below {{expects the scales of the second operand to be dense row-major, found #fp8moe.strided<[1, 0]>}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32, #fp8moe.strided<[1, 0]>>) direction quantize
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

func.func @f(%a: tensor<8x4x!fp8moe.e4m3>, %b: tensor<2x4x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %sa: tensor<8xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{; expects one of fast, promoted}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<8xf32>, tensor<2x6xf32>) direction quantize accumulation exact
      // expected-error @below {{failed to parse FP8MoE_AccumulationAttr parameter 'value' which is to be a `::mlir::fp8moe::Accumulation`}}
      : tensor<8x4x!fp8moe.e4m3>, tensor<2x4x6x!fp8moe.e4m3> -> tensor<8x6xf32>
  return
}

// -----

// grouped_matmul, K-grouped (gradient of the weights)

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<9x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the contracted sizes to agree, found 8 and 9}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<4x8xbf16>, tensor<9x6xbf16> -> tensor<2x4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<8x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the result to have shape [2, 4, 6] ([E, N, K]), found [4, 6]}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<8x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the result to have shape [2, 4, 6] ([E, N, K]), found [3, 4, 6]}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<3x4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 2>>>, %b: tensor<8x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects both operands to pad their groups alike, found 'tensor<4x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 2>>>' and 'tensor<8x6xbf16>'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<4x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 2>>>, tensor<8x6xbf16> -> tensor<2x4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 2>>>, %b: tensor<8x6xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 4>>>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects both operands to pad their groups alike, found 'tensor<4x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 2>>>' and 'tensor<8x6xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 4>>>'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<4x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 2>>>, tensor<8x6xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 4>>> -> tensor<2x4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>, %b: tensor<8x6xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects padded groups along dimension 1 of the first and 0 of the second operand, found 'tensor<4x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>' and 'tensor<8x6xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<4x8xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>, tensor<8x6xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>> -> tensor<2x4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8x!fp8moe.e4m3>, %b: tensor<8x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %sa: tensor<2x6xf32>, %sb: tensor<2x6xf32>) {
  // expected-error @below {{expects the scales of the first operand to have shape [2, 4] ([E, N]), found [2, 6]}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<2x6xf32>, tensor<2x6xf32>) direction quantize
      : tensor<4x8x!fp8moe.e4m3>, tensor<8x6x!fp8moe.e4m3> -> tensor<2x4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8x!fp8moe.e4m3>, %b: tensor<8x6x!fp8moe.e4m3>, %ends: tensor<2xi32>, %sa: tensor<2x4xf32>, %sb: tensor<6xf32>) {
  // expected-error @below {{expects the scales of the second operand to have shape [2, 6] ([E, K]), found [6]}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) scales(%sa, %sb : tensor<2x4xf32>, tensor<6xf32>) direction quantize
      : tensor<4x8x!fp8moe.e4m3>, tensor<8x6x!fp8moe.e4m3> -> tensor<2x4x6xf32>
  return
}

// -----

// grouped_matmul with an addend

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<8x6xbf16>, %ends: tensor<2xi32>, %c: tensor<2x4x6xbf16>) {
  // expected-error @below {{expects the tensor to accumulate into to have the result's type 'tensor<2x4x6xf32>', found 'tensor<2x4x6xbf16>'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) accumulate(%c : tensor<2x4x6xbf16>)
      : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<2x4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<8x6xbf16>, %ends: tensor<2xi32>, %c: tensor<2x4x6xf32, #fp8moe.strided<[0, 2, 1]>>) {
  // expected-error @below {{expects the tensor to accumulate into to have the result's type 'tensor<2x4x6xf32>', found 'tensor<2x4x6xf32, #fp8moe.strided<[0, 2, 1]>>'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) accumulate(%c : tensor<2x4x6xf32, #fp8moe.strided<[0, 2, 1]>>)
      : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<2x4x6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<8x6xbf16>, %ends: tensor<2xi32>, %c: tensor<4x6xf32>) {
  // expected-error @below {{expects the tensor to accumulate into to have the result's type 'tensor<2x4x6xf32>', found 'tensor<4x6xf32>'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) accumulate(%c : tensor<4x6xf32>)
      : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<2x4x6xf32>
  return
}

// -----

// linear

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<2x8x6xbf16>) {
  // expected-error @below {{expects operands of ranks 2 and 2, found 2 and 3; fp8moe.grouped_matmul multiplies by several experts}}
  %0 = fp8moe.linear %a, %b : tensor<4x8xbf16>, tensor<2x8x6xbf16> -> tensor<4x6xbf16>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<6x8xbf16>) {
  // expected-error @below {{expects the contracted sizes to agree, found 8 and 6}}
  %0 = fp8moe.linear %a, %b : tensor<4x8xbf16>, tensor<6x8xbf16> -> tensor<4x8xbf16>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<8x6xbf16>) {
  // expected-error @below {{expects the result to have shape [4, 6] ([M, N]), found [6, 4]}}
  %0 = fp8moe.linear %a, %b : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<6x4xbf16>
  return
}

// -----

func.func @f(%a: tensor<4x8x!fp8moe.e4m3>, %b: tensor<8x6x!fp8moe.e4m3>) {
  // expected-error @below {{multiplies FP8 operands and needs 'scales(...)' and 'direction quantize' or 'direction dequantize'}}
  %0 = fp8moe.linear %a, %b : tensor<4x8x!fp8moe.e4m3>, tensor<8x6x!fp8moe.e4m3> -> tensor<4x6xbf16>
  return
}

// -----

func.func @f(%a: tensor<4x8x!fp8moe.e4m3>, %b: tensor<8x6x!fp8moe.e4m3>, %sa: tensor<4xf32>, %sb: tensor<1x6xf32>) {
  // expected-error @below {{expects the scales of the second operand to have shape [6] ([N]), found [1, 6]}}
  %0 = fp8moe.linear %a, %b scales(%sa, %sb : tensor<4xf32>, tensor<1x6xf32>) direction quantize
      : tensor<4x8x!fp8moe.e4m3>, tensor<8x6x!fp8moe.e4m3> -> tensor<4x6xbf16>
  return
}

// -----

func.func @f(%a: tensor<4x128xbf16, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>>, %b: tensor<128x6xbf16>) {
  // expected-error @below {{the first operand}}
  %0 = fp8moe.linear %a, %b : tensor<4x128xbf16, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>>, tensor<128x6xbf16> -> tensor<4x6xbf16>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<8x6xbf16>, %c: tensor<4x6xbf16>) {
  // expected-error @below {{expects the tensor to accumulate into to have the result's type 'tensor<4x6xf32>', found 'tensor<4x6xbf16>'}}
  %0 = fp8moe.linear %a, %b accumulate(%c : tensor<4x6xbf16>) : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<4x6xf32>
  return
}

// -----

// Precision decisions

func.func @f(%a: tensor<4x8x!fp8moe.e4m3>, %b: tensor<8x6x!fp8moe.e4m3>, %sa: tensor<4xf32>, %sb: tensor<6xf32>) {
  // expected-error @below {{multiplies FP8 operands, but its precision says 'undecided'; write 'fp8', or give it bf16 operands without scales}}
  %0 = fp8moe.linear %a, %b scales(%sa, %sb : tensor<4xf32>, tensor<6xf32>) direction quantize precision <undecided, "wq", forward>
      : tensor<4x8x!fp8moe.e4m3>, tensor<8x6x!fp8moe.e4m3> -> tensor<4x6xbf16>
  return
}

// -----

func.func @f(%a: tensor<4x8x!fp8moe.e4m3>, %b: tensor<8x6x!fp8moe.e4m3>, %sa: tensor<4xf32>, %sb: tensor<6xf32>) {
  // expected-error @below {{has scales of rows and columns, but its precision says recipe 'mxfp8'; write 'recipe = rowwise'}}
  %0 = fp8moe.linear %a, %b scales(%sa, %sb : tensor<4xf32>, tensor<6xf32>) direction quantize precision <fp8, "wq", forward, recipe = mxfp8>
      : tensor<4x8x!fp8moe.e4m3>, tensor<8x6x!fp8moe.e4m3> -> tensor<4x6xbf16>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<8x6xbf16>) {
  // expected-error @below {{expects the name of the matmul's module, such as "layers.0.attention.wk", found an empty one}}
  %0 = fp8moe.linear %a, %b precision <undecided, "", forward> : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<4x6xbf16>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<8x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{contracts groups, as a weight gradient does, but its precision says 'forward'; write 'wgrad'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) precision <undecided, "w1", forward>
      : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<2x4x6xbf16>
  return
}

// -----

func.func @f(%a: tensor<4x8xbf16>, %b: tensor<2x8x6xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{multiplies rows of groups by experts, but its precision says 'wgrad'; write 'forward' or 'dgrad'}}
  %0 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>) precision <undecided, "w1", wgrad>
      : tensor<4x8xbf16>, tensor<2x8x6xbf16> -> tensor<4x6xbf16>
  return
}

// -----

func.func @f(%a: tensor<4x8x!fp8moe.e4m3>, %b: tensor<8x6x!fp8moe.e4m3>, %sa: tensor<4xf32>) {
  // expected-error @below {{expected SSA operand}}
  %0 = fp8moe.linear %a, %b scales(%sa, : tensor<4xf32>) direction quantize
      : tensor<4x8x!fp8moe.e4m3>, tensor<8x6x!fp8moe.e4m3> -> tensor<4x6xbf16>
  return
}
