// RUN: fp8moe-opt %s --fp8moe-verify-layouts --split-input-file --verify-diagnostics

// Control flow, calls and size reads keep layouts.
func.func private @callee(tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>)

func.func @allowed(%x: tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>, %flag: i1)
    -> tensor<?x64xbf16, #fp8moe.strided<[1, 0]>> {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
  func.call @callee(%x) : (tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>) -> ()
  %y = scf.if %flag -> tensor<?x64xbf16, #fp8moe.strided<[1, 0]>> {
    scf.yield %x : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
  } else {
    scf.yield %x : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
  }
  // Canonicalization makes this of scf.if.
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
  // expected-error @below {{works on tensors but does not keep their layouts}}
  %y = arith.negf %x : tensor<8x64xbf16, #fp8moe.strided<[1, 0]>>
  return
}

// -----

// Many elements of nothing are no bytes.
func.func @empty(%x: tensor<4611686018427387904x0x4xf32>) {
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
