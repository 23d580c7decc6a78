// Each program stands for a row of the table in README.md (Status). After "ROW:" stand the first
// words of that row. test_support.py compiles each program for every target.

#columns = #fp8moe.strided<[1, 0]>
#expert_columns = #fp8moe.strided<[0, 2, 1]>
#aligned = #fp8moe.strided<[0, 1], align = 16>
#padded = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>
#padded_columns = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>

// ROW: `transpose`, `reshape` (views)
func.func @transpose(%x: tensor<?x64xbf16>) -> tensor<64x?xbf16, #columns> {
  %t = fp8moe.transpose %x [1, 0] : tensor<?x64xbf16> -> tensor<64x?xbf16, #columns>
  return %t : tensor<64x?xbf16, #columns>
}
func.func @reshape(%w: tensor<8x64x32xbf16>) -> tensor<512x32xbf16> {
  %r = fp8moe.reshape %w : tensor<8x64x32xbf16> -> tensor<512x32xbf16>
  return %r : tensor<512x32xbf16>
}

// ROW: `contiguous`, `relayout`
func.func @contiguous(%x: tensor<64x?xf32, #columns>) -> tensor<64x?xf32> {
  %c = fp8moe.contiguous %x : tensor<64x?xf32, #columns> -> tensor<64x?xf32>
  return %c : tensor<64x?xf32>
}
func.func @relayout(%x: tensor<?x64x!fp8moe.e4m3>) -> tensor<?x64x!fp8moe.e4m3, #columns> {
  %r = fp8moe.relayout %x : tensor<?x64x!fp8moe.e4m3> -> tensor<?x64x!fp8moe.e4m3, #columns>
  return %r : tensor<?x64x!fp8moe.e4m3, #columns>
}
func.func @pad(%x: tensor<?x64xbf16>, %ends: tensor<8xi32>) -> tensor<?x64xbf16, #padded> {
  %p = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<?x64xbf16> -> tensor<?x64xbf16, #padded>
  return %p : tensor<?x64xbf16, #padded>
}
func.func @pack(%x: tensor<224x64xbf16, #padded>, %ends: tensor<8xi32>) -> tensor<100x64xbf16> {
  %p = fp8moe.relayout %x groups(%ends : tensor<8xi32>) : tensor<224x64xbf16, #padded> -> tensor<100x64xbf16>
  return %p : tensor<100x64xbf16>
}

// ROW: `dynamic_quantize` (2D and 3D)
func.func @rows(%x: tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?xf32>
}
func.func @both(%x: tensor<?x64xf32>)
    -> (tensor<?x64x!fp8moe.e5m2>, tensor<?x64x!fp8moe.e5m2, #columns>, tensor<?xf32>, tensor<64xf32>) {
  %q:2, %s:2 = fp8moe.dynamic_quantize %x along [1, 0] rounding none : tensor<?x64xf32>
      -> tensor<?x64x!fp8moe.e5m2>, tensor<?x64x!fp8moe.e5m2, #columns>, tensor<?xf32>, tensor<64xf32>
  return %q#0, %q#1, %s#0, %s#1
      : tensor<?x64x!fp8moe.e5m2>, tensor<?x64x!fp8moe.e5m2, #columns>, tensor<?xf32>, tensor<64xf32>
}
func.func @experts(%w: tensor<8x64x32xbf16>) -> (tensor<8x64x32x!fp8moe.e4m3, #expert_columns>, tensor<8x32xf32>) {
  %q, %s = fp8moe.dynamic_quantize %w along [1] rounding pow2
      : tensor<8x64x32xbf16> -> tensor<8x64x32x!fp8moe.e4m3, #expert_columns>, tensor<8x32xf32>
  return %q, %s : tensor<8x64x32x!fp8moe.e4m3, #expert_columns>, tensor<8x32xf32>
}

// ROW: `jagged_dynamic_quantize`
func.func @jagged(%x: tensor<?x64xbf16>, %ends: tensor<8xi32>)
    -> (tensor<?x64x!fp8moe.e4m3, #columns>, tensor<8x64xf32>) {
  %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0] rounding none
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3, #columns>, tensor<8x64xf32>
  return %q, %s : tensor<?x64x!fp8moe.e4m3, #columns>, tensor<8x64xf32>
}
func.func @jagged_both(%x: tensor<?x64xf32>, %ends: tensor<?xi32>)
    -> (tensor<?x64x!fp8moe.e4m3, #columns>, tensor<?x64x!fp8moe.e4m3>, tensor<?x64xf32>, tensor<?xf32>) {
  %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0, 1] rounding pow2
      : tensor<?x64xf32>
      -> tensor<?x64x!fp8moe.e4m3, #columns>, tensor<?x64x!fp8moe.e4m3>, tensor<?x64xf32>, tensor<?xf32>
  return %q#0, %q#1, %s#0, %s#1
      : tensor<?x64x!fp8moe.e4m3, #columns>, tensor<?x64x!fp8moe.e4m3>, tensor<?x64xf32>, tensor<?xf32>
}

// ROW: `scale`, `jagged_scale`, `quantize`, `dequantize`
func.func @scale(%x: tensor<?x64xbf16>) -> tensor<?xf32> {
  %s = fp8moe.scale %x along 1 rounding pow2 fp8 !fp8moe.e4m3 : tensor<?x64xbf16> -> tensor<?xf32>
  return %s : tensor<?xf32>
}
func.func @jagged_scale(%x: tensor<?x64xbf16>, %ends: tensor<8xi32>) -> tensor<8x64xf32> {
  %s = fp8moe.jagged_scale %x groups(%ends : tensor<8xi32>) along 0 rounding pow2 fp8 !fp8moe.e4m3
      : tensor<?x64xbf16> -> tensor<8x64xf32>
  return %s : tensor<8x64xf32>
}
func.func @quantize(%x: tensor<?x64xf32>, %s: tensor<?xf32>) -> tensor<?x64x!fp8moe.e5m2> {
  %q = fp8moe.quantize %x by %s along 1 : tensor<?x64xf32>, tensor<?xf32> -> tensor<?x64x!fp8moe.e5m2>
  return %q : tensor<?x64x!fp8moe.e5m2>
}
func.func @dequantize(%q: tensor<?x64x!fp8moe.e4m3>, %s: tensor<8x64xf32>, %ends: tensor<8xi32>) -> tensor<?x64xbf16> {
  %x = fp8moe.dequantize %q by %s along 0 groups(%ends : tensor<8xi32>) direction quantize
      : tensor<?x64x!fp8moe.e4m3>, tensor<8x64xf32> -> tensor<?x64xbf16>
  return %x : tensor<?x64xbf16>
}

// ROW: `mx_quantize`, `mx_dequantize`
func.func @mx_quantize(%x: tensor<?x64xbf16>) -> (tensor<?x64x!fp8moe.e4m3>, tensor<?x2xf8E8M0FNU>) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<?x2xf8E8M0FNU>
  return %q, %s : tensor<?x64x!fp8moe.e4m3>, tensor<?x2xf8E8M0FNU>
}
func.func @mx_dequantize(%q: tensor<?x64x!fp8moe.e4m3>, %s: tensor<?x2xf8E8M0FNU>) -> tensor<?x64xbf16> {
  %x = fp8moe.mx_dequantize %q by %s along 1
      : tensor<?x64x!fp8moe.e4m3>, tensor<?x2xf8E8M0FNU> -> tensor<?x64xbf16>
  return %x : tensor<?x64xbf16>
}

// ROW: `gather_rows`, `swiglu`, `swiglu_gradient`
func.func @gather_rows(%x: tensor<?x64xbf16>, %rows: tensor<?xi32>) -> tensor<?x64xbf16> {
  %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x64xbf16> -> tensor<?x64xbf16>
  return %r : tensor<?x64xbf16>
}
func.func @swiglu(%h: tensor<?x64xf32>, %w: tensor<?xf32>) -> tensor<?x32xf32> {
  %a = fp8moe.swiglu %h times(%w : tensor<?xf32>) : tensor<?x64xf32> -> tensor<?x32xf32>
  return %a : tensor<?x32xf32>
}
func.func @swiglu_gradient(%d: tensor<?x32xbf16>, %h: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  %g = fp8moe.swiglu_gradient %d, %h : tensor<?x32xbf16>, tensor<?x64xbf16> -> tensor<?x64xbf16>
  return %g : tensor<?x64xbf16>
}
func.func @quantized_rows(%x: tensor<?x2048xbf16>, %rows: tensor<?xi32>, %ends: tensor<8xi32>)
    -> (tensor<?x2048x!fp8moe.e4m3, #padded_columns>, tensor<?x2048x!fp8moe.e4m3>, tensor<8x2048xf32>, tensor<?xf32>) {
  %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x2048xbf16> -> tensor<?x2048xbf16>
  %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %r groups(%ends : tensor<8xi32>) along [0, 1] rounding pow2 : tensor<?x2048xbf16>
      -> tensor<?x2048x!fp8moe.e4m3, #padded_columns>, tensor<?x2048x!fp8moe.e4m3>, tensor<8x2048xf32>, tensor<?xf32>
  return %q#0, %q#1, %s#0, %s#1
      : tensor<?x2048x!fp8moe.e4m3, #padded_columns>, tensor<?x2048x!fp8moe.e4m3>, tensor<8x2048xf32>, tensor<?xf32>
}

// ROW: `grouped_matmul`, `linear`
func.func @forward(%a: tensor<?x64x!fp8moe.e4m3>, %b: tensor<8x64x32x!fp8moe.e4m3, #expert_columns>,
                   %ends: tensor<8xi32>, %sa: tensor<?xf32>, %sb: tensor<8x32xf32>) -> tensor<?x32xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<8x32xf32>) direction quantize
      : tensor<?x64x!fp8moe.e4m3>, tensor<8x64x32x!fp8moe.e4m3, #expert_columns> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
func.func @forward_bf16(%a: tensor<?x64xbf16>, %b: tensor<8x64x32xbf16, #expert_columns>, %ends: tensor<8xi32>)
    -> tensor<?x32xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      : tensor<?x64xbf16>, tensor<8x64x32xbf16, #expert_columns> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
func.func @gradient(%a: tensor<64x?xbf16, #columns>, %b: tensor<?x32xbf16>, %ends: tensor<8xi32>)
    -> tensor<8x64x32xf32> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      : tensor<64x?xbf16, #columns>, tensor<?x32xbf16> -> tensor<8x64x32xf32>
  return %y : tensor<8x64x32xf32>
}

func.func @linear(%a: tensor<?x64x!fp8moe.e4m3>, %b: tensor<64x32x!fp8moe.e4m3, #columns>,
                  %sa: tensor<?xf32>, %sb: tensor<32xf32>) -> tensor<?x32xbf16> {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?xf32>, tensor<32xf32>) direction quantize
      : tensor<?x64x!fp8moe.e4m3>, tensor<64x32x!fp8moe.e4m3, #columns> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
func.func @linear_bf16(%a: tensor<?x64xbf16>, %b: tensor<64x32xbf16, #columns>) -> tensor<?x32xf32> {
  %y = fp8moe.linear %a, %b : tensor<?x64xbf16>, tensor<64x32xbf16, #columns> -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// ROW: `grouped_matmul` with e8m0 scales of blocks
func.func @mx_forward(%a: tensor<?x128x!fp8moe.e4m3>, %b: tensor<8x128x32x!fp8moe.e4m3, #expert_columns>,
                      %ends: tensor<8xi32>, %sa: tensor<?x4xf8E8M0FNU>, %sb: tensor<8x32x4xf8E8M0FNU>)
    -> tensor<?x32xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      scales(%sa, %sb : tensor<?x4xf8E8M0FNU>, tensor<8x32x4xf8E8M0FNU>)
      : tensor<?x128x!fp8moe.e4m3>, tensor<8x128x32x!fp8moe.e4m3, #expert_columns> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// ROW: `linear` with e8m0 scales of blocks
func.func @mx_linear(%a: tensor<?x128x!fp8moe.e4m3>, %b: tensor<128x32x!fp8moe.e4m3, #columns>,
                     %sa: tensor<?x4xf8E8M0FNU>, %sb: tensor<32x4xf8E8M0FNU>) -> tensor<?x32xbf16> {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?x4xf8E8M0FNU>, tensor<32x4xf8E8M0FNU>)
      : tensor<?x128x!fp8moe.e4m3>, tensor<128x32x!fp8moe.e4m3, #columns> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
