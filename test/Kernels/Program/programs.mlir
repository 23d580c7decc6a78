// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// A function becomes a program. Views need no launch, results are computed in the outputs, and the
// copy in between gets workspace.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @backward(%x: tensor<?x2048xbf16> {fp8moe.name = "grad"}, %ends: tensor<64xi32>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>) {
    %t = fp8moe.transpose %x [1, 0] : tensor<?x2048xbf16> -> tensor<2048x?xbf16, #col>
    %c = fp8moe.contiguous %t : tensor<2048x?xbf16, #col> -> tensor<2048x?xbf16>
    %u = fp8moe.transpose %c [1, 0] : tensor<2048x?xbf16> -> tensor<?x2048xbf16, #col>
    %q, %s = fp8moe.jagged_dynamic_quantize %u groups(%ends : tensor<64xi32>) along [0]
        rounding pow2 : tensor<?x2048xbf16, #col>
        -> tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>
    return %q, %s : tensor<?x2048xf8E4M3FN, #col>, tensor<64x2048xf32>
  }
}

// CHECK-LABEL: gpu.module @fp8moe_kernels
// CHECK-DAG:     gpu.func @copy_tiles_0({{.*}}) kernel
// CHECK-DAG:     gpu.func @quantize_register_resident_1({{.*}}) kernel
// CHECK-NOT:   func.func
// CHECK-LABEL: fp8moe_plan.program @backward
// CHECK:         %[[X:.*]] = fp8moe_plan.input "grad" align 2
// CHECK:         %[[M:.*]] = fp8moe_plan.dim %[[X]], 0
// CHECK:         %[[ENDS:.*]] = fp8moe_plan.input "arg1"
// CHECK:         %[[Q:.*]] = fp8moe_plan.output "result0"
// CHECK:         %[[S:.*]] = fp8moe_plan.output "result1"
// CHECK:         %[[W:.*]] = fp8moe_plan.workspace sizes(%[[M]]) strides(%[[PITCH:.*]]) align 256 : memref<2048x?xbf16
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@copy_tiles_0 grid(%[[B:.*]], %c1, %c1) block(256, 1, 1) shared 0
// CHECK-SAME:      args(%[[X]], %[[W]], %[[PITCH]], %[[M]], %[[B]])
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_register_resident_1
// CHECK-SAME:      args(%[[W]], %[[ENDS]], %[[Q]], %[[S]],

// -----

// The copy is returned through a view, so it is written to the output directly.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @returned_view(%x: tensor<?x64xf32>) -> tensor<?x64xf32, #col> {
    %t = fp8moe.transpose %x [1, 0] : tensor<?x64xf32> -> tensor<64x?xf32, #col>
    %c = fp8moe.contiguous %t : tensor<64x?xf32, #col> -> tensor<64x?xf32>
    %u = fp8moe.transpose %c [1, 0] : tensor<64x?xf32> -> tensor<?x64xf32, #col>
    return %u : tensor<?x64xf32, #col>
  }
}

// CHECK-LABEL: fp8moe_plan.program @returned_view
// CHECK:         %[[X:.*]] = fp8moe_plan.input "arg0"
// CHECK:         %[[R:.*]] = fp8moe_plan.output "result0"
// CHECK-NOT:     workspace
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@copy_tiles_0
// CHECK-SAME:      args(%[[X]], %[[R]],
// CHECK-NOT:     launch

// -----

// An argument that is returned is copied once per output. Dense buffers are copied as one
// dimension.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @identity(%x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
    return %x, %x : tensor<?x64xf32>, tensor<?x64xf32>
  }
}

// CHECK-LABEL: fp8moe_plan.program @identity
// CHECK:         %[[X:.*]] = fp8moe_plan.input "arg0"
// CHECK:         %[[M:.*]] = fp8moe_plan.dim %[[X]], 0
// CHECK:         %[[SIZE:.*]] = arith.muli %[[M]], %c64
// CHECK:         %[[CHUNKS:.*]] = arith.ceildivsi %[[SIZE]], %c4
// CHECK:         %[[UNITS:.*]] = arith.ceildivsi %[[CHUNKS]], %c1024
// CHECK:         %[[BLOCKS:.*]] = arith.minsi %[[UNITS]], %c4194304
// CHECK:         launch @fp8moe_kernels::@copy_vectors_0 grid(%[[BLOCKS]], %c1, %c1)
// CHECK-SAME:      args(%[[X]], %{{.*}}, %[[SIZE]], %[[BLOCKS]])
// CHECK:         launch @fp8moe_kernels::@copy_vectors_0

// -----

// A layout of rank 7 exceeds the inline storage of a SmallVector, which must not dangle.

#reversed = #fp8moe.strided<[6, 5, 4, 3, 2, 1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @rank_7(%x: tensor<2x3x4x5x6x7x?xbf16, #reversed>) -> tensor<2x3x4x5x6x7x?xbf16, #reversed> {
    return %x : tensor<2x3x4x5x6x7x?xbf16, #reversed>
  }
}

// CHECK-LABEL: fp8moe_plan.program @rank_7
// CHECK:         %[[SIZE:.*]] = arith.muli {{.*}}, %c5040
// CHECK:         launch @fp8moe_kernels::@copy_vectors_0 {{.*}}args(%{{.*}}, %{{.*}}, %[[SIZE]], %{{.*}})

// -----

// Quantizations with equal types, layouts and attributes share a kernel. Another rounding gets a
// kernel of its own.

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @shared(%x: tensor<?x64xbf16>, %y: tensor<?x64xbf16>)
      -> (tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>, tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>,
          tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>) {
    %q0, %s0 = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>
    %q1, %s1 = fp8moe.dynamic_quantize %y along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>
    %q2, %s2 = fp8moe.dynamic_quantize %y along [1] rounding none
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>
    return %q0, %s0, %q1, %s1, %q2, %s2
        : tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>, tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>,
          tensor<?x64xf8E4M3FNUZ>, tensor<?xf32>
  }
}

// CHECK-LABEL: fp8moe_plan.program @shared
// CHECK:         launch @fp8moe_kernels::@quantize_register_resident_0
// CHECK:         launch @fp8moe_kernels::@quantize_register_resident_0
// CHECK:         launch @fp8moe_kernels::@quantize_register_resident_1

// -----

// A reshape only splits and merges sizes and strides.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @merged(%x: tensor<?x16x32xbf16>) -> (tensor<?x32xf8E4M3FN>, tensor<?xf32>) {
    %v = fp8moe.reshape %x : tensor<?x16x32xbf16> -> tensor<?x32xbf16>
    %q, %s = fp8moe.dynamic_quantize %v along [1] rounding pow2
        : tensor<?x32xbf16> -> tensor<?x32xf8E4M3FN>, tensor<?xf32>
    return %q, %s : tensor<?x32xf8E4M3FN>, tensor<?xf32>
  }
}

// CHECK-LABEL: fp8moe_plan.program @merged
// CHECK:         %[[X:.*]] = fp8moe_plan.input "arg0"
// CHECK:         %[[M:.*]] = fp8moe_plan.dim %[[X]], 0
// CHECK:         %[[ROWS:.*]] = arith.muli %[[M]], %c16
// CHECK:         launch @fp8moe_kernels::@quantize_register_resident_0
// CHECK-SAME:      args(%[[X]], %{{.*}}, %{{.*}}, %[[ROWS]], %{{.*}})

// -----

// A function may have the name of the module of kernels.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @fp8moe_kernels(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// CHECK-LABEL: gpu.module @fp8moe_kernels_0
// CHECK-LABEL: fp8moe_plan.program @fp8moe_kernels
// CHECK:         fp8moe_plan.launch @fp8moe_kernels_0::@copy_vectors_0
