// Gathered rows, SwiGLU and its gradient: by themselves, and computed inside the kernel that
// quantizes them along both axes. Numerics tests run these programs.

#column_major = #fp8moe.strided<[1, 0]>
#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>

func.func @gather_bf16_48(%x: tensor<?x48xbf16> {fp8moe.name = "x"}, %rows: tensor<?xi32> {fp8moe.name = "rows"}) -> (tensor<?x48xbf16> {fp8moe.name = "r"}) {
  %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x48xbf16> -> tensor<?x48xbf16>
  return %r : tensor<?x48xbf16>
}

func.func @gather_f32_272(%x: tensor<?x272xf32> {fp8moe.name = "x"}, %rows: tensor<?xi32> {fp8moe.name = "rows"}) -> (tensor<?x272xf32> {fp8moe.name = "r"}) {
  %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x272xf32> -> tensor<?x272xf32>
  return %r : tensor<?x272xf32>
}

func.func @weighted_bf16_576(%h: tensor<?x1152xbf16> {fp8moe.name = "h"}, %w: tensor<?xf32> {fp8moe.name = "w"}) -> (tensor<?x576xbf16> {fp8moe.name = "r"}) {
  %r = fp8moe.swiglu %h times(%w : tensor<?xf32>) : tensor<?x1152xbf16> -> tensor<?x576xbf16>
  return %r : tensor<?x576xbf16>
}

func.func @weighted_f32_272(%h: tensor<?x544xf32> {fp8moe.name = "h"}, %w: tensor<?xf32> {fp8moe.name = "w"}) -> (tensor<?x272xf32> {fp8moe.name = "r"}) {
  %r = fp8moe.swiglu %h times(%w : tensor<?xf32>) : tensor<?x544xf32> -> tensor<?x272xf32>
  return %r : tensor<?x272xf32>
}

func.func @swiglu_bf16_592(%h: tensor<?x1184xbf16> {fp8moe.name = "h"}) -> (tensor<?x592xbf16> {fp8moe.name = "r"}) {
  %r = fp8moe.swiglu %h : tensor<?x1184xbf16> -> tensor<?x592xbf16>
  return %r : tensor<?x592xbf16>
}

func.func @swiglu_f32_272(%h: tensor<?x544xf32> {fp8moe.name = "h"}) -> (tensor<?x272xf32> {fp8moe.name = "r"}) {
  %r = fp8moe.swiglu %h : tensor<?x544xf32> -> tensor<?x272xf32>
  return %r : tensor<?x272xf32>
}

func.func @gradient_bf16_304(%d: tensor<?x304xbf16> {fp8moe.name = "d"}, %h: tensor<?x608xbf16> {fp8moe.name = "h"}) -> (tensor<?x608xbf16> {fp8moe.name = "r"}) {
  %r = fp8moe.swiglu_gradient %d, %h : tensor<?x304xbf16>, tensor<?x608xbf16> -> tensor<?x608xbf16>
  return %r : tensor<?x608xbf16>
}

func.func @gradient_f32_272(%d: tensor<?x272xf32> {fp8moe.name = "d"}, %h: tensor<?x544xf32> {fp8moe.name = "h"}) -> (tensor<?x544xf32> {fp8moe.name = "r"}) {
  %r = fp8moe.swiglu_gradient %d, %h : tensor<?x272xf32>, tensor<?x544xf32> -> tensor<?x544xf32>
  return %r : tensor<?x544xf32>
}

func.func @quantized_gather_bf16_528(%x: tensor<?x528xbf16> {fp8moe.name = "x"}, %rows: tensor<?xi32> {fp8moe.name = "rows"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x528x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"}, tensor<?x528x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x528xf32> {fp8moe.name = "s0"}, tensor<?xf32> {fp8moe.name = "s1"}) {
  %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x528xbf16> -> tensor<?x528xbf16>
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %r groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8, fused = true> for mean_length up_to 200]
      : tensor<?x528xbf16>
      -> tensor<?x528x!fp8moe.e4m3, #column_major>, tensor<?x528x!fp8moe.e4m3>, tensor<?x528xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1
      : tensor<?x528x!fp8moe.e4m3, #column_major>, tensor<?x528x!fp8moe.e4m3>, tensor<?x528xf32>, tensor<?xf32>
}

func.func @quantized_weighted_bf16_576(%h: tensor<?x1152xbf16> {fp8moe.name = "h"}, %w: tensor<?xf32> {fp8moe.name = "w"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x576x!fp8moe.e4m3, #padded> {fp8moe.name = "q0"}, tensor<?x576x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x576xf32> {fp8moe.name = "s0"}, tensor<?xf32> {fp8moe.name = "s1"}) {
  %r = fp8moe.swiglu %h times(%w : tensor<?xf32>) : tensor<?x1152xbf16> -> tensor<?x576xbf16>
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %r groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8, fused = true> for mean_length up_to 200]
      : tensor<?x576xbf16>
      -> tensor<?x576x!fp8moe.e4m3, #padded>, tensor<?x576x!fp8moe.e4m3>, tensor<?x576xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1
      : tensor<?x576x!fp8moe.e4m3, #padded>, tensor<?x576x!fp8moe.e4m3>, tensor<?x576xf32>, tensor<?xf32>
}

func.func @quantized_swiglu_bf16_592(%h: tensor<?x1184xbf16> {fp8moe.name = "h"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x592x!fp8moe.e4m3, #padded> {fp8moe.name = "q0"}, tensor<?x592x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x592xf32> {fp8moe.name = "s0"}, tensor<?xf32> {fp8moe.name = "s1"}) {
  %r = fp8moe.swiglu %h : tensor<?x1184xbf16> -> tensor<?x592xbf16>
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %r groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8, fused = true> for mean_length up_to 200]
      : tensor<?x592xbf16>
      -> tensor<?x592x!fp8moe.e4m3, #padded>, tensor<?x592x!fp8moe.e4m3>, tensor<?x592xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1
      : tensor<?x592x!fp8moe.e4m3, #padded>, tensor<?x592x!fp8moe.e4m3>, tensor<?x592xf32>, tensor<?xf32>
}

func.func @quantized_gather_f32_544(%x: tensor<?x544xf32> {fp8moe.name = "x"}, %rows: tensor<?xi32> {fp8moe.name = "rows"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x544x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"}, tensor<?x544x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x544xf32> {fp8moe.name = "s0"}, tensor<?xf32> {fp8moe.name = "s1"}) {
  %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x544xf32> -> tensor<?x544xf32>
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %r groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8, fused = true> for mean_length up_to 200]
      : tensor<?x544xf32>
      -> tensor<?x544x!fp8moe.e4m3, #column_major>, tensor<?x544x!fp8moe.e4m3>, tensor<?x544xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1
      : tensor<?x544x!fp8moe.e4m3, #column_major>, tensor<?x544x!fp8moe.e4m3>, tensor<?x544xf32>, tensor<?xf32>
}

func.func @quantized_swiglu_f32_272(%h: tensor<?x544xf32> {fp8moe.name = "h"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"})
      -> (tensor<?x272x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"}, tensor<?x272x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<?x272xf32> {fp8moe.name = "s0"}, tensor<?xf32> {fp8moe.name = "s1"}) {
  %r = fp8moe.swiglu %h : tensor<?x544xf32> -> tensor<?x272xf32>
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %r groups(%offsets : tensor<?xi32>) along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8, fused = true> for mean_length up_to 200]
      : tensor<?x272xf32>
      -> tensor<?x272x!fp8moe.e4m3, #column_major>, tensor<?x272x!fp8moe.e4m3>, tensor<?x272xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1
      : tensor<?x272x!fp8moe.e4m3, #column_major>, tensor<?x272x!fp8moe.e4m3>, tensor<?x272xf32>, tensor<?xf32>
}

func.func @dense_gather_bf16_528(%x: tensor<?x528xbf16> {fp8moe.name = "x"}, %rows: tensor<?xi32> {fp8moe.name = "rows"})
      -> (tensor<?x528x!fp8moe.e4m3, #column_major> {fp8moe.name = "q0"}, tensor<?x528x!fp8moe.e4m3> {fp8moe.name = "q1"},
          tensor<528xf32> {fp8moe.name = "s0"}, tensor<?xf32> {fp8moe.name = "s1"}) {
  %r = fp8moe.gather_rows %x rows(%rows : tensor<?xi32>) : tensor<?x528xbf16> -> tensor<?x528xbf16>
  %q0, %q1, %s0, %s1 = fp8moe.dynamic_quantize %r along [0, 1] rounding pow2
      tiles [#fp8moe.rescaled_both_axes<threads = 64, chunks = 1, blocks = 8, fused = true> for mean_length up_to 500]
      : tensor<?x528xbf16> -> tensor<?x528x!fp8moe.e4m3, #column_major>, tensor<?x528x!fp8moe.e4m3>, tensor<528xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1
      : tensor<?x528x!fp8moe.e4m3, #column_major>, tensor<?x528x!fp8moe.e4m3>, tensor<528xf32>, tensor<?xf32>
}
