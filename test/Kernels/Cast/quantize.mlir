// RUN: fp8moe-opt %s --split-input-file --convert-fp8moe-to-gpu --canonicalize --cse | FileCheck %s

// Rows contiguous on both sides: a thread has 16 elements of 4 rows, the scale of each row, and
// nothing goes through shared memory.

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
// The scale is the factor.
// CHECK:         llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK-NOT:     arith.divf
// CHECK:         arith.mulf %{{.*}} : f32
// CHECK:         fp8moe_kernel.pack_fp8
// CHECK-NOT:     gpu.barrier
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-LABEL: fp8moe_plan.program @rows

// -----

// In groups, from rows to columns: bytes are transposed after they are converted, by twice the
// threads. Tiles begin at multiples of 16 rows, so that bytes of any group are stored in 16. On gfx942 values
// are clamped first, as its conversion does not saturate infinities.

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
// A tile more for the rows before a group, if the group has any.
// CHECK:         %[[BEFORE:.*]] = arith.andi %{{.*}}, %c15_i32
// CHECK:         arith.addi %{{.*}}, %[[BEFORE]]
// The first row of a tile.
// CHECK:         arith.andi %{{.*}}, %c-16_i64
// CHECK:         arith.mulf %{{.*}} : f32
// CHECK:         fp8moe_kernel.pack_fp8
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK:         gpu.barrier
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>

// -----

// As above from bf16 on NVIDIA: columns whose pitch is no multiple of 16 begin at any address, and
// are shifted to aligned chunks.

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
