// Matmuls whose transposed result is needed: autograd computes them for weights that are stored [E,
// K, N].

#col = #fp8moe.strided<[1, 0]>
#ecol = #fp8moe.strided<[0, 2, 1]>
#mxs = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>

func.func @bf16(%x: tensor<?x64xbf16> {fp8moe.name = "x"}, %dy: tensor<?x48xbf16> {fp8moe.name = "dy"},
                %e: tensor<5xi32> {fp8moe.name = "ends"}) -> (tensor<5x64x48xf32> {fp8moe.name = "dw"}) {
  %t = fp8moe.transpose %dy [1, 0] : tensor<?x48xbf16> -> tensor<48x?xbf16, #col>
  %d = fp8moe.grouped_matmul %t, %x groups(%e : tensor<5xi32>)
      : tensor<48x?xbf16, #col>, tensor<?x64xbf16> -> tensor<5x48x64xf32>
  %dt = fp8moe.transpose %d [0, 2, 1] : tensor<5x48x64xf32> -> tensor<5x64x48xf32, #ecol>
  %c = fp8moe.contiguous %dt : tensor<5x64x48xf32, #ecol> -> tensor<5x64x48xf32>
  return %c : tensor<5x64x48xf32>
}

func.func @fp8(%x: tensor<?x64xbf16> {fp8moe.name = "x"}, %dy: tensor<?x48xbf16> {fp8moe.name = "dy"},
               %e: tensor<5xi32> {fp8moe.name = "ends"}) -> (tensor<5x64x48xbf16> {fp8moe.name = "dw"}) {
  %g, %gs = fp8moe.jagged_dynamic_quantize %dy groups(%e : tensor<5xi32>) along [0] rounding pow2
      : tensor<?x48xbf16> -> tensor<?x48x!fp8moe.e5m2>, tensor<5x48xf32>
  %q, %qs = fp8moe.jagged_dynamic_quantize %x groups(%e : tensor<5xi32>) along [0] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<5x64xf32>
  %t = fp8moe.transpose %g [1, 0] : tensor<?x48x!fp8moe.e5m2> -> tensor<48x?x!fp8moe.e5m2, #col>
  %d = fp8moe.grouped_matmul %t, %q groups(%e : tensor<5xi32>) scales(%gs, %qs : tensor<5x48xf32>, tensor<5x64xf32>)
      direction quantize : tensor<48x?x!fp8moe.e5m2, #col>, tensor<?x64x!fp8moe.e4m3> -> tensor<5x48x64xbf16>
  %dt = fp8moe.transpose %d [0, 2, 1] : tensor<5x48x64xbf16> -> tensor<5x64x48xbf16, #ecol>
  %c = fp8moe.contiguous %dt : tensor<5x64x48xbf16, #ecol> -> tensor<5x64x48xbf16>
  return %c : tensor<5x64x48xbf16>
}

func.func @mx(%x: tensor<?x64xbf16> {fp8moe.name = "x"}, %dy: tensor<?x48xbf16> {fp8moe.name = "dy"},
              %e: tensor<5xi32> {fp8moe.name = "ends"}) -> (tensor<5x64x48xbf16> {fp8moe.name = "dw"}) {
  %g, %gs = fp8moe.mx_quantize %dy along [0] mode rceil groups(%e : tensor<5xi32>)
      : tensor<?x48xbf16> -> tensor<?x48x!fp8moe.e4m3>, tensor<48x?xf8E8M0FNU, #mxs>
  %q, %qs = fp8moe.mx_quantize %x along [0] mode rceil groups(%e : tensor<5xi32>)
      : tensor<?x64xbf16> -> tensor<?x64x!fp8moe.e4m3>, tensor<64x?xf8E8M0FNU, #mxs>
  %t = fp8moe.transpose %g [1, 0] : tensor<?x48x!fp8moe.e4m3> -> tensor<48x?x!fp8moe.e4m3, #col>
  %d = fp8moe.grouped_matmul %t, %q groups(%e : tensor<5xi32>)
      scales(%gs, %qs : tensor<48x?xf8E8M0FNU, #mxs>, tensor<64x?xf8E8M0FNU, #mxs>)
      : tensor<48x?x!fp8moe.e4m3, #col>, tensor<?x64x!fp8moe.e4m3> -> tensor<5x48x64xbf16>
  %dt = fp8moe.transpose %d [0, 2, 1] : tensor<5x48x64xbf16> -> tensor<5x64x48xbf16, #ecol>
  %c = fp8moe.contiguous %dt : tensor<5x64x48xbf16, #ecol> -> tensor<5x64x48xbf16>
  return %c : tensor<5x64x48xbf16>
}

// The main gradient has the layout of the weights, and the result may overwrite it.
func.func @accumulate(%x: tensor<?x64xbf16> {fp8moe.name = "x"}, %dy: tensor<?x48xbf16> {fp8moe.name = "dy"},
                      %e: tensor<5xi32> {fp8moe.name = "ends"}, %m: tensor<5x64x48xf32> {fp8moe.name = "m"})
    -> (tensor<5x64x48xf32> {fp8moe.name = "dw"}) {
  %t = fp8moe.transpose %dy [1, 0] : tensor<?x48xbf16> -> tensor<48x?xbf16, #col>
  %mt = fp8moe.transpose %m [0, 2, 1] : tensor<5x64x48xf32> -> tensor<5x48x64xf32, #ecol>
  %d = fp8moe.grouped_matmul %t, %x groups(%e : tensor<5xi32>) accumulate(%mt : tensor<5x48x64xf32, #ecol>)
      : tensor<48x?xbf16, #col>, tensor<?x64xbf16> -> tensor<5x48x64xf32, #ecol>
  %dt = fp8moe.transpose %d [0, 2, 1] : tensor<5x48x64xf32, #ecol> -> tensor<5x64x48xf32>
  return %dt : tensor<5x64x48xf32>
}

func.func @dense(%x: tensor<80x64xbf16> {fp8moe.name = "x"}, %w: tensor<48x64xbf16> {fp8moe.name = "w"})
    -> (tensor<48x80xbf16> {fp8moe.name = "y"}) {
  %q, %qs = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<80x64xbf16> -> tensor<80x64x!fp8moe.e4m3>, tensor<80xf32>
  %v, %vs = fp8moe.dynamic_quantize %w along [1] rounding pow2
      : tensor<48x64xbf16> -> tensor<48x64x!fp8moe.e4m3>, tensor<48xf32>
  %t = fp8moe.transpose %v [1, 0] : tensor<48x64x!fp8moe.e4m3> -> tensor<64x48x!fp8moe.e4m3, #col>
  %y = fp8moe.linear %q, %t scales(%qs, %vs : tensor<80xf32>, tensor<48xf32>) direction quantize
      : tensor<80x64x!fp8moe.e4m3>, tensor<64x48x!fp8moe.e4m3, #col> -> tensor<80x48xbf16>
  %yt = fp8moe.transpose %y [1, 0] : tensor<80x48xbf16> -> tensor<48x80xbf16, #col>
  %c = fp8moe.contiguous %yt : tensor<48x80xbf16, #col> -> tensor<48x80xbf16>
  return %c : tensor<48x80xbf16>
}
