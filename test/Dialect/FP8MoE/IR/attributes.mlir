// RUN: fp8moe-opt %s --split-input-file | fp8moe-opt --split-input-file | FileCheck %s
// RUN: fp8moe-opt %s --split-input-file --mlir-print-op-generic | fp8moe-opt --split-input-file | FileCheck %s

// Every part of every attribute is printed as it was read.

// CHECK: module attributes {fp8moe.target = #fp8moe.target<"sm_90a">}
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK: func.func private @named(tensor<4xf32> {fp8moe.name = "x"}) -> (tensor<4xf32> {fp8moe.name = "y"})
  func.func private @named(tensor<4xf32> {fp8moe.name = "x"}) -> (tensor<4xf32> {fp8moe.name = "y"})
}

// -----

// CHECK-LABEL: func.func private @types(
// CHECK-SAME: tensor<?x!fp8moe.e4m3>, tensor<4x!fp8moe.e5m2>)
func.func private @types(tensor<?x!fp8moe.e4m3>, tensor<4x!fp8moe.e5m2>)

// -----

// CHECK-LABEL: func.func private @strided(
// CHECK-SAME: tensor<8x16xbf16, #fp8moe.strided<[0, 1]>>
// CHECK-SAME: tensor<8x16xbf16, #fp8moe.strided<[1, 0], strides = [1, ?]>>
// CHECK-SAME: tensor<8x16xbf16, #fp8moe.strided<[0, 1], align = 32>>
// CHECK-SAME: tensor<8x16xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 4>>>
// CHECK-SAME: tensor<8x16xbf16, #fp8moe.strided<[0, 1], strides = [?, 1], align = 16, groups<dim = 0, pad = 4>>>
func.func private @strided(
    tensor<8x16xbf16, #fp8moe.strided<[0, 1]>>,
    tensor<8x16xbf16, #fp8moe.strided<[1, 0], strides = [1, ?]>>,
    tensor<8x16xbf16, #fp8moe.strided<[0, 1], align = 32>>,
    tensor<8x16xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 4>>>,
    // The parts of a layout may come in any order.
    tensor<8x16xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 4>, align = 16, strides = [?, 1]>>)

// -----

// Extremes: sizes of 0 and 1, the largest size, and only dynamic sizes and strides.
// CHECK-LABEL: func.func private @extremes(
func.func private @extremes(
    tensor<0x0xbf16, #fp8moe.strided<[1, 0], strides = [1, 1]>>,
    tensor<1x5xbf16, #fp8moe.strided<[0, 1], strides = [1, 1]>>,
    tensor<1x5xbf16, #fp8moe.strided<[0, 1], align = 4096>>,
    tensor<9223372036854775807x?xi8, #fp8moe.strided<[1, 0]>>,
    tensor<?x?x?xf32, #fp8moe.strided<[2, 0, 1], strides = [?, ?, ?], align = 16>>)

// -----

// CHECK-LABEL: func.func private @blocked(
// CHECK-SAME: tensor<8x16xi8, #fp8moe.scale_blocked<128x4>>
// CHECK-SAME: tensor<?x?x?xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
// CHECK-SAME: tensor<256x?xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
// CHECK-SAME: tensor<?x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>>
func.func private @blocked(
    tensor<8x16xi8, #fp8moe.scale_blocked<128x4>>,
    tensor<?x?x?xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>,
    tensor<256x?xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>,
    tensor<?x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>>)

// -----

// Attributes print and parse outside of the operations that use them.
// CHECK-LABEL: func.func private @alone()
// CHECK-SAME: accumulation = #fp8moe<accumulation promoted>
// CHECK-SAME: groups = #fp8moe.groups<dim = 1, pad = 2>
// CHECK-SAME: mode = #fp8moe<mx_mode rceil>
// CHECK-SAME: rounding = #fp8moe<scale_rounding none>
// CHECK-SAME: scale = #fp8moe<scale dequantize>
func.func private @alone() attributes {
  accumulation = #fp8moe<accumulation promoted>,
  groups = #fp8moe.groups<dim = 1, pad = 2>,
  mode = #fp8moe<mx_mode rceil>,
  rounding = #fp8moe<scale_rounding none>,
  scale = #fp8moe<scale dequantize>
}
