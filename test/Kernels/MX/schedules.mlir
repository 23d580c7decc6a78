// RUN: fp8moe-opt %s --split-input-file --convert-fp8moe-to-gpu --canonicalize --cse | FileCheck %s

// Blocks lie along the contiguous dimension. A pair of threads has one block and exchanges its amax.
// No shared memory is used.

#aligned = #fp8moe.strided<[0, 1], align = 16>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @along(%x: tensor<?x2048xbf16, #aligned>)
      -> (tensor<?x2048xf8E4M3FN, #aligned>, tensor<?x64xf8E8M0FNU>) {
    %q, %s = fp8moe.mx_quantize %x along [1] mode floor : tensor<?x2048xbf16, #aligned>
        -> tensor<?x2048xf8E4M3FN, #aligned>, tensor<?x64xf8E8M0FNU>
    return %q, %s : tensor<?x2048xf8E4M3FN, #aligned>, tensor<?x64xf8E8M0FNU>
  }
}

// CHECK-LABEL: gpu.func @mx_quantize_inner_0
// CHECK-SAME:    known_block_size = array<i32: 256, 1, 1>
// CHECK:         llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK:         arith.maxui %{{.*}} : vector<8xi16>
// CHECK:         gpu.shuffle xor %{{.*}}, %c1_i32
// The scale's exponent is that of amax less 8, the exponent of 448.
// CHECK:         %[[EXPONENT:.*]] = arith.shrui %{{.*}}, %c23_i32
// CHECK:         %[[LESS:.*]] = arith.subi %[[EXPONENT]], %c8_i32
// CHECK:         %[[BYTE:.*]] = arith.maxsi %[[LESS]], %c0_i32
// Scale 255 is NaN.
// CHECK:         arith.select %{{.*}}, %[[BYTE]], %c255_i32
// CHECK:         llvm.store %{{.*}} {alignment = 1 : i64} : i8, !llvm.ptr<1>
// A power of two times a bf16 is an exact bf16, so the products stay bf16.
// CHECK:         arith.mulf %{{.*}} : vector<8xbf16>
// CHECK-NOT:     arith.mulf %{{.*}} : f32
// CHECK:         fp8moe_kernel.pack_fp8
// CHECK-NOT:     gpu.barrier
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>

// -----

// Blocks lie across the contiguous dimension, in groups. Each thread loads whole blocks, and data
// are transposed in shared memory. Groups end anywhere, so bytes are shifted to aligned addresses:
// a tile stores the 32-byte sectors that begin in it. It therefore also loads the block behind its
// four blocks. The scales of a tile are gathered in shared memory and stored 16 bytes at a time.

#col = #fp8moe.strided<[1, 0]>
#tiles = #fp8moe.scale_blocked<128x4, groups<dim = 1, pad = 4>>
module attributes {fp8moe.target = #fp8moe.target<"sm_100a">} {
  func.func @across(%x: tensor<?x2048xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<2048x?xf8E8M0FNU, #tiles>) {
    %q, %s = fp8moe.mx_quantize %x along [0] mode rceil groups(%ends : tensor<8xi32>) : tensor<?x2048xbf16>
        -> tensor<?x2048xf8E4M3FN, #col>, tensor<2048x?xf8E8M0FNU, #tiles>
    return %q, %s : tensor<?x2048xf8E4M3FN, #col>, tensor<2048x?xf8E8M0FNU, #tiles>
  }
}

// CHECK-LABEL: gpu.module @fp8moe_kernels
// CHECK:         llvm.mlir.global internal @mx_quantize_outer_0_tile() {{.*}} !llvm.array<22528 x i8>
// CHECK:         llvm.mlir.global internal @mx_quantize_outer_0_scales() {{.*}} !llvm.array<512 x i8>
// CHECK:         gpu.func @mx_quantize_outer_0
// CHECK-SAME:    fp8moe_kernel.resident_blocks = 4 : i32, known_block_size = array<i32: 320, 1, 1>
// A thread loads 32 rows of 2 columns, unless the whole block is outside of the group.
// CHECK:         scf.if %{{.*}} -> (i32, i32,
// CHECK-COUNT-32: llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK:         gpu.barrier
// CHECK:         scf.if %{{.*}} {
// CHECK-NEXT:    scf.if %{{.*}} {
// The scale is amax * (1/448), rounded up to a power of two.
// CHECK:         %[[QUOTIENT:.*]] = arith.mulf %{{.*}}, %cst{{.*}} : f32
// CHECK:         %[[BITS:.*]] = arith.bitcast %[[QUOTIENT]] : f32 to i32
// CHECK:         %[[EXPONENT:.*]] = arith.shrui %[[BITS]], %c23_i32
// CHECK:         %[[UP:.*]] = arith.extui %{{.*}} : i1 to i32
// CHECK:         arith.addi %[[EXPONENT]], %[[UP]]
// CHECK:         llvm.store %{{.*}} {alignment = 1 : i64} : i8, !llvm.ptr<3>
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// Blocks that need bounds checks are loaded in a loop.
// CHECK:         } else {
// CHECK:         scf.for
// CHECK:         gpu.barrier
// CHECK:         %[[SCALES:.*]] = llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         llvm.store %[[SCALES]], %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// If the pitch is a multiple of 16 bytes, all columns have the same shift.
// CHECK:         %[[BEFORE:.*]] = arith.andi %{{.*}}, %c31_i32 : i32
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         llvm.intr.fshr
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// Otherwise each column has the shift of its own address.
// CHECK:         llvm.ptrtoint
// CHECK:         arith.andi %{{.*}}, %c31_i32 : i32
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         llvm.intr.fshr
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// The first and the last bytes of a group are stored singly.
// CHECK:         %[[ANY:.*]] = arith.ori %{{.*}}, %{{.*}} : i1
// CHECK-NEXT:    scf.if %[[ANY]] {
// CHECK-NEXT:    scf.for
// CHECK:         llvm.store %{{.*}} {alignment = 1 : i64} : i8, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 2 : i64} : i16, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
