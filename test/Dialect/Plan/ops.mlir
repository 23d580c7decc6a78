// RUN: fp8moe-opt %s | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --emit-bytecode | fp8moe-opt | FileCheck %s

gpu.module @kernels {
  gpu.func @quantize(%x: !llvm.ptr, %q: !llvm.ptr, %m: i64) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    gpu.return
  }
  llvm.func @lowered(%x: !llvm.ptr, %m: i64) attributes {nvvm.kernel} {
    llvm.return
  }
}

// The verifier compares a launch's arguments only with lowered kernels, which this one is not.
func.func private @entry(tensor<?x2048xbf16>) -> tensor<?xf32>

// CHECK-LABEL: fp8moe_plan.program @forward {
fp8moe_plan.program @forward {
  // CHECK: %[[X:.*]] = fp8moe_plan.input "grad" align 16 : memref<?x2048xbf16>
  %x = fp8moe_plan.input "grad" align 16 : memref<?x2048xbf16>
  // CHECK: %[[W:.*]] = fp8moe_plan.input "w" align 16 : memref<?x?xbf16, strided<[1, ?]>>
  %w = fp8moe_plan.input "w" align 16 : memref<?x?xbf16, strided<[1, ?]>>
  // CHECK: %[[M:.*]] = fp8moe_plan.dim %[[X]], 0 : memref<?x2048xbf16>
  %m = fp8moe_plan.dim %x, 0 : memref<?x2048xbf16>
  // CHECK: %[[LD:.*]] = fp8moe_plan.stride %[[W]], 1 : memref<?x?xbf16, strided<[1, ?]>>
  %ld = fp8moe_plan.stride %w, 1 : memref<?x?xbf16, strided<[1, ?]>>
  // CHECK: %[[Q:.*]] = fp8moe_plan.output "q" sizes(%[[M]]) strides(%[[LD]]) align 16 : memref<?x2048xf8E4M3FN, strided<[1, ?]>>
  %q = fp8moe_plan.output "q" sizes(%m) strides(%ld) align 16 : memref<?x2048xf8E4M3FN, strided<[1, ?]>>
  // CHECK: fp8moe_plan.output "s" align 4 : memref<2048xf32>
  %s = fp8moe_plan.output "s" align 4 : memref<2048xf32>
  // CHECK: fp8moe_plan.output "w_new" may_overwrite(%[[W]] : memref<?x?xbf16, strided<[1, ?]>>) sizes(%{{.*}}, %{{.*}}) strides(%{{.*}}) align 16
  %new = fp8moe_plan.output "w_new" may_overwrite(%w : memref<?x?xbf16, strided<[1, ?]>>)
      sizes(%m, %m) strides(%ld) align 16 : memref<?x?xbf16, strided<[1, ?]>>
  // CHECK: %[[T:.*]] = fp8moe_plan.workspace sizes(%[[M]]) align 256 : memref<?x2048xbf16>
  %t = fp8moe_plan.workspace sizes(%m) align 256 : memref<?x2048xbf16>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %blocks = arith.ceildivsi %m, %c64 : index
  %some = arith.cmpi sgt, %m, %c0 : index
  // CHECK: fp8moe_plan.launch @kernels::@quantize grid(%{{.*}}, %{{.*}}, %{{.*}}) block(256, 1, 1) shared 512 when(%{{.*}}) args(%[[X]], %[[Q]], %[[M]]) : memref<?x2048xbf16>, memref<?x2048xf8E4M3FN, strided<[1, ?]>>, index
  fp8moe_plan.launch @kernels::@quantize grid(%blocks, %c1, %c1)
      block(256, 1, 1) shared 512 when(%some) args(%x, %q, %m)
      : memref<?x2048xbf16>, memref<?x2048xf8E4M3FN, strided<[1, ?]>>, index
  // CHECK: fp8moe_plan.launch @kernels::@lowered
  fp8moe_plan.launch @kernels::@lowered grid(%c1, %c1, %c1)
      block(32, 2, 1) shared 0 args(%t, %m) : memref<?x2048xbf16>, index
  // CHECK: fp8moe_plan.launch @entry grid(%{{.*}}) block(1, 1, 1) shared 0{{$}}
  fp8moe_plan.launch @entry grid(%c1, %c1, %c1) block(1, 1, 1) shared 0
}

// CHECK-LABEL: fp8moe_plan.program @empty {
fp8moe_plan.program @empty {
}
