// Dense MXFP8 matmuls. Numerics tests run these programs. Dimensions are dynamic where layouts
// allow it, so that one artifact serves every case.

#column_major = #fp8moe.strided<[1, 0]>
#blocked = #fp8moe.scale_blocked<128x4>

func.func @e4m3_e5m2_f32_accumulate(
      %a: tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "a"},
      %b: tensor<?x?x!fp8moe.e5m2, #column_major> {fp8moe.name = "b"},
      %sa: tensor<?x?xf8E8M0FNU> {fp8moe.name = "sa"},
      %sb: tensor<?x?xf8E8M0FNU> {fp8moe.name = "sb"},
      %c: tensor<?x?xf32> {fp8moe.name = "c"})
      -> (tensor<?x?xf32> {fp8moe.name = "y"}) {
  %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<?x?xf8E8M0FNU>, tensor<?x?xf8E8M0FNU>)
      accumulate(%c : tensor<?x?xf32>)
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?x!fp8moe.e5m2, #column_major> -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// The scales are blocked, as within a program.

func.func @quantized_bf16(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %w: tensor<?x?xbf16> {fp8moe.name = "w"})
      -> (tensor<?x?xbf16> {fp8moe.name = "y"}) {
  %a, %sa = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU, #blocked>
  %b, %sb = fp8moe.mx_quantize %w along [0] mode floor
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked>
  %y = fp8moe.linear %a, %b
      scales(%sa, %sb : tensor<?x?xf8E8M0FNU, #blocked>, tensor<?x?xf8E8M0FNU, #blocked>)
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?x!fp8moe.e4m3, #column_major> -> tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}
