// RUN: fp8moe-opt %s --split-input-file --convert-fp8moe-to-gpu --canonicalize --cse | FileCheck %s

// Blocks along the contiguous dimension: two threads have a block, and exchange its largest
// magnitude. Nothing goes through shared memory.

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
// The exponent of amax less 8, that of 448.
// CHECK:         %[[EXPONENT:.*]] = arith.shrui %{{.*}}, %c23_i32
// CHECK:         %[[LESS:.*]] = arith.subi %[[EXPONENT]], %c8_i32
// CHECK:         %[[BYTE:.*]] = arith.maxsi %[[LESS]], %c0_i32
// 255 stands for NaN.
// CHECK:         arith.select %{{.*}}, %[[BYTE]], %c255_i32
// CHECK:         llvm.store %{{.*}} {alignment = 1 : i64} : i8, !llvm.ptr<1>
// A power of two times a bf16 is a bf16.
// CHECK:         arith.mulf %{{.*}} : vector<8xbf16>
// CHECK-NOT:     arith.mulf %{{.*}} : f32
// CHECK:         fp8moe_kernel.pack_fp8
// CHECK-NOT:     gpu.barrier
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>

// -----

// Across it, in groups: a thread has whole blocks, and data go through shared memory, where
// they are shifted to aligned addresses between the ends of the groups: a tile stores the sectors
// of 32 bytes that begin in it. So threads also have the block behind the four of the tile. The
// scales of a tile are gathered and written 16 bytes at a time.

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
// 32 rows of 2 columns, if any of them is in the group.
// CHECK:         scf.if %{{.*}} -> (i32, i32,
// CHECK-COUNT-32: llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK:         gpu.barrier
// CHECK:         scf.if %{{.*}} {
// CHECK-NEXT:    scf.if %{{.*}} {
// amax times 1 / 448; a fraction rounds up.
// CHECK:         %[[QUOTIENT:.*]] = arith.mulf %{{.*}}, %cst{{.*}} : f32
// CHECK:         %[[BITS:.*]] = arith.bitcast %[[QUOTIENT]] : f32 to i32
// CHECK:         %[[EXPONENT:.*]] = arith.shrui %[[BITS]], %c23_i32
// CHECK:         %[[UP:.*]] = arith.extui %{{.*}} : i1 to i32
// CHECK:         arith.addi %[[EXPONENT]], %[[UP]]
// CHECK:         llvm.store %{{.*}} {alignment = 1 : i64} : i8, !llvm.ptr<3>
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// Blocks that cannot be loaded at once take a loop.
// CHECK:         } else {
// CHECK:         scf.for
// CHECK:         gpu.barrier
// CHECK:         %[[SCALES:.*]] = llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         llvm.store %[[SCALES]], %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// Lines whose pitch is a multiple of 16 bytes begin alike, and
// CHECK:         %[[BEFORE:.*]] = arith.andi %{{.*}}, %c31_i32 : i32
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         llvm.intr.fshr
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// others each as its address says.
// CHECK:         llvm.ptrtoint
// CHECK:         arith.andi %{{.*}}, %c31_i32 : i32
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         llvm.intr.fshr
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// The ends of a group are stored in parts, by its first tile and where its end is near.
// CHECK:         %[[ANY:.*]] = arith.ori %{{.*}}, %{{.*}} : i1
// CHECK-NEXT:    scf.if %[[ANY]] {
// CHECK-NEXT:    scf.for
// CHECK:         llvm.store %{{.*}} {alignment = 1 : i64} : i8, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 2 : i64} : i16, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<1>
// CHECK:         llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xi32>, !llvm.ptr<1>
