// RUN: fp8moe-opt %s --split-input-file --convert-fp8moe-to-gpu --canonicalize --cse | FileCheck %s

// Blocks lie along the contiguous dimension, so 16 adjacent elements share one scale byte. Its bits
// become the exponent of an f32.

#aligned = #fp8moe.strided<[0, 1], align = 16>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @along(%q: tensor<?x2048xf8E4M3FN, #aligned>, %s: tensor<?x64xf8E8M0FNU>)
      -> tensor<?x2048xbf16, #aligned> {
    %x = fp8moe.mx_dequantize %q by %s along 1
        : tensor<?x2048xf8E4M3FN, #aligned>, tensor<?x64xf8E8M0FNU> -> tensor<?x2048xbf16, #aligned>
    return %x : tensor<?x2048xbf16, #aligned>
  }
}

// CHECK-LABEL: gpu.func @mx_dequantize_0
// CHECK:         llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:         llvm.load %{{.*}} invariant {alignment = 1 : i64} : !llvm.ptr<1> -> i8
// CHECK:         %[[POWER:.*]] = arith.shli %{{.*}}, %c23_i32
// Two codes need a select: 0 is 2^-127, a subnormal f32, and 255 is NaN.
// CHECK:         arith.select %{{.*}}, %c4194304_i32, %[[POWER]]
// CHECK:         arith.select %{{.*}}, %c2143289344_i32
// CHECK:         fp8moe_kernel.unpack_fp8
// CHECK:         arith.mulf %{{.*}} : f32
// CHECK:         arith.truncf {{.*}} : vector<2xf32> to vector<2xbf16>

// -----

// The column-major input becomes row-major. Each thread computes two of the tile's 128x4 factors
// and stores them to shared memory as bf16. Later each thread reads the factors of eight rows.

#aligned = #fp8moe.strided<[0, 1], align = 16>
#column_major = #fp8moe.strided<[1, 0], align = 16>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @across(%q: tensor<?x2048xf8E4M3FN, #column_major>, %s: tensor<2048x?xf8E8M0FNU>)
      -> tensor<?x2048xbf16, #aligned> {
    %x = fp8moe.mx_dequantize %q by %s along 0
        : tensor<?x2048xf8E4M3FN, #column_major>, tensor<2048x?xf8E8M0FNU> -> tensor<?x2048xbf16, #aligned>
    return %x : tensor<?x2048xbf16, #aligned>
  }
}

// CHECK-LABEL: gpu.module @fp8moe_kernels
// CHECK-DAG:     llvm.mlir.global internal @mx_dequantize_0_tile() {{.*}} !llvm.array<16384 x i8>
// CHECK-DAG:     llvm.mlir.global internal @mx_dequantize_0_factors() {{.*}} !llvm.array<1024 x i8>
// CHECK:         gpu.func @mx_dequantize_0
// CHECK:         gpu.barrier
// CHECK-COUNT-2: llvm.store %{{.*}} {alignment = 2 : i64} : i16, !llvm.ptr<3>
// CHECK-NOT:     : i16, !llvm.ptr<3>
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK:         gpu.barrier
// CHECK-NOT:     !llvm.ptr<1> -> i8
// CHECK:         llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xi32>
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT:     !llvm.ptr<1> -> i8
// CHECK-LABEL: fp8moe_plan.program @across

// -----

// The scales are blocked and in groups. Within a tile, the scale of row r and block c is byte (r %
// 32) * 16 + (r / 32) * 4 + c.

#tiles = #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
  func.func @groups(%x: tensor<1000x2048xbf16>, %ends: tensor<8xi32>) -> tensor<1000x2048xf32> {
    %q, %s = fp8moe.mx_quantize %x along [1] mode rceil groups(%ends : tensor<8xi32>) : tensor<1000x2048xbf16>
        -> tensor<1000x2048xf8E5M2>, tensor<2048x64xf8E8M0FNU, #tiles>
    %y = fp8moe.mx_dequantize %q by %s along 1 groups(%ends : tensor<8xi32>)
        : tensor<1000x2048xf8E5M2>, tensor<2048x64xf8E8M0FNU, #tiles> -> tensor<1000x2048xf32>
    return %y : tensor<1000x2048xf32>
  }
}

// CHECK-LABEL: gpu.func @mx_dequantize_
// CHECK:         arith.remui %{{.*}}, %c32_i64
// CHECK:         llvm.load %{{.*}} invariant {alignment = 1 : i64} : !llvm.ptr<1> -> i8
// CHECK:         fp8moe_kernel.unpack_fp8
// Rows that belong to no group are zero.
// CHECK-LABEL: fp8moe_plan.program @groups
