// Tensors with dynamic sizes in loops and branches.

func.func @loop(%x: tensor<?x16xbf16> {fp8moe.name = "x"}, %w: tensor<16x16xbf16> {fp8moe.name = "w"})
    -> (tensor<?x16xbf16> {fp8moe.name = "y"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x) -> (tensor<?x16xbf16>) {
    %n = fp8moe.linear %h, %w : tensor<?x16xbf16>, tensor<16x16xbf16> -> tensor<?x16xbf16>
    scf.yield %n : tensor<?x16xbf16>
  }
  return %r : tensor<?x16xbf16>
}

// @unrolled computes the same as @loop without a loop.
func.func @unrolled(%x: tensor<?x16xbf16> {fp8moe.name = "x"}, %w: tensor<16x16xbf16> {fp8moe.name = "w"})
    -> (tensor<?x16xbf16> {fp8moe.name = "y"}) {
  %a = fp8moe.linear %x, %w : tensor<?x16xbf16>, tensor<16x16xbf16> -> tensor<?x16xbf16>
  %b = fp8moe.linear %a, %w : tensor<?x16xbf16>, tensor<16x16xbf16> -> tensor<?x16xbf16>
  %c = fp8moe.linear %b, %w : tensor<?x16xbf16>, tensor<16x16xbf16> -> tensor<?x16xbf16>
  return %c : tensor<?x16xbf16>
}

// `layers` chooses between one layer and three.
func.func @branch(%x: tensor<?x16xbf16> {fp8moe.name = "x"}, %w: tensor<16x16xbf16> {fp8moe.name = "w"},
                  %layers: tensor<1xi32> {fp8moe.name = "layers"}) -> (tensor<?x16xbf16> {fp8moe.name = "y"}) {
  %c0 = arith.constant 0 : index
  %three = arith.constant 3 : i32
  %number = tensor.extract %layers[%c0] : tensor<1xi32>
  %is_three = arith.cmpi eq, %number, %three : i32
  %a = fp8moe.linear %x, %w : tensor<?x16xbf16>, tensor<16x16xbf16> -> tensor<?x16xbf16>
  %r = scf.if %is_three -> tensor<?x16xbf16> {
    %b = fp8moe.linear %a, %w : tensor<?x16xbf16>, tensor<16x16xbf16> -> tensor<?x16xbf16>
    %c = fp8moe.linear %b, %w : tensor<?x16xbf16>, tensor<16x16xbf16> -> tensor<?x16xbf16>
    scf.yield %c : tensor<?x16xbf16>
  } else {
    scf.yield %a : tensor<?x16xbf16>
  }
  return %r : tensor<?x16xbf16>
}

// @replace is only legal if both inputs have equally many rows.
func.func @replace(%x: tensor<?x16xbf16> {fp8moe.name = "x"}, %z: tensor<?x16xbf16> {fp8moe.name = "z"})
    -> (tensor<?x16xbf16> {fp8moe.name = "y"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %r:2 = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x, %g = %z) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
    scf.yield %g, %h : tensor<?x16xbf16>, tensor<?x16xbf16>
  }
  return %r#0 : tensor<?x16xbf16>
}
