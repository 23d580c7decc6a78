// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

// A block takes 64 lines of 1024 elements: its 16 warps have one each, four times.
#columns = #fp8moe.strided<[1, 0]>
#padded = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @tokens(%x: tensor<?x1024xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x1024xf8E4M3FN>, tensor<?x1024xf8E4M3FN, #padded>, tensor<?xf32>) {
    %q, %t, %s = fp8moe.dynamic_quantize_copy %x along 1 rounding pow2 groups(%ends : tensor<8xi32>)
        tiles [#fp8moe.quantize_copy<lines = 64, threads = 512, cluster = 1>] : tensor<?x1024xbf16> -> tensor<?x1024xf8E4M3FN>, tensor<?x1024xf8E4M3FN, #padded>, tensor<?xf32>
    return %q, %t, %s : tensor<?x1024xf8E4M3FN>, tensor<?x1024xf8E4M3FN, #padded>, tensor<?xf32>
  }

  // Each block of a cluster has half of every line.
  func.func @divided_lines(%x: tensor<?x7168xbf16>)
      -> (tensor<?x7168xf8E4M3FN>, tensor<?x7168xf8E4M3FN, #columns>, tensor<?xf32>) {
    %q, %t, %s = fp8moe.dynamic_quantize_copy %x along 1 rounding pow2
        tiles [#fp8moe.quantize_copy<lines = 32, threads = 512, cluster = 2>] : tensor<?x7168xbf16>
        -> tensor<?x7168xf8E4M3FN>, tensor<?x7168xf8E4M3FN, #columns>, tensor<?xf32>
    return %q, %t, %s : tensor<?x7168xf8E4M3FN>, tensor<?x7168xf8E4M3FN, #columns>, tensor<?xf32>
  }
}

// CHECK-LABEL: gpu.func @quantize_copy_0
// The lane's two chunks of 16 elements are on their way together.
// CHECK:         scf.for
// CHECK:           scf.if
// CHECK-COUNT-4:     llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// Each goes to memory, and to shared memory for the copy.
// CHECK:             llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK:             llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// All lines are there.
// CHECK:         gpu.barrier
// A word of each of 16 lines is 16 bytes of four columns.
// CHECK:         scf.for
// CHECK-COUNT-16:  llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32
// CHECK-COUNT-4:   llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>

// CHECK-LABEL: gpu.func @quantize_copy_1
// CHECK-SAME:    known_cluster_size = array<i32: 2, 1, 1>
// Both blocks have begun.
// CHECK:         nvvm.cluster.arrive
// CHECK-NEXT:    nvvm.cluster.wait
// What a warp finds in its half of a line goes to both blocks, and all meet.
// CHECK:         scf.for
// CHECK:           nvvm.mapa
// CHECK-NEXT:      llvm.store %{{.*}} {alignment = 4 : i64} : i32, !llvm.ptr<7>
// CHECK:           nvvm.cluster.arrive
// CHECK-NEXT:      nvvm.cluster.wait
// CHECK-COUNT-2:   llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> i32

// A block for 64 lines of the copy.
// CHECK-LABEL: fp8moe_plan.program @tokens
// CHECK:         %[[LINES:.*]] = fp8moe_plan.dim
// CHECK:         %[[TILES:.*]] = arith.ceildivsi %{{.*}}, %{{.*}} : index
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_copy_0 grid(%{{.*}}, %{{.*}}, %{{.*}}) block(512, 1, 1) shared 65536

// Two blocks for 32 lines.
// CHECK-LABEL: fp8moe_plan.program @divided_lines
// CHECK:         fp8moe_plan.launch @fp8moe_kernels::@quantize_copy_1 grid(%{{.*}}, %{{.*}}, %{{.*}}) block(512, 1, 1) shared 114688 cluster(2, 1, 1)
