// Two jagged quantizations of different tensors with the same groups, in one launch on
// GPUs.
//
// A program of the numerics tests. All dimensions are dynamic where a layout allows
// it, so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>

func.func @weight_gradient_operands(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %g: tensor<?x?xbf16> {fp8moe.name = "g"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x!fp8moe.e4m3, #column_major> {fp8moe.name = "qx"},
          tensor<?x?xf32> {fp8moe.name = "sx"},
          tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "qg"},
          tensor<?x?xf32> {fp8moe.name = "sg"}) {
  %qx, %sx = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>) along [0] rounding pow2
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>
  %qg, %sg = fp8moe.jagged_dynamic_quantize %g groups(%offsets : tensor<?xi32>) along [0] rounding none
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf32>
  return %qx, %sx, %qg, %sg
      : tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf32>,
        tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf32>
}
