// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-nvvm)))" | FileCheck %s

gpu.module @kernels {
  // shared_part only names memory for the checks: it lowers to its operand.
  // CHECK-LABEL: gpu.func @part
  // CHECK-SAME: (%[[SHARED:.*]]: !llvm.ptr<3>)
  // CHECK-NEXT: gpu.return %[[SHARED]]
  gpu.func @part(%shared: !llvm.ptr<3>) -> !llvm.ptr<3> {
    %0 = fp8moe_kernel.shared_part memory "result" at %shared : !llvm.ptr<3>
    gpu.return %0 : !llvm.ptr<3>
  }

  // CHECK-LABEL: gpu.func @mbarrier
  // CHECK-SAME: (%[[BARRIER:.*]]: !llvm.ptr<3>, %[[BYTES:.*]]: i32)
  gpu.func @mbarrier(%barrier: !llvm.ptr<3>, %bytes: i32) {
    // CHECK: nvvm.mbarrier.init %[[BARRIER]], %c4_i32
    fp8moe_kernel.mbarrier_init %barrier, 4
    // CHECK: nvvm.fence.mbarrier.init
    fp8moe_kernel.mbarrier_init_fence
    // CHECK: nvvm.mbarrier.arrive %[[BARRIER]]
    fp8moe_kernel.arrive %barrier
    // CHECK: nvvm.mbarrier.arrive.expect_tx %[[BARRIER]], %[[BYTES]]
    fp8moe_kernel.arrive_expect_tx %barrier, %bytes
    gpu.return
  }

  // The first try_wait usually succeeds and reads no timer. Otherwise the wait polls, and traps
  // after two seconds.
  // CHECK-LABEL: gpu.func @wait
  // CHECK-SAME: (%[[BARRIER:.*]]: !llvm.ptr<3>, %[[PARITY:.*]]: i32)
  gpu.func @wait(%barrier: !llvm.ptr<3>, %parity: i32) {
    // CHECK-NEXT: %[[DONE:.*]] = nvvm.mbarrier.try_wait %[[BARRIER]], %[[PARITY]]
    // CHECK: %[[PENDING:.*]] = arith.xori %[[DONE]], %true
    // CHECK: scf.if %[[PENDING]] {
    // CHECK: %[[BEGIN:.*]] = nvvm.read.ptx.sreg.globaltimer
    // CHECK: scf.while : () -> () {
    // CHECK: %[[AGAIN:.*]] = nvvm.mbarrier.try_wait %[[BARRIER]], %[[PARITY]]
    // CHECK: %[[STILL:.*]] = arith.xori %[[AGAIN]], %true
    // CHECK: scf.condition(%[[STILL]])
    // CHECK: } do {
    // CHECK: %[[NOW:.*]] = nvvm.read.ptx.sreg.globaltimer
    // CHECK: %[[ELAPSED:.*]] = arith.subi %[[NOW]], %[[BEGIN]]
    // CHECK: %[[LATE:.*]] = arith.cmpi ugt, %[[ELAPSED]], %c2000000000_i64
    // CHECK: scf.if %[[LATE]] {
    // CHECK-NEXT: llvm.intr.trap
    // CHECK: scf.yield
    fp8moe_kernel.wait_parity %barrier, %parity
    gpu.return
  }

  // A wait bounded in cycles allows 4e9 cycles for two seconds, as no SM clock exceeds 2 GHz.
  // CHECK-LABEL: gpu.func @bound
  gpu.func @bound() {
    // CHECK: %[[BEGIN:.*]] = nvvm.read.ptx.sreg.clock64
    %begin = fp8moe_kernel.begin_wait cycles
    // CHECK: %[[NOW:.*]] = nvvm.read.ptx.sreg.clock64
    // CHECK: %[[ELAPSED:.*]] = arith.subi %[[NOW]], %[[BEGIN]]
    // CHECK: arith.cmpi ugt, %[[ELAPSED]], %c4000000000_i64
    // CHECK: llvm.intr.trap
    fp8moe_kernel.bound_wait cycles %begin
    gpu.return
  }

  // CHECK-LABEL: gpu.func @other_barriers
  // CHECK-SAME: (%[[ID:.*]]: i32)
  gpu.func @other_barriers(%id: i32) {
    // CHECK: nvvm.fence.proxy {{.*}}async.shared{{.*}}cta
    fp8moe_kernel.async_proxy_fence
    // CHECK: nvvm.barrier id = %[[ID]] number_of_threads = %c128_i32
    fp8moe_kernel.named_barrier %id, 128
    // CHECK: nvvm.barrier.arrive id = %[[ID]] number_of_threads = %c256_i32
    fp8moe_kernel.named_barrier_arrive %id, 256
    gpu.return
  }

  // CHECK-LABEL: gpu.func @warps
  gpu.func @warps() -> i1 {
    // CHECK: nvvm.setmaxregister increase 232
    fp8moe_kernel.set_registers increase 232
    // CHECK: nvvm.setmaxregister decrease 40
    fp8moe_kernel.set_registers decrease 40
    // CHECK: nvvm.griddepcontrol launch_dependents
    fp8moe_kernel.launch_dependents
    // CHECK: nvvm.griddepcontrol wait
    fp8moe_kernel.wait_for_prerequisites
    // CHECK: %[[ELECTED:.*]] = nvvm.elect.sync -> i1
    %isElected = fp8moe_kernel.elect
    // CHECK: gpu.return %[[ELECTED]]
    gpu.return %isElected : i1
  }

  // CHECK-LABEL: gpu.func @opaque
  // CHECK-SAME: (%[[WORD:.*]]: i32, %[[WORDS:.*]]: vector<2xi32>)
  gpu.func @opaque(%word: i32, %words: vector<2xi32>) -> (i32, vector<2xi32>) {
    // CHECK: %[[OPAQUE:.*]] = llvm.inline_asm has_side_effects asm_dialect = att "", "=r,0" %[[WORD]]
    %0 = fp8moe_kernel.opaque %word : i32
    // CHECK-COUNT-2: llvm.inline_asm has_side_effects asm_dialect = att "", "=r,0"
    // CHECK: %[[PACKED:.*]] = vector.from_elements
    %1 = fp8moe_kernel.opaque %words : vector<2xi32>
    // CHECK: gpu.return %[[OPAQUE]], %[[PACKED]]
    gpu.return %0, %1 : i32, vector<2xi32>
  }
}
