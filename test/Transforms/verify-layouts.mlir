// RUN: fp8moe-opt %s --fp8moe-verify-layouts --split-input-file --verify-diagnostics

// Control flow, calls, and reads of sizes and elements may have tensors with layouts.
func.func private @callee(tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>)

func.func @allowed(%x: tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>, %flags: tensor<2xi1>)
    -> tensor<?x64xbf16, #fp8moe.strided<[1, 0]>> {
  %c0 = arith.constant 0 : index
  %flag = tensor.extract %flags[%c0] : tensor<2xi1>
  %m = tensor.dim %x, %c0 : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
  func.call @callee(%x) : (tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>) -> ()
  %y = scf.if %flag -> tensor<?x64xbf16, #fp8moe.strided<[1, 0]>> {
    scf.yield %x : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
  } else {
    scf.yield %x : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
  }
  // Canonicalization turns scf.if into arith.select.
  %z = arith.select %flag, %x, %y : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
  return %z : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
}

// -----

func.func @dropped(%x: tensor<8x64xbf16, #fp8moe.strided<[1, 0]>>) {
  // expected-error @below {{changes the layout without moving bytes}}
  %y = tensor.cast %x : tensor<8x64xbf16, #fp8moe.strided<[1, 0]>> to tensor<8x64xbf16>
  return
}

// -----

func.func @select_elements(%flags: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @below {{works on tensors but does not keep their layouts}}
  %z = arith.select %flags, %x, %y : tensor<4xi1>, tensor<4xf32>
  return
}

// -----

func.func @foreign(%x: tensor<8x64xbf16, #fp8moe.strided<[1, 0]>>) {
  // expected-error @below {{works on tensors but does not keep their layouts; fp8moe has no kernels for it: return its operands, compute it outside of the program, and take its results as arguments of another function}}
  %y = arith.negf %x : tensor<8x64xbf16, #fp8moe.strided<[1, 0]>>
  return
}

// -----

// The strides of a tensor without elements must fit into 64 bits, too.
// expected-error @below {{has a tensor of more bytes than 64 bits count: 'tensor<0x4611686018427387904x4xf32>'; no device holds it}}
func.func @empty(%x: tensor<0x4611686018427387904x4xf32>) {
  return
}

// -----

// expected-error @below {{has a tensor of more bytes than 64 bits count: 'tensor<4611686018427387904xi32>'; no device holds it}}
func.func @too_many_groups(%x: tensor<?x64xbf16>, %ends: tensor<4611686018427387904xi32>) {
  return
}

// -----

func.func @too_large_result(%x: tensor<?x4611686018427387904xi8>) {
  // expected-error @below {{has a tensor of more bytes than 64 bits count: 'tensor<2x4611686018427387904xi8>'; no device holds it}}
  %y = tensor.cast %x : tensor<?x4611686018427387904xi8> to tensor<2x4611686018427387904xi8>
  return
}

// -----

// For some upstream operations the error names an alternative.

func.func @constant() {
  // expected-error @below {{works on tensors but does not keep their layouts; take the tensor as an argument}}
  %c = arith.constant dense<1.0> : tensor<4xf32>
  return
}

// -----

func.func @cast(%x: tensor<8x64xbf16>) {
  // expected-error @below {{use fp8moe.quantize or fp8moe.dequantize}}
  %y = arith.truncf %x : tensor<8x64xbf16> to tensor<8x64xf8E4M3FN>
  return
}

// -----

func.func @transposed(%x: tensor<8x64xbf16>, %y: tensor<64x8xbf16>) {
  // expected-error @below {{use fp8moe.transpose}}
  %t = linalg.transpose ins(%x : tensor<8x64xbf16>) outs(%y : tensor<64x8xbf16>) permutation = [1, 0]
  return
}

// -----

func.func @multiplied(%x: tensor<8x64xf32>, %w: tensor<64x4xf32>, %y: tensor<8x4xf32>) {
  // expected-error @below {{use fp8moe.linear or fp8moe.grouped_matmul}}
  %z = linalg.matmul ins(%x, %w : tensor<8x64xf32>, tensor<64x4xf32>) outs(%y : tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @activated(%x: tensor<8x64xf32>) {
  // expected-error @below {{'math.exp' op works on tensors but does not keep their layouts; fp8moe has no kernels for it}}
  %y = math.exp %x : tensor<8x64xf32>
  return
}

// -----

func.func @merged(%x: tensor<8x8x4xf32>) {
  // expected-error @below {{use fp8moe.reshape}}
  %y = tensor.collapse_shape %x [[0, 1], [2]] : tensor<8x8x4xf32> into tensor<64x4xf32>
  return
}
