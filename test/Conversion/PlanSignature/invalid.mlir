// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --fp8moe-plan-cpu-entries

// A function becomes a program only if callers can pass its arguments and results. Each error names
// the argument or result that prevents it.

// expected-error @below {{cannot make a program of 'f': argument #0 must be a ranked tensor, found 'index'}}
func.func @f(%n: index, %x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{cannot make a program of 'f': argument #0 must be a ranked tensor, found 'i1'; pass a tensor of one element, and on the CPU read it by tensor.extract}}
func.func @f(%c: i1, %x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{cannot make a program of 'f': argument #0 has the element type 'i4', which an artifact cannot exchange with its caller}}
func.func @f(%x: tensor<8xi4>) {
  return
}

// -----

// expected-error @below {{cannot make a program of 'f': argument #0 has 17 dimensions, and an artifact exchanges at most 16 with its caller; merge some by fp8moe.reshape}}
func.func @f(%x: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>) {
  return
}

// -----

// Rank 16 is the highest that a program may have: no error.
func.func @f(%x: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>) -> tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32> {
  return %x : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>
}

// -----

// expected-error @below {{cannot make a program of 'f': argument #0 of type 'tensor<?x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>' has blocked scales, whose shape does not follow from their bytes; give it a static shape}}
func.func @f(%s: tensor<?x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>) {
  return
}

// -----

func.func @f(%x: tensor<?x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>) -> tensor<?x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>> {
  // expected-error @below {{cannot choose the unknown strides of result #0 of type 'tensor<?x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>'; give all strides, or leave them out for dense ones}}
  return %x : tensor<?x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>
}

// -----

// expected-error @below {{cannot make a program of 'f': two buffers are named 'x'; give each argument and result its own 'fp8moe.name'}}
func.func @f(%x: tensor<8xf32> {fp8moe.name = "x"}, %y: tensor<8xf32> {fp8moe.name = "x"}) {
  return
}

// -----

// expected-error @below {{cannot make a program of 'f': expects one block, use scf operations for control flow}}
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{cannot make a program of 'f': argument #0 of type 'tensor<0x4611686018427387904x4xf32>' has more bytes than 64 bits count}}
func.func @f(%x: tensor<0x4611686018427387904x4xf32>) {
  return
}
