// MXFP8 quantization in every mode, along each axis, for every pair of types. Numerics tests run
// these programs. Dimensions are dynamic where layouts allow it, so that one artifact serves every
// case.

func.func @bf16_e4m3_floor_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode floor
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_floor_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode floor
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e5m2_floor_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode floor
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e5m2_floor_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode floor
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_floor_axis0(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode floor
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_floor_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode floor
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_floor_axis0(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode floor
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_floor_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode floor
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_rceil_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e5m2_rceil_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e5m2_rceil_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_rceil_axis0(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_rceil_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_rceil_axis0(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode rceil
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_rceil_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode rceil
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_ceil_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode ceil
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_ceil_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode ceil
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e5m2_ceil_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode ceil
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e5m2_ceil_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode ceil
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_ceil_axis0(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode ceil
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_ceil_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode ceil
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_ceil_axis0(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode ceil
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_ceil_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode ceil
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_even_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode even
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e4m3_even_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode even
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e5m2_even_axis0(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode even
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @bf16_e5m2_even_axis1(
      %x: tensor<?x?xbf16> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode even
      : tensor<?x?xbf16> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_even_axis0(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode even
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e4m3_even_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e4m3> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode even
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e4m3>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_even_axis0(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [0] mode even
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}

func.func @f32_e5m2_even_axis1(
      %x: tensor<?x?xf32> {fp8moe.name = "x"})
      -> (tensor<?x?x!fp8moe.e5m2> {fp8moe.name = "q"},
          tensor<?x?xf8E8M0FNU> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.mx_quantize %x along [1] mode even
      : tensor<?x?xf32> -> tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
  return %q, %s : tensor<?x?x!fp8moe.e5m2>, tensor<?x?xf8E8M0FNU>
}
