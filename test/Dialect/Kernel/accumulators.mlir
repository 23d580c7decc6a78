// Structs of many f32 (accumulators of wgmma) print as an alias. Other structs do not.

// RUN: fp8moe-opt %s | FileCheck %s
// RUN: fp8moe-opt %s | fp8moe-opt | FileCheck %s

// CHECK: !accumulators16 = !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>

// CHECK: func.func @many(%{{.*}}: !accumulators16)
func.func @many(%accumulators: !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>) {
  fp8moe_kernel.subgroup_barrier
  return
}

// CHECK: func.func private @few(!llvm.struct<(f32, f32, f32, f32)>)
func.func private @few(!llvm.struct<(f32, f32, f32, f32)>)
