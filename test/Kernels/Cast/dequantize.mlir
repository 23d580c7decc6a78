// RUN: fp8moe-opt %s --split-input-file --convert-fp8moe-to-gpu --canonicalize --cse | FileCheck %s

// Both sides are row-major, so no shared memory is used. Each thread loads and converts 16 bytes of
// FP8. Neighbouring threads exchange halves, so that each stores 32 adjacent bytes.

#aligned = #fp8moe.strided<[0, 1], align = 16>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @rows(%q: tensor<?x2048xf8E4M3FN, #aligned>, %s: tensor<?xf32>) -> tensor<?x2048xbf16, #aligned> {
    %x = fp8moe.dequantize %q by %s along 1 direction quantize
        : tensor<?x2048xf8E4M3FN, #aligned>, tensor<?xf32> -> tensor<?x2048xbf16, #aligned>
    return %x : tensor<?x2048xbf16, #aligned>
  }
}

// CHECK-LABEL: gpu.func @dequantize_0
// CHECK-SAME:    fp8moe_kernel.resident_blocks = 4 : i32, known_block_size = array<i32: 256, 1, 1>
// CHECK:         llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-COUNT-8: gpu.shuffle xor
// CHECK-NOT:     gpu.shuffle
// `direction quantize` multiplies by the reciprocal of the scale, in f32.
// CHECK:         %[[SCALE:.*]] = arith.bitcast %{{.*}} : i32 to f32
// CHECK:         %[[FACTOR:.*]] = arith.divf %{{.*}}, %[[SCALE]] : f32
// CHECK:         fp8moe_kernel.unpack_fp8 %{{.*}} : f8E4M3FN
// CHECK:         arith.mulf %{{.*}}, %[[FACTOR]] : f32
// CHECK:         arith.truncf {{.*}} : vector<2xf32> to vector<2xbf16>
// CHECK-NOT:     gpu.barrier
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// A tile has 128 rows, and 16 tiles cover the 2048 columns.
// CHECK-LABEL: fp8moe_plan.program @rows
// CHECK:         %[[ROWS:.*]] = arith.ceildivsi %{{.*}}, %c128
// CHECK:         arith.muli %[[ROWS]], %c16

// -----

// The input is column-major and the output row-major, in groups. FP8 bytes are transposed before
// they are converted. Each thread then loads the bytes whose f32 values fill 16 bytes.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @groups(%q: tensor<?x2048xf8E5M2FNUZ, #col>, %s: tensor<?x2048xf32>, %ends: tensor<?xi32>)
      -> tensor<?x2048xf32> {
    %x = fp8moe.dequantize %q by %s along 0 groups(%ends : tensor<?xi32>) direction dequantize
        : tensor<?x2048xf8E5M2FNUZ, #col>, tensor<?x2048xf32> -> tensor<?x2048xf32>
    return %x : tensor<?x2048xf32>
  }
}

// CHECK-LABEL: gpu.module @fp8moe_kernels
// CHECK:         llvm.mlir.global internal @dequantize_0_tile() {{.*}} !llvm.array<16384 x i8>
// The kernel has no occupancy target, which later passes could not remove.
// CHECK:         gpu.func @dequantize_0
// CHECK-NOT:     resident_blocks
// The tile's group is searched for in the offsets.
// CHECK:         llvm.load %{{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK:         gpu.shuffle
// CHECK:         llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<3>
// CHECK:         gpu.barrier
// CHECK:         llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> vector<1xi32>
// `direction dequantize` multiplies by the scale itself.
// CHECK-NOT:     arith.divf
// CHECK:         fp8moe_kernel.unpack_fp8
// CHECK:         arith.mulf %{{.*}} : f32
// Each group has its own tiles. The first one begins up to 15 rows before the group, which adds at
// most 15 rows a group.
// CHECK-LABEL: fp8moe_plan.program @groups
// CHECK:         %[[MORE:.*]] = arith.muli %{{.*}}, %c142
// CHECK:         arith.addi %{{.*}}, %[[MORE]]
