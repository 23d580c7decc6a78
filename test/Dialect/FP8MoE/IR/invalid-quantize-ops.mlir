// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

// scale, jagged_scale

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects an axis from 0 to 1 for an input of type 'tensor<4x8xf32>', found 2}}
  %0 = fp8moe.scale %x along 2 rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects an axis from 0 to 1 for an input of type 'tensor<4x8xf32>', found -1}}
  %0 = fp8moe.scale %x along -1 rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error @below {{needs an input with dimensions, found 'tensor<f32>'}}
  %0 = fp8moe.scale %x along 0 rounding pow2 fp8 !fp8moe.e4m3 : tensor<f32> -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects the scales to have shape [4] (the input without the axis), found [8]}}
  %0 = fp8moe.scale %x along 1 rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{attribute 'fp8Type' failed to satisfy constraint: FP8 type (!fp8moe.e4m3, !fp8moe.e5m2 or their FN or FNUZ builtin types)}}
  %0 = fp8moe.scale %x along 1 rounding pow2 fp8 f16 : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{; expects one of none, pow2}}
  // expected-error @below {{failed to parse FP8MoE_ScaleRoundingAttr parameter 'value' which is to be a `::mlir::fp8moe::ScaleRounding`}}
  %0 = fp8moe.scale %x along 1 rounding up fp8 !fp8moe.e4m3 : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf16>) {
  // expected-error @below {{operand #0 must be tensor of bf16 or f32 whose encoding, if any, is a layout, but got 'tensor<4x8xf16>'}}
  %0 = fp8moe.scale %x along 1 rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8xf16> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{result #0 must be tensor of f32 whose encoding, if any, is a layout, but got 'tensor<4xbf16>'}}
  %0 = fp8moe.scale %x along 1 rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8xf32> -> tensor<4xbf16>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>) {
  // expected-error @below {{expects the input to have packed groups, found #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>; use fp8moe.relayout with 'groups' to pack them first}}
  %0 = fp8moe.scale %x along 1 rounding pow2 fp8 !fp8moe.e4m3
      : tensor<4x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects an axis from 0 to 1 for an input of type 'tensor<4x8xf32>', found 2}}
  %0 = fp8moe.jagged_scale %x groups(%ends : tensor<2xi32>) along 2 rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8x2xf32>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects an input of rank 2 when groups are given, found rank 3}}
  %0 = fp8moe.jagged_scale %x groups(%ends : tensor<2xi32>) along 2 rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8x2xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the scales to have shape [2, 8] (groups, then the other dimension), found [2, 4]}}
  %0 = fp8moe.jagged_scale %x groups(%ends : tensor<2xi32>) along 0 rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<2x1xi32>) {
  // expected-error @below {{operand #1 must be 1-D tensor of i32 group ends whose encoding, if any, is a layout, but got 'tensor<2x1xi32>'}}
  %0 = fp8moe.jagged_scale %x groups(%ends : tensor<2x1xi32>) along 0 rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8xf32> -> tensor<2x8xf32>
  return
}

// -----

// Offsets are i32.
func.func @f(%x: tensor<4x8xf32>, %ends: tensor<2xi64>) {
  // expected-error @below {{operand #1 must be 1-D tensor of i32 group ends whose encoding, if any, is a layout, but got 'tensor<2xi64>'}}
  %0 = fp8moe.jagged_scale %x groups(%ends : tensor<2xi64>) along 0 rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<2xi32, #fp8moe.strided<[0], strides = [4]>>) {
  // expected-error @below {{expects the group offsets to be dense row-major, found #fp8moe.strided<[0], strides = [4]>}}
  %0 = fp8moe.jagged_scale %x groups(%ends : tensor<2xi32, #fp8moe.strided<[0], strides = [4]>>) along 0
      rounding pow2 fp8 !fp8moe.e4m3 : tensor<4x8xf32> -> tensor<2x8xf32>
  return
}

// -----

// quantize, dequantize

func.func @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{expects an axis from 0 to 1 for an input of type 'tensor<4x8xf32>', found 3}}
  %0 = fp8moe.quantize %x by %s along 3 : tensor<4x8xf32>, tensor<4xf32> -> tensor<4x8x!fp8moe.e4m3>
  return
}

// -----

// A tensor of rank 0 has no axis to quantize along.
func.func @f(%x: tensor<f32>, %s: tensor<f32>) {
  // expected-error @below {{needs an input with dimensions, found 'tensor<f32>'}}
  %0 = fp8moe.quantize %x by %s along 0 : tensor<f32>, tensor<f32> -> tensor<!fp8moe.e4m3>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{expects the scales to have shape [4] (the input without the axis), found [8]}}
  %0 = fp8moe.quantize %x by %s along 1 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8x!fp8moe.e4m3>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %s: tensor<2x4xf32>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects the scales to have shape [2, 8] (groups, then the other dimension), found [2, 4]}}
  %0 = fp8moe.quantize %x by %s along 0 groups(%ends : tensor<2xi32>) : tensor<4x8xf32>, tensor<2x4xf32> -> tensor<4x8x!fp8moe.e4m3>
  return
}

// -----

func.func @f(%x: tensor<4x8x2xf32>, %s: tensor<2x8xf32>, %ends: tensor<2xi32>) {
  // expected-error @below {{expects an input of rank 2 when groups are given, found rank 3}}
  %0 = fp8moe.quantize %x by %s along 0 groups(%ends : tensor<2xi32>) : tensor<4x8x2xf32>, tensor<2x8xf32> -> tensor<4x8x2x!fp8moe.e4m3>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %s: tensor<4xf32, #fp8moe.strided<[0], strides = [2]>>) {
  // expected-error @below {{expects the scales to be dense row-major, found #fp8moe.strided<[0], strides = [2]>}}
  %0 = fp8moe.quantize %x by %s along 1 : tensor<4x8xf32>, tensor<4xf32, #fp8moe.strided<[0], strides = [2]>> -> tensor<4x8x!fp8moe.e4m3>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{expects the result to have shape [4, 8] (that of the input), found [8, 4]}}
  %0 = fp8moe.quantize %x by %s along 1 : tensor<4x8xf32>, tensor<4xf32> -> tensor<8x4x!fp8moe.e4m3>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %s: tensor<?xf32>) {
  // expected-error @below {{expects the result to have shape [?, 8] (that of the input), found [4, 8]}}
  %0 = fp8moe.quantize %x by %s along 1 : tensor<?x8xf32>, tensor<?xf32> -> tensor<4x8x!fp8moe.e4m3>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{result #0 must be tensor of FP8 (!fp8moe.e4m3, !fp8moe.e5m2 or their FN or FNUZ builtin types) whose encoding, if any, is a layout, but got 'tensor<4x8xf16>'}}
  %0 = fp8moe.quantize %x by %s along 1 : tensor<4x8xf32>, tensor<4xf32> -> tensor<4x8xf16>
  return
}

// -----

// f8E4M3 (IEEE-like) is an FP8 type that no supported target has.
func.func @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{result #0 must be tensor of FP8 (!fp8moe.e4m3, !fp8moe.e5m2 or their FN or FNUZ builtin types) whose encoding, if any, is a layout, but got 'tensor<4x8xf8E4M3>'}}
  %0 = fp8moe.quantize %x by %s along 1 : tensor<4x8xf32>, tensor<4xf32> -> tensor<4x8xf8E4M3>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{expects the result to have packed groups, found #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>; use fp8moe.relayout with 'groups' to pack them first}}
  %0 = fp8moe.quantize %x by %s along 1 : tensor<4x8xf32>, tensor<4xf32>
      -> tensor<4x8x!fp8moe.e4m3, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{cannot choose the unknown strides of the result of type 'tensor<4x8x!fp8moe.e4m3, #fp8moe.strided<[0, 1], strides = [?, 1]>>'; give all strides, or leave them out for dense ones}}
  %0 = fp8moe.quantize %x by %s along 1 : tensor<4x8xf32>, tensor<4xf32>
      -> tensor<4x8x!fp8moe.e4m3, #fp8moe.strided<[0, 1], strides = [?, 1]>>
  return
}

// -----

func.func @f(%x: tensor<4x8xi8, #fp8moe.scale_blocked<128x4>>, %s: tensor<4xf32>) {
  // expected-error @below {{operand #0 must be tensor of bf16 or f32 whose encoding, if any, is a layout, but got 'tensor<4x8xi8, #fp8moe.scale_blocked<128x4>>'}}
  %0 = fp8moe.quantize %x by %s along 1 : tensor<4x8xi8, #fp8moe.scale_blocked<128x4>>, tensor<4xf32> -> tensor<4x8x!fp8moe.e4m3>
  return
}

// -----

func.func @f(%q: tensor<4x8xf8E4M3FN>, %s: tensor<4xf32>) {
  // expected-error @below {{; expects one of quantize, dequantize}}
  // expected-error @below {{failed to parse FP8MoE_ScaleDirectionAttr parameter 'value' which is to be a `::mlir::fp8moe::ScaleDirection`}}
  %0 = fp8moe.dequantize %q by %s along 1 direction sideways : tensor<4x8xf8E4M3FN>, tensor<4xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<4x8xf8E4M3FN>, %s: tensor<8xf32>) {
  // expected-error @below {{expects the scales to have shape [4] (the input without the axis), found [8]}}
  %0 = fp8moe.dequantize %q by %s along 1 direction quantize : tensor<4x8xf8E4M3FN>, tensor<8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<4x8xf8E4M3FN>, %s: tensor<4xf32>) {
  // expected-error @below {{result #0 must be tensor of bf16 or f32 whose encoding, if any, is a layout, but got 'tensor<4x8xf16>'}}
  %0 = fp8moe.dequantize %q by %s along 1 direction quantize : tensor<4x8xf8E4M3FN>, tensor<4xf32> -> tensor<4x8xf16>
  return
}

// -----

// dynamic_quantize, jagged_dynamic_quantize

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects one axis or two different ones, found []}}
  %0:2 = fp8moe.dynamic_quantize %x along [] rounding pow2 : tensor<4x8xf32> -> tensor<4x8x!fp8moe.e4m3>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects one axis or two different ones, found [1, 1]}}
  %0:2 = fp8moe.dynamic_quantize %x along [1, 1] rounding pow2 : tensor<4x8xf32> -> tensor<4x8x!fp8moe.e4m3>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects one axis or two different ones, found [0, 1, 2]}}
  %0:2 = fp8moe.dynamic_quantize %x along [0, 1, 2] rounding pow2 : tensor<4x8xf32> -> tensor<4x8x!fp8moe.e4m3>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects an axis from 0 to 1 for an input of type 'tensor<4x8xf32>', found -1}}
  %0:2 = fp8moe.dynamic_quantize %x along [-1] rounding pow2 : tensor<4x8xf32> -> tensor<4x8x!fp8moe.e4m3>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects 4 results, data and scales for each of 2 axes, found 2}}
  %0:2 = fp8moe.dynamic_quantize %x along [1, 0] rounding pow2 : tensor<4x8xf32> -> tensor<4x8x!fp8moe.e4m3>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects a type for each data result, then one for each scale result, found 1 in all}}
  %0 = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<4x8xf32> -> tensor<4x8x!fp8moe.e4m3>
  return
}

// -----

// The syntax fixes the number of results, but the generic form can have any.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects 2 results, data and scales for each of 1 axis, found 3}}
  %0:3 = "fp8moe.dynamic_quantize"(%x) <{axes = array<i64: 1>, rounding = #fp8moe<scale_rounding pow2>}>
      : (tensor<4x8xf32>) -> (tensor<4x8x!fp8moe.e4m3>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects 2 results, data and scales for each of 1 axis, found 0}}
  "fp8moe.dynamic_quantize"(%x) <{axes = array<i64: 1>, rounding = #fp8moe<scale_rounding pow2>}> : (tensor<4x8xf32>) -> ()
  return
}

// -----

// Results are the data first, then the scales.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{result #0 must be variadic of tensor of FP8 (!fp8moe.e4m3, !fp8moe.e5m2 or their FN or FNUZ builtin types) whose encoding, if any, is a layout, but got 'tensor<4xf32>'}}
  %0:2 = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<4x8xf32> -> tensor<4xf32>, tensor<4x8x!fp8moe.e4m3>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects data #0 to have shape [4, 8] (that of the input), found [8, 4]}}
  %0:2 = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<4x8xf32> -> tensor<8x4x!fp8moe.e4m3>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects scales #0 to have shape [4] (the input without the axis), found [8]}}
  %0:2 = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<4x8xf32> -> tensor<4x8x!fp8moe.e4m3>, tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects scales #1 to have shape [8] (the input without the axis), found [4]}}
  %0:4 = fp8moe.dynamic_quantize %x along [1, 0] rounding pow2 : tensor<4x8xf32>
      -> tensor<4x8x!fp8moe.e4m3>, tensor<4x8x!fp8moe.e4m3>, tensor<4xf32>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects data #0 to be packed, because groups do not cut it, found #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>}}
  %0:2 = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<4x8xf32>
      -> tensor<4x8x!fp8moe.e4m3, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{cannot choose the unknown strides of data #0 of type 'tensor<4x8x!fp8moe.e4m3, #fp8moe.strided<[0, 1], strides = [?, 1]>>'; give all strides, or leave them out for dense ones}}
  %0:2 = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<4x8xf32>
      -> tensor<4x8x!fp8moe.e4m3, #fp8moe.strided<[0, 1], strides = [?, 1]>>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>) {
  // expected-error @below {{expects the input to have packed groups, found #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>; use fp8moe.relayout with 'groups' to pack them first}}
  %0:2 = fp8moe.dynamic_quantize %x along [1] rounding pow2 : tensor<4x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
      -> tensor<4x8x!fp8moe.e4m3>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<3xi32>) {
  // expected-error @below {{expects an axis from 0 to 1 for an input of type 'tensor<4x8xf32>', found 2}}
  %0:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xi32>) along [2] rounding pow2 : tensor<4x8xf32>
      -> tensor<4x8x!fp8moe.e4m3>, tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<3xi32>) {
  // expected-error @below {{expects 4 results, data and scales for each of 2 axes, found 2}}
  %0:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xi32>) along [0, 1] rounding pow2 : tensor<4x8xf32>
      -> tensor<4x8x!fp8moe.e4m3>, tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8x2xf32>, %ends: tensor<3xi32>) {
  // expected-error @below {{expects an input of rank 2 when groups are given, found rank 3}}
  %0:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xi32>) along [0] rounding pow2 : tensor<4x8x2xf32>
      -> tensor<4x8x2x!fp8moe.e4m3>, tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>, %ends: tensor<3xi32>) {
  // expected-error @below {{expects an input of rank 2 when groups are given, found rank 1}}
  %0:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xi32>) along [0] rounding pow2 : tensor<8xf32>
      -> tensor<8x!fp8moe.e4m3>, tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<3xi32>) {
  // expected-error @below {{expects scales #0 to have shape [3, 8] (groups, then the other dimension), found [3, 4]}}
  %0:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xi32>) along [0] rounding pow2 : tensor<4x8xf32>
      -> tensor<4x8x!fp8moe.e4m3>, tensor<3x4xf32>
  return
}

// -----

// The padded extent is round_up(4 + 3 * 1, 2) = 8.
func.func @f(%x: tensor<4x8xf32>, %ends: tensor<3xi32>) {
  // expected-error @below {{expects data #0 to have shape [8, 8] (the padded extent along the jagged axis), found [6, 8]}}
  %0:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xi32>) along [0] rounding pow2 : tensor<4x8xf32>
      -> tensor<6x8x!fp8moe.e4m3, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>, tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<3xi32>) {
  // expected-error @below {{expects data #0 to pad groups along the jagged axis 0, found #fp8moe.strided<[0, 1], groups<dim = 1, pad = 2>>}}
  %0:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xi32>) along [0] rounding pow2 : tensor<4x8xf32>
      -> tensor<4x8x!fp8moe.e4m3, #fp8moe.strided<[0, 1], groups<dim = 1, pad = 2>>>, tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<?xi32>) {
  // expected-error @below {{expects data #0 to have shape [?, 8] (the padded extent along the jagged axis), found [8, 8]}}
  %0:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0] rounding pow2 : tensor<4x8xf32>
      -> tensor<8x8x!fp8moe.e4m3, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>, tensor<?x8xf32>
  return
}

// -----

// Only the data of the jagged axis can have padded groups.
func.func @f(%x: tensor<4x8xf32>, %ends: tensor<3xi32>) {
  // expected-error @below {{expects data #1 to be packed, because groups do not cut it, found #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>}}
  %0:4 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xi32>) along [0, 1] rounding pow2 : tensor<4x8xf32>
      -> tensor<4x8x!fp8moe.e4m3>, tensor<4x8x!fp8moe.e4m3, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>, tensor<3x8xf32>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<3xf32>) {
  // expected-error @below {{operand #1 must be 1-D tensor of i32 group ends whose encoding, if any, is a layout, but got 'tensor<3xf32>'}}
  %0:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<3xf32>) along [0] rounding pow2 : tensor<4x8xf32>
      -> tensor<4x8x!fp8moe.e4m3>, tensor<3x8xf32>
  return
}
