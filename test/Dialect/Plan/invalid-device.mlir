// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %n = fp8moe_plan.device_attr multiprocessors : index
  // expected-error@+1 {{'fp8moe_plan.output' op computes a shape from a property of the device; shapes and requirements are the same on every device, use it for grids, conditions, arguments of kernels and workspaces}}
  %y = fp8moe_plan.output "y" sizes(%n) align 4 : memref<?xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c64 = arith.constant 64 : index
  %l2 = fp8moe_plan.device_attr l2_bytes : index
  %half = arith.divsi %l2, %c64 : index
  // expected-error@+1 {{'fp8moe_plan.output' op computes a shape from a property of the device}}
  %y = fp8moe_plan.output "y" sizes(%half) align 4 : memref<?xf32>
}

// -----

fp8moe_plan.program @p {
  // expected-error@+2 {{to be one of: multiprocessors, l2_bytes, memory_bandwidth}}
  // expected-error@+1 {{failed to parse Plan_DeviceAttributeAttr parameter 'value'}}
  %n = fp8moe_plan.device_attr warps : index
}

// -----

// A value still depends on the device after arithmetic, or as the extent of a workspace.
fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %n = fp8moe_plan.device_attr multiprocessors : index
  %t = fp8moe_plan.workspace sizes(%n) align 4 : memref<?xf32>
  %d = fp8moe_plan.dim %t, 0 : memref<?xf32>
  %twice = arith.addi %d, %d : index
  %ok = arith.cmpi eq, %twice, %c64 : index
  // expected-error@+1 {{'fp8moe_plan.require' op computes a requirement from a property of the device}}
  fp8moe_plan.require %ok, "message"
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %a = fp8moe_plan.aligned %x, 16 : memref<64x64xf32>
  %n = arith.select %a, %c1, %c64 : index
  // expected-error@+1 {{'fp8moe_plan.workspace' op computes a size from the alignment of an address, which is not known before the program runs; use it for conditions of launches and arguments of kernels}}
  %t = fp8moe_plan.workspace sizes(%n) align 4 : memref<?xf32>
}

// -----

func.func private @entry()
fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %a = fp8moe_plan.aligned %x, 16 : memref<64x64xf32>
  %n = arith.select %a, %c1, %c64 : index
  // expected-error@+1 {{'fp8moe_plan.launch' op computes a grid from the alignment of an address}}
  fp8moe_plan.launch @entry grid(%n, %c1, %c1) block(1, 1, 1) shared 0
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %a = fp8moe_plan.aligned %x, 16 : memref<64x64xf32>
  %n = arith.select %a, %c1, %c64 : index
  // expected-error@+1 {{'fp8moe_plan.tensor_map' op computes a size from the alignment of an address}}
  %map = fp8moe_plan.tensor_map %x sizes(%n) box(64) swizzle 0 : memref<64x64xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{asks for a multiple of 24 bytes; expected a power of two}}
  %a = fp8moe_plan.aligned %x, 24 : memref<64x64xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{'fp8moe_plan.tensor_map' op has 6 dimensions; expected 1 to 5}}
  %map = fp8moe_plan.tensor_map %x sizes(%c1, %c1, %c1, %c1, %c1, %c1) strides(%c64, %c64, %c64, %c64, %c64) box(64, 1, 1, 1, 1, 1) swizzle 0 : memref<64x64xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has 0 strides for 2 dimensions; expected one for each but the innermost}}
  %map = fp8moe_plan.tensor_map %x sizes(%c64, %c64) box(32, 1) swizzle 0 : memref<64x64xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has a box of 1 dimensions for a tensor of 2}}
  %map = fp8moe_plan.tensor_map %x sizes(%c64, %c64) strides(%c64) box(32) swizzle 0 : memref<64x64xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has a box of 257 elements along dimension 1; expected 1 to 256}}
  %map = fp8moe_plan.tensor_map %x sizes(%c64, %c64) strides(%c64) box(32, 257) swizzle 0 : memref<64x64xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has a box with rows of 40 bytes; expected a multiple of 16}}
  %map = fp8moe_plan.tensor_map %x sizes(%c64, %c64) strides(%c64) box(10, 1) swizzle 0 : memref<64x64xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has a box with rows of 256 bytes, more than the 128 bytes of the swizzle; use a narrower box}}
  %map = fp8moe_plan.tensor_map %x sizes(%c64, %c64) strides(%c64) box(64, 1) swizzle 128 : memref<64x64xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has swizzle 16; expected 0, 32, 64 or 128 bytes}}
  %map = fp8moe_plan.tensor_map %x sizes(%c64, %c64) strides(%c64) box(4, 1) swizzle 16 : memref<64x64xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has promotion 32; expected 0, 64, 128 or 256 bytes}}
  %map = fp8moe_plan.tensor_map %x sizes(%c64, %c64) strides(%c64) box(4, 1) swizzle 0 promotion 32 : memref<64x64xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has a stride of 1 elements along dimension 1, which is not a multiple of 16 bytes}}
  %map = fp8moe_plan.tensor_map %x sizes(%c64, %c64) strides(%c1) box(4, 1) swizzle 0 : memref<64x64xf32>
}

// -----

fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %i = fp8moe_plan.workspace align 4 : memref<64xi1>
  // expected-error@+1 {{expected ')'}}
  %map = fp8moe_plan.tensor_map %i sizes(%c64) box(64 swizzle 0 : memref<64xi1>
}

// -----

func.func private @entry()
fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has a cluster of 2 extents; expected three}}
  fp8moe_plan.launch @entry grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 cluster(1, 1)
}

// -----

func.func private @entry()
fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has cluster size 16 along x; expected 1 to 8}}
  fp8moe_plan.launch @entry grid(%c64, %c1, %c1) block(1, 1, 1) shared 0 cluster(16, 1, 1)
}

// -----

func.func private @entry()
fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has clusters of 16 blocks; expected at most 8}}
  fp8moe_plan.launch @entry grid(%c64, %c64, %c1) block(1, 1, 1) shared 0 cluster(4, 4, 1)
}

// -----

func.func private @entry()
fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has a grid of 1 blocks along y, which is not a multiple of the cluster size 2}}
  fp8moe_plan.launch @entry grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 cluster(1, 2, 1)
}

// -----

gpu.module @kernels {
  gpu.func @k() kernel attributes {known_cluster_size = array<i32: 2, 1, 1>} {
    gpu.return
  }
}
fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{has cluster size 1 along x, but '@kernels::@k' is compiled for 2}}
  fp8moe_plan.launch @kernels::@k grid(%c64, %c1, %c1) block(1, 1, 1) shared 0
}

// -----

gpu.module @kernels {
  // expected-note@+1 {{the kernel is here}}
  gpu.func @k(%map: !llvm.ptr {fp8moe_plan.tensor_map}) kernel {
    gpu.return
  }
}
fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{passes 'memref<64x64xf32>' as argument 0, but that parameter of '@kernels::@k' is a tensor map of type '!llvm.ptr'; expected !llvm.ptr}}
  fp8moe_plan.launch @kernels::@k grid(%c64, %c1, %c1) block(1, 1, 1) shared 0 args(%x) : memref<64x64xf32>
}

// -----

gpu.module @kernels {
  // expected-note@+1 {{the kernel is here}}
  gpu.func @k(%map: !llvm.ptr) kernel {
    gpu.return
  }
}
fp8moe_plan.program @p {
  %x = fp8moe_plan.input "x" align 4 : memref<64x64xf32>
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %map = fp8moe_plan.tensor_map %x sizes(%c64) box(64) swizzle 0 : memref<64x64xf32>
  // expected-error@+1 {{passes '!fp8moe_plan.tensor_map' as argument 0, but that parameter of '@kernels::@k' is '!llvm.ptr'; expected !llvm.ptr with the attribute fp8moe_plan.tensor_map}}
  fp8moe_plan.launch @kernels::@k grid(%c64, %c1, %c1) block(1, 1, 1) shared 0 args(%map) : !fp8moe_plan.tensor_map
}

// -----

gpu.module @kernels {
  // expected-error@+1 {{has 'fp8moe_plan.tensor_map = unit' on parameter 0 of type 'i64'; expected a unit attribute on a parameter of type !llvm.ptr}}
  gpu.func @k(%map: i64 {fp8moe_plan.tensor_map}) kernel {
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-error@+1 {{has the unknown attribute 'fp8moe_plan.map' on a parameter; this dialect knows 'fp8moe_plan.tensor_map'}}
  gpu.func @k(%map: !llvm.ptr {fp8moe_plan.map}) kernel {
    gpu.return
  }
}

// -----

// expected-error@+1 {{has the attribute 'fp8moe_plan.program' on a result; this dialect has attributes of parameters only}}
func.func @k(%x: i64) -> (i64 {fp8moe_plan.program}) {
  return %x : i64
}
