// RUN: fp8moe-opt %s | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --emit-bytecode | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --canonicalize | FileCheck %s --check-prefix=FOLD

gpu.module @kernels {
  // CHECK: gpu.func @tma(%{{.*}}: !llvm.ptr {fp8moe_plan.tensor_map}, %{{.*}}: !llvm.ptr, %{{.*}}: i64)
  gpu.func @tma(%map: !llvm.ptr {fp8moe_plan.tensor_map}, %y: !llvm.ptr, %n: i64) kernel
      attributes {known_cluster_size = array<i32: 2, 1, 1>} {
    gpu.return
  }
  llvm.func @lowered(%map: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>,
                     nvvm.grid_constant}) attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
}

// CHECK-LABEL: fp8moe_plan.program @launches
fp8moe_plan.program @launches {
  %x = fp8moe_plan.input "x" align 2 : memref<?x?xbf16, strided<[?, 1]>>
  %m = fp8moe_plan.dim %x, 0 : memref<?x?xbf16, strided<[?, 1]>>
  %n = fp8moe_plan.dim %x, 1 : memref<?x?xbf16, strided<[?, 1]>>
  %ld = fp8moe_plan.stride %x, 0 : memref<?x?xbf16, strided<[?, 1]>>
  %y = fp8moe_plan.output "y" sizes(%m) align 16 : memref<?xbf16>
  %c1 = arith.constant 1 : index
  // CHECK: %[[N:.*]] = fp8moe_plan.device_attr multiprocessors : index
  %sms = fp8moe_plan.device_attr multiprocessors : index
  // CHECK: fp8moe_plan.device_attr l2_bytes : index
  // CHECK: fp8moe_plan.device_attr memory_bandwidth : index
  %l2 = fp8moe_plan.device_attr l2_bytes : index
  %bandwidth = fp8moe_plan.device_attr memory_bandwidth : index
  // A workspace may have one row for each SM.
  // CHECK: fp8moe_plan.workspace sizes(%[[N]])
  %t = fp8moe_plan.workspace sizes(%sms) align 128 : memref<?x32xf32>
  // CHECK: %[[A:.*]] = fp8moe_plan.aligned %{{.*}}, 16 : memref<?x?xbf16, strided<[?, 1]>>
  %aligned = fp8moe_plan.aligned %x, 16 : memref<?x?xbf16, strided<[?, 1]>>
  // CHECK: %[[MAP:.*]] = fp8moe_plan.tensor_map %{{.*}} sizes(%{{.*}}, %{{.*}}) strides(%{{.*}}) box(64, 16) swizzle 128 : memref<?x?xbf16, strided<[?, 1]>>
  %map = fp8moe_plan.tensor_map %x sizes(%n, %m) strides(%ld) box(64, 16) swizzle 128
      : memref<?x?xbf16, strided<[?, 1]>>
  // CHECK: %[[ROW:.*]] = fp8moe_plan.tensor_map %{{.*}} offset(%{{.*}}) sizes(%{{.*}}) box(256) swizzle 0 promotion 128 : memref<?xbf16>
  %row = fp8moe_plan.tensor_map %y offset(%c1) sizes(%m) box(256) swizzle 0 promotion 128 : memref<?xbf16>
  // CHECK: fp8moe_plan.launch @kernels::@tma grid({{.*}}) block(384, 1, 1) shared 200704 cluster(2, 1, 1) cooperative when(%[[A]]) args(%[[MAP]], %{{.*}}, %[[N]]) : !fp8moe_plan.tensor_map, memref<?xbf16>, index
  fp8moe_plan.launch @kernels::@tma grid(%sms, %c1, %c1) block(384, 1, 1) shared 200704
      cluster(2, 1, 1) cooperative when(%aligned) args(%map, %y, %sms)
      : !fp8moe_plan.tensor_map, memref<?xbf16>, index
  // CHECK: fp8moe_plan.launch @kernels::@lowered {{.*}} shared 0 cooperative programmatic args(%[[ROW]]) : !fp8moe_plan.tensor_map
  fp8moe_plan.launch @kernels::@lowered grid(%c1, %c1, %c1) block(32, 1, 1) shared 0
      cooperative programmatic args(%row) : !fp8moe_plan.tensor_map
}

// `aligned` folds to true if the type of the buffer promises that alignment.
// FOLD-LABEL: fp8moe_plan.program @promised
fp8moe_plan.program @promised {
  %x = fp8moe_plan.input "x" align 16 : memref<8xf32>
  %c1 = arith.constant 1 : index
  // FOLD-NOT: fp8moe_plan.aligned %{{.*}}, 16
  // FOLD: fp8moe_plan.aligned %{{.*}}, 32
  %a = fp8moe_plan.aligned %x, 16 : memref<8xf32>
  %b = fp8moe_plan.aligned %x, 32 : memref<8xf32>
  // FOLD: fp8moe_plan.launch @entry grid({{.*}}) block(1, 1, 1) shared 0{{$}}
  fp8moe_plan.launch @entry grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 when(%a)
  // FOLD: fp8moe_plan.launch @entry grid({{.*}}) block(1, 1, 1) shared 0 when
  fp8moe_plan.launch @entry grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 when(%b)
}
func.func private @entry()

// A stride that overflows 64 bits in bytes is no error at compile time: the launch refuses it.
// CHECK-LABEL: fp8moe_plan.program @huge_stride
// CHECK: fp8moe_plan.tensor_map
fp8moe_plan.program @huge_stride {
  %c64 = arith.constant 64 : index
  %stride = arith.constant 4611686018427387904 : index
  %x = fp8moe_plan.input "x" align 16 : memref<64x64xf32>
  %map = fp8moe_plan.tensor_map %x sizes(%c64, %c64) strides(%stride) box(64, 1) swizzle 0 : memref<64x64xf32>
}
