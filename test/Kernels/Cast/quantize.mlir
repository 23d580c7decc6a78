// RUN: fp8moe-opt %s --split-input-file --convert-fp8moe-to-gpu --canonicalize --cse | FileCheck %s

// Both sides are row-major, so no shared memory is used. A thread quantizes 16 elements of each of
// four rows and loads the scale of each row.

#aligned = #fp8moe.strided<[0, 1], align = 16>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @rows(%x: tensor<?x2048xbf16, #aligned>, %s: tensor<?xf32>) -> tensor<?x2048xf8E4M3FN, #aligned> {
    %q = fp8moe.quantize %x by %s along 1
        : tensor<?x2048xbf16, #aligned>, tensor<?xf32> -> tensor<?x2048xf8E4M3FN, #aligned>
    return %q : tensor<?x2048xf8E4M3FN, #aligned>
  }
}

// CHECK-LABEL: gpu.func @quantize_by_scales_0
// CHECK-SAME:    known_block_size = array<i32: 256, 1, 1>
// CHECK-COUNT-8: llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// The value is multiplied by the scale itself.
// CHECK:         llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK-NOT:     arith.divf
// CHECK:         arith.mulf %{{.*}} : f32
// CHECK:         fp8moe_kernel.pack_fp8
// CHECK-NOT:     gpu.barrier
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-LABEL: fp8moe_plan.program @rows

// -----

// The row-major input becomes column-major, in groups. Values are converted, then their bytes are
// transposed by twice as many threads. Tiles begin at multiples of 16 rows, so that 16 bytes of any
// group can be stored at once. On gfx942, whose conversion does not saturate infinities, values are
// clamped first.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @groups(%x: tensor<?x2048xf32>, %s: tensor<?x2048xf32>, %ends: tensor<?xi32>)
      -> tensor<?x2048xf8E4M3FNUZ, #col> {
    %q = fp8moe.quantize %x by %s along 0 groups(%ends : tensor<?xi32>)
        : tensor<?x2048xf32>, tensor<?x2048xf32> -> tensor<?x2048xf8E4M3FNUZ, #col>
    return %q : tensor<?x2048xf8E4M3FNUZ, #col>
  }
}

// CHECK-LABEL: gpu.module @fp8moe_kernels
// CHECK:         llvm.mlir.global internal @quantize_by_scales_0_tile() {{.*}} !llvm.array<16384 x i8>
// CHECK:         gpu.func @quantize_by_scales_0
// CHECK-SAME:    known_block_size = array<i32: 512, 1, 1>
// A group that begins inside a tile may need one more tile.
// CHECK:         %[[BEFORE:.*]] = arith.andi %{{.*}}, %c15_i32
// CHECK:         arith.addi %{{.*}}, %[[BEFORE]]
// The first row of a tile is a multiple of 16.
// CHECK:         arith.andi %{{.*}}, %c-16_i64
// CHECK:         arith.mulf %{{.*}} : f32
// CHECK:         fp8moe_kernel.pack_fp8
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK:         gpu.barrier
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>

// -----

// From bf16 on NVIDIA. The column pitch is no multiple of 16 bytes, so columns begin at any
// address. Bytes are shifted to aligned 16-byte words.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @shifted(%x: tensor<?x2048xbf16>, %s: tensor<?x2048xf32>, %ends: tensor<?xi32>)
      -> tensor<?x2048xf8E4M3FN, #col> {
    %q = fp8moe.quantize %x by %s along 0 groups(%ends : tensor<?xi32>)
        : tensor<?x2048xbf16>, tensor<?x2048xf32> -> tensor<?x2048xf8E4M3FN, #col>
    return %q : tensor<?x2048xf8E4M3FN, #col>
  }
}

// CHECK-LABEL: gpu.module @fp8moe_kernels
// CHECK:         gpu.func @quantize_by_scales_0
// CHECK:         gpu.barrier
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK:         } else {
// CHECK:         llvm.ptrtoint
// CHECK:         arith.andi %{{.*}}, %c15_i32 : i32
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// CHECK-COUNT-4: llvm.intr.fshr
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
