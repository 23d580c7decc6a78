// The operands of a weight gradient: two tensors cast column-wise in the same groups, with the
// tiles that the compiler chooses, and with tiles of which one launch can take both. The
// benchmark launch_groups.py compares them.

func.func @weight_gradient_operands(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %g: tensor<?x?xbf16> {fp8moe.name = "g"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>> {fp8moe.name = "qx"},
          tensor<?x?xf32> {fp8moe.name = "sx"},
          tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>> {fp8moe.name = "qg"},
          tensor<?x?xf32> {fp8moe.name = "sg"}) {
  %qx, %sx = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<?x?xf32>
  %qg, %sg = fp8moe.jagged_dynamic_quantize %g groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<?x?xf32>
  return %qx, %sx, %qg, %sg
      : tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<?x?xf32>,
        tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<?x?xf32>
}

func.func @weight_gradient_operands_two_pass(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %g: tensor<?x?xbf16> {fp8moe.name = "g"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>> {fp8moe.name = "qx"},
          tensor<?x?xf32> {fp8moe.name = "sx"},
          tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>> {fp8moe.name = "qg"},
          tensor<?x?xf32> {fp8moe.name = "sg"}) {
  %qx, %sx = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<?x?xf32>
  %qg, %sg = fp8moe.jagged_dynamic_quantize %g groups(%offsets : tensor<?xi32>) along [0] rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<?x?xf32>
  return %qx, %sx, %qg, %sg
      : tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<?x?xf32>,
        tensor<?x?x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<?x?xf32>
}
