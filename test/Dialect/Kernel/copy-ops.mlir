// RUN: fp8moe-opt %s | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --emit-bytecode | fp8moe-opt | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @copies
  gpu.func @copies(%map: !llvm.ptr, %global: !llvm.ptr<1>, %shared: !llvm.ptr<3>,
                   %barrier: !llvm.ptr<3>, %i: i32) {
    // CHECK: fp8moe_kernel.tensor_load %{{.*}} from %{{.*}}[%{{.*}}, %{{.*}}] signals %{{.*}}
    fp8moe_kernel.tensor_load %shared from %map[%i, %i] signals %barrier
    // CHECK: fp8moe_kernel.bulk_load %{{.*}} from %{{.*}}, %{{.*}} signals %{{.*}}
    fp8moe_kernel.bulk_load %shared from %global, %i signals %barrier
    // CHECK: fp8moe_kernel.tensor_store %{{.*}} to %{{.*}}[%{{[a-z0-9]*}}]{{$}}
    fp8moe_kernel.tensor_store %shared to %map[%i]
    // CHECK: fp8moe_kernel.tensor_add %{{.*}} to %{{.*}}[%{{.*}}] evict_first
    fp8moe_kernel.tensor_add %shared to %map[%i, %i, %i] evict_first
    // CHECK: fp8moe_kernel.commit_stores
    fp8moe_kernel.commit_stores
    // CHECK: fp8moe_kernel.wait_stores_read 1
    fp8moe_kernel.wait_stores_read 1
    // CHECK: fp8moe_kernel.tensor_prefetch %{{.*}}[%{{.*}}, %{{.*}}]
    fp8moe_kernel.tensor_prefetch %map[%i, %i]
    // CHECK: fp8moe_kernel.map_prefetch %{{.*}}
    fp8moe_kernel.map_prefetch %map
    gpu.return
  }

  // CHECK-LABEL: gpu.func @accesses
  gpu.func @accesses(%global: !llvm.ptr<1>, %shared: !llvm.ptr<3>, %x: f32, %word: i32) {
    // CHECK: fp8moe_kernel.sector_prefetch %{{.*}}
    fp8moe_kernel.sector_prefetch %global
    // CHECK: fp8moe_kernel.load_words %{{.*}}
    %0 = fp8moe_kernel.load_words %global
    // CHECK: fp8moe_kernel.load_words acquire %{{.*}}
    %1 = fp8moe_kernel.load_words acquire %global
    // CHECK: fp8moe_kernel.add_floats %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}
    fp8moe_kernel.add_floats %global, %x, %x, %x, %x
    // CHECK: fp8moe_kernel.store_matrices %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}
    fp8moe_kernel.store_matrices %shared, %word, %word, %word, %word
    gpu.return
  }

  // CHECK-LABEL: gpu.func @matrices
  gpu.func @matrices(%a: i64, %b: i64, %sums: !llvm.struct<(f32, f32, f32, f32)>, %flag: i32) {
    // CHECK: fp8moe_kernel.wgmma_fence
    fp8moe_kernel.wgmma_fence
    // CHECK: fp8moe_kernel.wgmma %{{.*}}, %{{.*}}, %{{.*}} if %{{[a-z0-9]*}} : f8E4M3FN, f8E5M2, !llvm.struct<(f32, f32, f32, f32)>
    %0 = fp8moe_kernel.wgmma %a, %b, %sums if %flag
        : f8E4M3FN, f8E5M2, !llvm.struct<(f32, f32, f32, f32)>
    // CHECK: fp8moe_kernel.wgmma {{.*}} mn_major_a mn_major_b : bf16, bf16
    %1 = fp8moe_kernel.wgmma %a, %b, %0 if %flag mn_major_a mn_major_b
        : bf16, bf16, !llvm.struct<(f32, f32, f32, f32)>
    // CHECK: fp8moe_kernel.wgmma_commit
    fp8moe_kernel.wgmma_commit
    // CHECK: fp8moe_kernel.wgmma_wait 0
    fp8moe_kernel.wgmma_wait 0
    // CHECK: fp8moe_kernel.wgmma_results %{{.*}} : !llvm.struct
    %2 = fp8moe_kernel.wgmma_results %1 : !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @mfma
  gpu.func @mfma(%a: i64, %b: vector<8xi32>, %large: vector<16xf32>, %small: vector<4xf32>, %scale: i32) {
    // CHECK: fp8moe_kernel.mfma %{{.*}}, %{{.*}}, %{{.*}} : f8E4M3FNUZ, f8E5M2FNUZ, i64, vector<16xf32>
    %0 = fp8moe_kernel.mfma %a, %a, %large : f8E4M3FNUZ, f8E5M2FNUZ, i64, vector<16xf32>
    // CHECK: fp8moe_kernel.mfma %{{.*}}, %{{.*}}, %{{.*}} scales %{{.*}}, %{{.*}} : f8E4M3FN, f8E5M2, vector<8xi32>, vector<4xf32>
    %1 = fp8moe_kernel.mfma %b, %b, %small scales %scale, %scale
        : f8E4M3FN, f8E5M2, vector<8xi32>, vector<4xf32>
    gpu.return
  }
}
