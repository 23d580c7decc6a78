// The checks accept the generated kernel. They find each synchronization that sed removes or
// changes.

// RUN: fp8moe-opt %s --convert-fp8moe-to-gpu -o %t
// RUN: fp8moe-opt %t --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-check-mbarriers,fp8moe-check-synchronization)))" -o /dev/null
// RUN: sed /async_proxy_fence/d %t > %t.fences
// RUN: sed /wait_parity/d %t > %t.waits
// RUN: sed /arrive_expect_tx/d %t > %t.arrivals
// RUN: sed "s/\(mbarrier_init .*\), 4$/\1, 9/" %t > %t.counts
// RUN: not fp8moe-opt %t.fences --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-check-mbarriers,fp8moe-check-synchronization)))" 2>&1 | FileCheck %s --check-prefix=FENCES
// RUN: not fp8moe-opt %t.waits --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-check-mbarriers,fp8moe-check-synchronization)))" 2>&1 | FileCheck %s --check-prefix=WAITS
// RUN: not fp8moe-opt %t.arrivals --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-check-mbarriers,fp8moe-check-synchronization)))" 2>&1 | FileCheck %s --check-prefix=ARRIVALS
// RUN: not fp8moe-opt %t.counts --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-check-mbarriers,fp8moe-check-synchronization)))" 2>&1 | FileCheck %s --check-prefix=COUNTS

// Two consumer warpgroups have eight warps. One thread of each releases a stage, so 8 threads
// arrive.
// FENCES: error: reads shared memory by the asynchronous proxy that a thread has stored to without a fence
// WAITS: error: reads a stage of ring "operands" on a path without a wait
// ARRIVALS: error: waits for an mbarrier 'full' of 'operands', but no thread of the kernel arrives at one
// COUNTS: error: asks for 9 arrivals at an mbarrier 'empty' of 'operands', but only 8 threads may arrive

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @dense(%a: tensor<?x1024xbf16>, %b: tensor<1024x1024xbf16>) -> tensor<?x1024xbf16> {
    %o = fp8moe.linear %a, %b
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<?x1024xbf16>, tensor<1024x1024xbf16> -> tensor<?x1024xbf16>
    return %o : tensor<?x1024xbf16>
  }
}
