// Operands are masked along K where a 16-byte load may contain bytes of another group or behind the
// end of K. Types that exclude this need no masks.

// RUN: fp8moe-opt %s --split-input-file --convert-fp8moe-to-gpu --canonicalize | FileCheck %s

#columns = #fp8moe.strided<[1, 0]>
// Unpadded groups begin anywhere, so the first and the last stage are masked in each phase.
// CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_0
// CHECK: scf.for
// CHECK-COUNT-3: fp8moe_kernel.execution_barrier
// CHECK: scf.if
// CHECK: arith.andi {{.*}} : vector<4xi32>
// CHECK: fp8moe_kernel.mfma
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @packed(%a: tensor<256x4096xf8E4M3FNUZ>, %sa: tensor<4x256xf32>, %b: tensor<4096x256xf8E4M3FNUZ, #columns>,
      %sb: tensor<4x256xf32>, %ends: tensor<4xi32>) -> tensor<4x256x256xf32> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
        scales(%sa, %sb : tensor<4x256xf32>, tensor<4x256xf32>) direction dequantize
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<256x4096xf8E4M3FNUZ>, tensor<4096x256xf8E4M3FNUZ, #columns> -> tensor<4x256x256xf32>
    return %o : tensor<4x256x256xf32>
  }
}

// -----

#padded_rows = #fp8moe.strided<[0, 1], groups<dim = 1, pad = 16>>
#padded_columns = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>
// CHECK-LABEL: gpu.func @grouped_matmul_k_grouped_0
// CHECK-NOT: arith.andi {{.*}} : vector<4xi32>
// CHECK: gpu.return
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @padded(%a: tensor<256x4096xf8E4M3FNUZ, #padded_rows>, %sa: tensor<4x256xf32>,
      %b: tensor<4096x256xf8E4M3FNUZ, #padded_columns>, %sb: tensor<4x256xf32>, %ends: tensor<4xi32>) -> tensor<4x256x256xf32> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
        scales(%sa, %sb : tensor<4x256xf32>, tensor<4x256xf32>) direction dequantize
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<256x4096xf8E4M3FNUZ, #padded_rows>, tensor<4096x256xf8E4M3FNUZ, #padded_columns> -> tensor<4x256x256xf32>
    return %o : tensor<4x256x256xf32>
  }
}

// -----

#expert_columns = #fp8moe.strided<[0, 2, 1], strides = [327680, 1, 1280]>
#rows = #fp8moe.strided<[0, 1], strides = [1280, 1]>
// K ends inside a 16-byte load, so the last stage is masked.
// CHECK-LABEL: gpu.func @grouped_matmul_0
// CHECK: arith.andi {{.*}} : vector<4xi32>
// CHECK: gpu.return
module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  func.func @ends_inside(%a: tensor<?x1270xf8E4M3FN, #rows>, %sa: tensor<?xf32>, %b: tensor<4x1270x256xf8E4M3FN, #expert_columns>,
      %sb: tensor<4x256xf32>, %ends: tensor<4xi32>) -> tensor<?x256xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
        scales(%sa, %sb : tensor<?xf32>, tensor<4x256xf32>) direction dequantize
        tiles [#fp8moe.mfma<rows = 256, columns = 256>]
        : tensor<?x1270xf8E4M3FN, #rows>, tensor<4x1270x256xf8E4M3FN, #expert_columns> -> tensor<?x256xbf16>
    return %o : tensor<?x256xbf16>
  }
}
