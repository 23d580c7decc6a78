// Producers of all blocks synchronize from time to time without guarantee. Their loads then hit
// lines of the L2 cache that other blocks have just read.

// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles),convert-fp8moe-to-gpu,canonicalize,cse)" | FileCheck %s

#expert_columns = #fp8moe.strided<[0, 2, 1]>

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @whole_lines(%a: tensor<?x2048xf8E4M3FN>, %sa: tensor<?xf32>,
      %b: tensor<8x2048x1408xf8E4M3FN, #expert_columns>, %sb: tensor<8x1408xf32>,
      %ends: tensor<8xi32>) -> tensor<?x1408xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<?xf32>, tensor<8x1408xf32>)
        direction dequantize accumulation fast
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<?x2048xf8E4M3FN>, tensor<8x2048x1408xf8E4M3FN, #expert_columns>
        -> tensor<?x1408xbf16>
    return %o : tensor<?x1408xbf16>
  }
}

// CHECK-LABEL: gpu.module
// The counter is a global variable of this kernel, initially zero.
// CHECK: llvm.mlir.global internal @[[WORD:grouped_matmul_0_meeting]](0 : i32) {addr_space = 1 : i32, alignment = 4 : i64} : i32
// CHECK: gpu.func @grouped_matmul_0
// CHECK: %[[ADDRESS:.*]] = llvm.mlir.addressof @[[WORD]]
// CHECK: fp8moe_kernel.set_registers decrease
// A tile has 16 stages. Producers synchronize every ten tiles, which are 160 stages.
// CHECK: %[[MEETING:.*]] = arith.divui %[[INDEX:.*]], %c10_i32
// CHECK-NEXT: arith.remui %[[INDEX]], %c10_i32
// CHECK: llvm.atomicrmw add %[[ADDRESS]], %c1_i32 syncscope("device") monotonic
// Two stages later, a producer waits for slower ones, for a bounded time.
// CHECK: scf.for %[[STAGE:.*]] = %c0_i32
// CHECK-NEXT: arith.cmpi eq, %[[STAGE]], %c2_i32
// CHECK: %[[ALL:.*]] = arith.muli %[[MEETING]],
// CHECK: scf.while
// CHECK: %[[SEEN:.*]] = llvm.load %[[ADDRESS]] atomic syncscope("device") monotonic
// CHECK: arith.cmpi ult, %[[SEEN]], %[[ALL]]
// CHECK: arith.cmpi slt, %{{.*}}, %c128_i32
// CHECK: llvm.atomicrmw _or %[[ADDRESS]], %c-2147483648_i32
// After its last tile, a producer subtracts its arrivals and leaves. The last one to leave clears
// the counter.
// CHECK: fp8moe_kernel.tensor_load
// CHECK: llvm.atomicrmw add %[[ADDRESS]]
// CHECK: scf.if
// CHECK: llvm.atomicrmw _and %[[ADDRESS]], %c2147483647_i32
// CHECK: llvm.atomicrmw add %[[ADDRESS]]
// CHECK: fp8moe_kernel.set_registers increase

// -----

#expert_columns = #fp8moe.strided<[0, 2, 1]>

// Rows of 2880 bytes are no multiple of 128-byte cache lines, so neighbouring tiles share lines.
// Producers synchronize at every tile.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @shared_lines(%a: tensor<?x2880xf8E4M3FN>, %sa: tensor<?xf32>,
      %b: tensor<8x2880x1408xf8E4M3FN, #expert_columns>, %sb: tensor<8x1408xf32>,
      %ends: tensor<8xi32>) -> tensor<?x1408xbf16> {
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        scales(%sa, %sb : tensor<?xf32>, tensor<8x1408xf32>)
        direction dequantize accumulation fast
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong>]
        : tensor<?x2880xf8E4M3FN>, tensor<8x2880x1408xf8E4M3FN, #expert_columns>
        -> tensor<?x1408xbf16>
    return %o : tensor<?x1408xbf16>
  }
}

// Without shared cache lines, they would synchronize every seven tiles.
// CHECK-LABEL: gpu.module
// CHECK-NOT: arith.remui %{{.*}}, %c7_i32
// CHECK: llvm.atomicrmw add
// CHECK: fp8moe_kernel.set_registers increase

// -----

#columns = #fp8moe.strided<[1, 0]>

// With a split K, a tile has too few stages for synchronizing.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @splits(%a: tensor<128x16384xbf16>, %b: tensor<16384x512xbf16, #columns>)
      -> tensor<128x512xbf16> {
    %o = fp8moe.linear %a, %b
        tiles [#fp8moe.wgmma<rows = 128, columns = 128, stages = 6, schedule = ping_pong, splits = 8>]
        : tensor<128x16384xbf16>, tensor<16384x512xbf16, #columns> -> tensor<128x512xbf16>
    return %o : tensor<128x512xbf16>
  }
}

// CHECK-LABEL: gpu.module
// CHECK-NOT: meeting
// CHECK: gpu.func @matmul_0
