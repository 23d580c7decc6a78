// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<2x8x64xbf16>, %rows: tensor<5xi32>) {
  // expected-error @below {{expects the input of rank 2, found rank 3}}
  %0 = fp8moe.gather_rows %x rows(%rows : tensor<5xi32>) : tensor<2x8x64xbf16> -> tensor<5x64xbf16>
  return
}

// -----

func.func @f(%x: tensor<8x64xf32>, %rows: tensor<5xi32>) {
  // expected-error @below {{expects the input of the result's type 'bf16', found 'f32'}}
  %0 = fp8moe.gather_rows %x rows(%rows : tensor<5xi32>) : tensor<8x64xf32> -> tensor<5x64xbf16>
  return
}

// -----

func.func @f(%x: tensor<8x64xbf16, #fp8moe.strided<[1, 0]>>, %rows: tensor<5xi32>) {
  // expected-error @below {{expects the input to have contiguous rows, found 'tensor<8x64xbf16, #fp8moe.strided<[1, 0]>>'; use fp8moe.contiguous to copy it}}
  %0 = fp8moe.gather_rows %x rows(%rows : tensor<5xi32>) : tensor<8x64xbf16, #fp8moe.strided<[1, 0]>> -> tensor<5x64xbf16>
  return
}

// -----

func.func @f(%h: tensor<5x64xbf16>, %w: tensor<8xf32>) {
  // expected-error @below {{expects the weights to have shape [5] (one for each row), found [8]}}
  %0 = fp8moe.swiglu %h times(%w : tensor<8xf32>) : tensor<5x64xbf16> -> tensor<5x32xbf16>
  return
}

// -----

func.func @f(%x: tensor<8x64xbf16>, %rows: tensor<5xi32>) {
  // expected-error @below {{expects the result to have shape [5, 64] (a row of the input for each row number), found [8, 64]}}
  %0 = fp8moe.gather_rows %x rows(%rows : tensor<5xi32>) : tensor<8x64xbf16> -> tensor<8x64xbf16>
  return
}

// -----

func.func @f(%x: tensor<8x64xbf16>, %rows: tensor<5xi64>) {
  // expected-error @below {{operand #1 must be 1-D tensor of i32 row numbers}}
  %0 = fp8moe.gather_rows %x rows(%rows : tensor<5xi64>) : tensor<8x64xbf16> -> tensor<5x64xbf16>
  return
}

// -----

func.func @f(%h: tensor<8x63xbf16>) {
  // expected-error @below {{expects an input with a known, even number of columns, the gate and what it multiplies, found 'tensor<8x63xbf16>'}}
  %0 = fp8moe.swiglu %h : tensor<8x63xbf16> -> tensor<8x31xbf16>
  return
}

// -----

func.func @f(%h: tensor<8x?xbf16>) {
  // expected-error @below {{expects an input with a known, even number of columns}}
  %0 = fp8moe.swiglu %h : tensor<8x?xbf16> -> tensor<8x?xbf16>
  return
}

// -----

func.func @f(%h: tensor<8x64xbf16>) {
  // expected-error @below {{expects the result to have shape [8, 32] (half of the input's columns), found [8, 64]}}
  %0 = fp8moe.swiglu %h : tensor<8x64xbf16> -> tensor<8x64xbf16>
  return
}

// -----

func.func @f(%d: tensor<8x64xbf16>, %h: tensor<8x64xbf16>) {
  // expected-error @below {{expects the gradient to have shape [8, 32] (half of the input's columns), found [8, 64]}}
  %0 = fp8moe.swiglu_gradient %d, %h : tensor<8x64xbf16>, tensor<8x64xbf16> -> tensor<8x64xbf16>
  return
}
