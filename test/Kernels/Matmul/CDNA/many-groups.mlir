// RUN: fp8moe-compile %s --target=gfx950 --emit=asm | FileCheck %s

// More than 64 groups are searched in a loop by each wave. The masks of both phases of a stage are
// computed where they are used. Computed earlier, they would take 16 registers, which this tile
// does not have.

// CHECK-COUNT-2: .vgpr_spill_count: 0
#rows = #fp8moe.strided<[0, 1], strides = [?, 1], align = 16>
#columns = #fp8moe.strided<[1, 0], strides = [1, ?], align = 16>

func.func @known(%a: tensor<768x?xbf16, #rows>, %b: tensor<?x2048xbf16, #columns>, %offsets: tensor<128xi32>)
    -> tensor<128x768x2048xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<128xi32>) tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<768x?xbf16, #rows>, tensor<?x2048xbf16, #columns> -> tensor<128x768x2048xbf16>
  return %y : tensor<128x768x2048xbf16>
}

func.func @any(%a: tensor<768x?xbf16, #rows>, %b: tensor<?x2048xbf16, #columns>, %offsets: tensor<?xi32>)
    -> tensor<?x768x2048xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%offsets : tensor<?xi32>) tiles [#fp8moe.mfma<rows = 256, columns = 256>]
      : tensor<768x?xbf16, #rows>, tensor<?x2048xbf16, #columns> -> tensor<?x768x2048xbf16>
  return %y : tensor<?x768x2048xbf16>
}
