// MXFP8 wgrad: blocks start anew in each group. Numerics tests run these programs. All dimensions
// are dynamic, so that one artifact serves every case. The functions quantize first, as a caller
// could not lay out blocked scales of groups.

#column_major = #fp8moe.strided<[1, 0]>
#blocked_columns = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>

func.func @quantized_2d2d_f32(
      %g: tensor<?x?xbf16> {fp8moe.name = "g"},
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x?x?xf32> {fp8moe.name = "y"}) {
  %q, %sa = fp8moe.mx_quantize %g along [0] mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
  %a = fp8moe.transpose %q [1, 0]
      : tensor<?x?x!fp8moe.e4m3, #column_major> -> tensor<?x?x!fp8moe.e4m3>
  %b, %sb = fp8moe.mx_quantize %x along [0] mode floor groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e5m2, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf8E8M0FNU, #blocked_columns>, tensor<?x?xf8E8M0FNU, #blocked_columns>)
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?x!fp8moe.e5m2, #column_major> -> tensor<?x?x?xf32>
  return %y : tensor<?x?x?xf32>
}

func.func @quantized_2d2d_bf16_accumulate(
      %g: tensor<?x?xbf16> {fp8moe.name = "g"},
      %x: tensor<?x?xbf16> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %c: tensor<?x?x?xbf16> {fp8moe.name = "c"})
      -> (tensor<?x?x?xbf16> {fp8moe.name = "y"}) {
  %q, %sa = fp8moe.mx_quantize %g along [0] mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
  %a = fp8moe.transpose %q [1, 0]
      : tensor<?x?x!fp8moe.e4m3, #column_major> -> tensor<?x?x!fp8moe.e4m3>
  %b, %sb = fp8moe.mx_quantize %x along [0] mode rceil groups(%offsets : tensor<?xi32>)
      : tensor<?x?xbf16>
      -> tensor<?x?x!fp8moe.e4m3, #column_major>, tensor<?x?xf8E8M0FNU, #blocked_columns>
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>)
      scales(%sa, %sb : tensor<?x?xf8E8M0FNU, #blocked_columns>, tensor<?x?xf8E8M0FNU, #blocked_columns>)
      accumulate(%c : tensor<?x?x?xbf16>)
      : tensor<?x?x!fp8moe.e4m3>, tensor<?x?x!fp8moe.e4m3, #column_major> -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}
