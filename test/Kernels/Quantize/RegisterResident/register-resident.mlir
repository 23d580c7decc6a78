// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// Rows stay in registers between the reduction and the cast, so each element is loaded once.

// 64 threads hold a row of 5120 elements in five 16-element vectors each. A block has two such
// thread groups. Rows are whole vectors and fit entirely, so there are no edges and no second
// loads.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @rowwise(%x: tensor<?x5120xbf16, #fp8moe.strided<[0, 1], align = 16>>)
      -> (tensor<?x5120xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16>>, tensor<?xf32>) {
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        tiles [#fp8moe.register_resident<columns = 2, threads = 128, chunks = 5, rounds = 1, blocks = 4>]
        : tensor<?x5120xbf16, #fp8moe.strided<[0, 1], align = 16>>
        -> tensor<?x5120xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16>>, tensor<?xf32>
    return %q, %s : tensor<?x5120xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16>>, tensor<?xf32>
  }
}

// CHECK:         llvm.mlir.global internal @quantize_register_resident_0_magnitudes() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<16 x i8>
// CHECK-LABEL: gpu.func @quantize_register_resident_0
// CHECK-SAME:    known_block_size = array<i32: 128, 1, 1>
// CHECK-COUNT-10: llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT:     llvm.load %{{.*}} : !llvm.ptr<1>
// The subgroups of a row combine their amax in shared memory.
// CHECK:         fp8moe_kernel.exchange
// CHECK:         gpu.barrier
// CHECK:         llvm.store %{{.*}} : i32, !llvm.ptr<3>
// CHECK:         gpu.barrier
// CHECK:         llvm.load %{{.*}} : !llvm.ptr<3> -> i32
// CHECK-NOT:     llvm.load %{{.*}} : !llvm.ptr<1>
// CHECK-COUNT-5: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT:     llvm.store %{{.*}} : i8
// CHECK:         gpu.return

// -----

// The length is dynamic: each range of mean lengths has a kernel, and one of them is launched.

#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_100a">} {
  func.func @jagged(%x: tensor<?x2048xbf16, #col>, %ends: tensor<?xi32>)
      -> (tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf32>) {
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<?xi32>) along [0]
        rounding pow2 : tensor<?x2048xbf16, #col>
        -> tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf32>
    return %q, %s : tensor<?x2048xf8E4M3FN, #col>, tensor<?x2048xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_register_resident_0
// The number of rows is the column pitch, so columns begin at any address. Vectors start at 16-byte
// boundaries of the output. They are loaded at once if the input is aligned alike.
// CHECK:         llvm.ptrtoint
// CHECK:         arith.andi %{{.*}}, %c15_i64
// CHECK:         llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// Elements that exceed the registers are loaded again in a loop that is not unrolled.
// CHECK:         scf.for
// CHECK:         llvm.loop_annotation
// CHECK-LABEL: fp8moe_plan.program @jagged
// CHECK:         %[[M:.*]] = fp8moe_plan.dim %{{.*}}, 0 : memref<?x2048xbf16
// CHECK:         %[[E:.*]] = fp8moe_plan.dim %{{.*}}, 0 : memref<?xi32>
// CHECK:         %[[GROUPS:.*]] = arith.maxsi %[[E]], %c1
// CHECK:         %[[LENGTH:.*]] = arith.ceildivsi %[[M]], %[[GROUPS]]
// CHECK:         %[[SHORT:.*]] = arith.cmpi sle, %[[LENGTH]], %[[LIMIT:.*]] : index
// CHECK:         %[[LONGER:.*]] = arith.cmpi sgt, %[[LENGTH]], %[[LIMIT]] : index
// CHECK:         launch @fp8moe_kernels::@quantize_register_resident_0 {{.*}} when(%[[SHORT]])
// CHECK:         launch @fp8moe_kernels::@quantize_register_resident_1
