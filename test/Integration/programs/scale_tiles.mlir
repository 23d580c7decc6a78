// Block scales are copied to and from the blocked layout. Numerics tests run these programs.

#blocked = #fp8moe.scale_blocked<128x4>
#column_major = #fp8moe.strided<[1, 0]>

func.func @scales_to_blocked(
      %x: tensor<?x?xf8E8M0FNU> {fp8moe.name = "x"})
      -> (tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<?x?xf8E8M0FNU> -> tensor<?x?xf8E8M0FNU, #blocked>
  return %y : tensor<?x?xf8E8M0FNU, #blocked>
}

// The byte count of blocked scales does not determine their shape, so it is static here.
func.func @scales_300x44_from_blocked(
      %x: tensor<300x44xf8E8M0FNU, #blocked> {fp8moe.name = "x"})
      -> (tensor<300x44xf8E8M0FNU> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<300x44xf8E8M0FNU, #blocked> -> tensor<300x44xf8E8M0FNU>
  return %y : tensor<300x44xf8E8M0FNU>
}

// 45 blocks a row: the last tile has one block, and rows are no whole words.
func.func @scales_2x129x45_from_blocked(
      %x: tensor<2x129x45xf8E8M0FNU, #blocked> {fp8moe.name = "x"})
      -> (tensor<2x129x45xf8E8M0FNU> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<2x129x45xf8E8M0FNU, #blocked> -> tensor<2x129x45xf8E8M0FNU>
  return %y : tensor<2x129x45xf8E8M0FNU>
}

func.func @expert_scales_to_blocked(
      %x: tensor<?x?x?xf8E8M0FNU> {fp8moe.name = "x"})
      -> (tensor<?x?x?xf8E8M0FNU, #blocked> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<?x?x?xf8E8M0FNU> -> tensor<?x?x?xf8E8M0FNU, #blocked>
  return %y : tensor<?x?x?xf8E8M0FNU, #blocked>
}

func.func @column_major_scales_to_blocked(
      %x: tensor<?x?xf8E8M0FNU, #column_major> {fp8moe.name = "x"})
      -> (tensor<?x?xf8E8M0FNU, #blocked> {fp8moe.name = "y"}) {
  %y = fp8moe.relayout %x
      : tensor<?x?xf8E8M0FNU, #column_major> -> tensor<?x?xf8E8M0FNU, #blocked>
  return %y : tensor<?x?xf8E8M0FNU, #blocked>
}
