// RUN: fp8moe-opt %s --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-nvvm)))" | FileCheck %s

gpu.module @kernels {
  // Copies to shared memory use the shared::cluster form, which every PTX version with TMA has.
  // CHECK-LABEL: gpu.func @loads
  // CHECK-SAME: (%[[MAP:.*]]: !llvm.ptr, %[[GLOBAL:.*]]: !llvm.ptr<1>, %[[SHARED:.*]]: !llvm.ptr<3>, %[[BARRIER:.*]]: !llvm.ptr<3>, %[[I:.*]]: i32, %[[J:.*]]: i32)
  gpu.func @loads(%map: !llvm.ptr, %global: !llvm.ptr<1>, %shared: !llvm.ptr<3>,
                  %barrier: !llvm.ptr<3>, %i: i32, %j: i32) {
    // CHECK: %[[CLUSTER:.*]] = llvm.addrspacecast %[[SHARED]] : !llvm.ptr<3> to !llvm.ptr<7>
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %[[CLUSTER]], %[[MAP]], %[[BARRIER]], box[%[[I]], %[[J]]]
    fp8moe_kernel.tensor_load %shared from %map[%i, %j] signals %barrier
    // CHECK: %[[CLUSTER:.*]] = llvm.addrspacecast %[[SHARED]]
    // CHECK: nvvm.cp.async.bulk.shared.cluster.global %[[CLUSTER]], %[[GLOBAL]], %[[BARRIER]], %[[I]]
    fp8moe_kernel.bulk_load %shared from %global, %i signals %barrier
    // CHECK: nvvm.cp.async.bulk.tensor.prefetch %[[MAP]], box[%[[I]], %[[J]]]
    fp8moe_kernel.tensor_prefetch %map[%i, %j]
    // CHECK: nvvm.prefetch tensormap, %[[MAP]]
    fp8moe_kernel.map_prefetch %map
    gpu.return
  }

  // CHECK-LABEL: gpu.func @stores
  // CHECK-SAME: (%[[MAP:.*]]: !llvm.ptr, %[[SHARED:.*]]: !llvm.ptr<3>, %[[I:.*]]: i32)
  gpu.func @stores(%map: !llvm.ptr, %shared: !llvm.ptr<3>, %i: i32) {
    // CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta %[[MAP]], %[[SHARED]], box[%[[I]]] :
    fp8moe_kernel.tensor_store %shared to %map[%i]
    // CHECK: %[[HINT:.*]] = arith.constant 1364590687093260288 : i64
    // CHECK: nvvm.cp.async.bulk.tensor.reduce %[[MAP]], %[[SHARED]], box[%[[I]]] l2_cache_hint = %[[HINT]] {{.*}}add
    fp8moe_kernel.tensor_add %shared to %map[%i] evict_first
    // CHECK: nvvm.cp.async.bulk.commit.group
    fp8moe_kernel.commit_stores
    // CHECK: nvvm.cp.async.bulk.wait_group 1 {read}
    fp8moe_kernel.wait_stores_read 1
    gpu.return
  }

  // CHECK-LABEL: gpu.func @accesses
  // CHECK-SAME: (%[[GLOBAL:.*]]: !llvm.ptr<1>, %[[SHARED:.*]]: !llvm.ptr<3>, %[[X:.*]]: f32, %[[WORD:.*]]: i32)
  gpu.func @accesses(%global: !llvm.ptr<1>, %shared: !llvm.ptr<3>, %x: f32, %word: i32)
      -> (vector<4xi32>, vector<4xi32>) {
    // CHECK: nvvm.prefetch level = L2, %[[GLOBAL]]
    fp8moe_kernel.sector_prefetch %global
    // CHECK: llvm.inline_asm has_side_effects asm_dialect = att "ld.relaxed.gpu.global.v4.b32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l,~{memory}" %[[GLOBAL]]
    // CHECK: vector.from_elements
    %0 = fp8moe_kernel.load_words %global
    // CHECK: llvm.inline_asm has_side_effects asm_dialect = att "ld.acquire.gpu.global.v4.b32
    %1 = fp8moe_kernel.load_words acquire %global
    // CHECK: llvm.inline_asm has_side_effects asm_dialect = att "red.relaxed.gpu.global.add.v4.f32 [$0], {$1, $2, $3, $4};", "l,f,f,f,f" %[[GLOBAL]], %[[X]], %[[X]], %[[X]], %[[X]]
    fp8moe_kernel.add_floats %global, %x, %x, %x, %x
    // CHECK: nvvm.stmatrix %[[SHARED]], %[[WORD]], %[[WORD]], %[[WORD]], %[[WORD]]
    fp8moe_kernel.store_matrices %shared, %word, %word, %word, %word
    gpu.return %0, %1 : vector<4xi32>, vector<4xi32>
  }
}
