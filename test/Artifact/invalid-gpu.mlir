// The leak check is off because LLVM does not free its data after a fatal error.
// RUN: env ASAN_OPTIONS=detect_leaks=0 fp8moe-opt %s --split-input-file --verify-diagnostics --test-fp8moe-emit="chip=gfx942 kind=hsaco output=%t"

module {
  // expected-note@+1 {{the first one is here}}
  gpu.module @a {
  }
  // expected-error@+1 {{an artifact has one device binary, but this is the second gpu.module; move all kernels into one}}
  gpu.module @b {
  }
}

// -----

// expected-error@+1 {{the kernels call 'printf', which no device library provides; lower the operation that it comes from to instructions}}
module {
  gpu.module @kernels {
    llvm.func @printf(!llvm.ptr)
    llvm.func @k(%x: !llvm.ptr) attributes {gpu.kernel, rocdl.kernel} {
      llvm.call @printf(%x) : (!llvm.ptr) -> ()
      llvm.return
    }
  }
}

// -----

// The launch has 256 threads a block, but the kernel is compiled for at most 128.
module {
  gpu.module @kernels {
    llvm.func @k() attributes {gpu.kernel, rocdl.kernel, rocdl.flat_work_group_size = "1,128"} {
      llvm.return
    }
  }
  fp8moe_plan.program @p {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{'fp8moe_plan.launch' op has 256 threads per block, but 'k' is compiled for at most 128; set the kernel's known_block_size}}
    fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(256, 1, 1) shared 0
  }
}

// -----

module {
  gpu.module @kernels {
    llvm.func @k() attributes {gpu.kernel, rocdl.kernel} {
      llvm.return
    }
  }
  fp8moe_plan.program @p {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{has 2048 threads per block, but gfx942 has at most 1024}}
    fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(64, 32, 1) shared 0
  }
}

// -----

module {
  gpu.module @kernels {
    llvm.mlir.global internal @lds() {addr_space = 3 : i32} : !llvm.array<1024 x i8>
    llvm.func @k(%x: !llvm.ptr<1>) attributes {gpu.kernel, rocdl.kernel} {
      %0 = llvm.mlir.addressof @lds : !llvm.ptr<3>
      %1 = llvm.load volatile %0 : !llvm.ptr<3> -> i8
      llvm.store %1, %x : i8, !llvm.ptr<1>
      llvm.return
    }
  }
  fp8moe_plan.program @p {
    %x = fp8moe_plan.input "x" align 4 : memref<8xi8>
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{asks for 65024 bytes of shared memory, and 1024 are static, but gfx942 has 65536 per block}}
    fp8moe_plan.launch @kernels::@k grid(%c1, %c1, %c1) block(64, 1, 1)
        shared 65024 args(%x) : memref<8xi8>
  }
}

// -----

module {
  gpu.module @kernels {
    llvm.func @k(%x: !llvm.ptr<1>) attributes {gpu.kernel, rocdl.kernel} {
      // expected-error@+1 {{uses operation 'nvvm.read.ptx.sreg.tid.x' of NVIDIA's GPUs, but the target is gfx942 (AMD Instinct MI300X (CDNA 3)); compile the kernel for the GPU that it was written for, or rewrite it for this one}}
      %0 = nvvm.read.ptx.sreg.tid.x : i32
      llvm.store %0, %x : i32, !llvm.ptr<1>
      llvm.return
    }
  }
}

// -----

module {
  gpu.module @kernels {
    llvm.func @k(%x: !llvm.ptr<1>) attributes {gpu.kernel, rocdl.kernel} {
      // expected-error@+1 {{uses intrinsic 'llvm.nvvm.read.ptx.sreg.tid.x' of NVIDIA's GPUs}}
      %0 = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.tid.x"() : () -> i32
      llvm.store %0, %x : i32, !llvm.ptr<1>
      llvm.return
    }
  }
}

// -----

module {
  gpu.module @kernels {
    // expected-error@+1 {{uses attribute 'nvvm.kernel' of NVIDIA's GPUs}}
    llvm.func @k() attributes {gpu.kernel, nvvm.kernel} {
      llvm.return
    }
  }
}

// -----

// gfx942 lacks this AMD instruction. LLVM reports that by a fatal error, which must become a
// diagnostic instead of ending the process.
// expected-error@+1 {{code generation failed: Cannot select: intrinsic %llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4}}
module {
  gpu.module @kernels {
    llvm.func @k(%x: !llvm.ptr<1>, %a: vector<8xi32>, %b: vector<4xf32>) attributes {gpu.kernel, rocdl.kernel} {
      %c0 = llvm.mlir.constant(0 : i32) : i32
      %0 = llvm.call_intrinsic "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4"(%a, %a, %b, %c0, %c0, %c0, %c0, %c0, %c0)
          : (vector<8xi32>, vector<8xi32>, vector<4xf32>, i32, i32, i32, i32, i32, i32) -> vector<4xf32>
      llvm.store %0, %x : vector<4xf32>, !llvm.ptr<1>
      llvm.return
    }
  }
}

// -----

module {
  // expected-error@+1 {{becomes LLVM IR that is not valid: invalid value for cbsz format}}
  gpu.module @kernels {
    llvm.func @k(%x: !llvm.ptr<1>, %a: vector<8xi32>, %b: vector<4xf32>) attributes {gpu.kernel, rocdl.kernel} {
      %c0 = llvm.mlir.constant(0 : i32) : i32
      %c7 = llvm.mlir.constant(7 : i32) : i32
      %0 = llvm.call_intrinsic "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4"(%a, %a, %b, %c7, %c0, %c0, %c0, %c0, %c0)
          : (vector<8xi32>, vector<8xi32>, vector<4xf32>, i32, i32, i32, i32, i32, i32) -> vector<4xf32>
      llvm.store %0, %x : vector<4xf32>, !llvm.ptr<1>
      llvm.return
    }
  }
}
