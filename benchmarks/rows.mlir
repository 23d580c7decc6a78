// Sorted tokens and SwiGLU of a layer of Qwen3-30B-A3B, quantized along both axes: by programs whose kernels compute
// the rows, and by one program that writes them and one that quantizes them. benchmarks/rows.py compares them.

#columns = #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>

func.func @sorted(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"}, %rows: tensor<?xi32> {fp8moe.name = "rows"},
      %offsets: tensor<128xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2048x!fp8moe.e4m3> {fp8moe.name = "rows_q"}, tensor<?xf32> {fp8moe.name = "row_scales"},
          tensor<?x2048x!fp8moe.e4m3, #columns> {fp8moe.name = "columns_q"}, tensor<128x2048xf32> {fp8moe.name = "column_scales"}) {
  %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x2048xbf16> -> tensor<?x2048xbf16>
  %q, %s = fp8moe.dynamic_quantize %r along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>
  %c, %t = fp8moe.jagged_dynamic_quantize %r groups(%offsets : tensor<128xi32>) along [0] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<128x2048xf32>
  return %q, %s, %c, %t
      : tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>, tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<128x2048xf32>
}

func.func @weighted(
      %h: tensor<?x1536xbf16> {fp8moe.name = "h"}, %weights: tensor<?xf32> {fp8moe.name = "weights"},
      %offsets: tensor<128xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x768x!fp8moe.e4m3> {fp8moe.name = "rows_q"}, tensor<?xf32> {fp8moe.name = "row_scales"},
          tensor<?x768x!fp8moe.e4m3, #columns> {fp8moe.name = "columns_q"}, tensor<128x768xf32> {fp8moe.name = "column_scales"}) {
  %r = fp8moe.swiglu %h times(%weights : tensor<?xf32>) : tensor<?x1536xbf16> -> tensor<?x768xbf16>
  %q, %s = fp8moe.dynamic_quantize %r along [1] rounding pow2
      : tensor<?x768xbf16> -> tensor<?x768x!fp8moe.e4m3>, tensor<?xf32>
  %c, %t = fp8moe.jagged_dynamic_quantize %r groups(%offsets : tensor<128xi32>) along [0] rounding pow2
      : tensor<?x768xbf16> -> tensor<?x768x!fp8moe.e4m3, #columns>, tensor<128x768xf32>
  return %q, %s, %c, %t
      : tensor<?x768x!fp8moe.e4m3>, tensor<?xf32>, tensor<?x768x!fp8moe.e4m3, #columns>, tensor<128x768xf32>
}

func.func @swiglu(
      %h: tensor<?x1536xbf16> {fp8moe.name = "h"},
      %offsets: tensor<128xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x768x!fp8moe.e4m3> {fp8moe.name = "rows_q"}, tensor<?xf32> {fp8moe.name = "row_scales"},
          tensor<?x768x!fp8moe.e4m3, #columns> {fp8moe.name = "columns_q"}, tensor<128x768xf32> {fp8moe.name = "column_scales"}) {
  %r = fp8moe.swiglu %h : tensor<?x1536xbf16> -> tensor<?x768xbf16>
  %q, %s = fp8moe.dynamic_quantize %r along [1] rounding pow2
      : tensor<?x768xbf16> -> tensor<?x768x!fp8moe.e4m3>, tensor<?xf32>
  %c, %t = fp8moe.jagged_dynamic_quantize %r groups(%offsets : tensor<128xi32>) along [0] rounding pow2
      : tensor<?x768xbf16> -> tensor<?x768x!fp8moe.e4m3, #columns>, tensor<128x768xf32>
  return %q, %s, %c, %t
      : tensor<?x768x!fp8moe.e4m3>, tensor<?xf32>, tensor<?x768x!fp8moe.e4m3, #columns>, tensor<128x768xf32>
}

func.func @write_sorted(
      %x: tensor<?x2048xbf16> {fp8moe.name = "x"}, %rows: tensor<?xi32> {fp8moe.name = "rows"}) -> (tensor<?x2048xbf16> {fp8moe.name = "r"}) {
  %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x2048xbf16> -> tensor<?x2048xbf16>
  return %r : tensor<?x2048xbf16>
}

func.func @write_weighted(
      %h: tensor<?x1536xbf16> {fp8moe.name = "h"}, %weights: tensor<?xf32> {fp8moe.name = "weights"}) -> (tensor<?x768xbf16> {fp8moe.name = "r"}) {
  %r = fp8moe.swiglu %h times(%weights : tensor<?xf32>) : tensor<?x1536xbf16> -> tensor<?x768xbf16>
  return %r : tensor<?x768xbf16>
}

func.func @write_swiglu(
      %h: tensor<?x1536xbf16> {fp8moe.name = "h"}) -> (tensor<?x768xbf16> {fp8moe.name = "r"}) {
  %r = fp8moe.swiglu %h : tensor<?x1536xbf16> -> tensor<?x768xbf16>
  return %r : tensor<?x768xbf16>
}

func.func @quantize_2048(
      %r: tensor<?x2048xbf16> {fp8moe.name = "r"}, %offsets: tensor<128xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x2048x!fp8moe.e4m3> {fp8moe.name = "rows_q"}, tensor<?xf32> {fp8moe.name = "row_scales"},
          tensor<?x2048x!fp8moe.e4m3, #columns> {fp8moe.name = "columns_q"}, tensor<128x2048xf32> {fp8moe.name = "column_scales"}) {
  %q, %s = fp8moe.dynamic_quantize %r along [1] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>
  %c, %t = fp8moe.jagged_dynamic_quantize %r groups(%offsets : tensor<128xi32>) along [0] rounding pow2
      : tensor<?x2048xbf16> -> tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<128x2048xf32>
  return %q, %s, %c, %t
      : tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32>, tensor<?x2048x!fp8moe.e4m3, #columns>, tensor<128x2048xf32>
}

func.func @quantize_768(
      %r: tensor<?x768xbf16> {fp8moe.name = "r"}, %offsets: tensor<128xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x768x!fp8moe.e4m3> {fp8moe.name = "rows_q"}, tensor<?xf32> {fp8moe.name = "row_scales"},
          tensor<?x768x!fp8moe.e4m3, #columns> {fp8moe.name = "columns_q"}, tensor<128x768xf32> {fp8moe.name = "column_scales"}) {
  %q, %s = fp8moe.dynamic_quantize %r along [1] rounding pow2
      : tensor<?x768xbf16> -> tensor<?x768x!fp8moe.e4m3>, tensor<?xf32>
  %c, %t = fp8moe.jagged_dynamic_quantize %r groups(%offsets : tensor<128xi32>) along [0] rounding pow2
      : tensor<?x768xbf16> -> tensor<?x768x!fp8moe.e4m3, #columns>, tensor<128x768xf32>
  return %q, %s, %c, %t
      : tensor<?x768x!fp8moe.e4m3>, tensor<?xf32>, tensor<?x768x!fp8moe.e4m3, #columns>, tensor<128x768xf32>
}
