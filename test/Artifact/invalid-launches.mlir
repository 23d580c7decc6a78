// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics --test-fp8moe-emit="chip=gfx942 kind=hsaco output=%t"

module {
  gpu.module @kernels {
    llvm.func @k() attributes {gpu.kernel, rocdl.kernel} {
      llvm.return
    }
  }
  fp8moe_plan.program @p {
    %c2 = arith.constant 2 : index
    // expected-error@+1 {{'fp8moe_plan.launch' op launches clusters of blocks, which gfx942 does not have; only targets of kind 'nvvm' do, give this target a launch without}}
    fp8moe_plan.launch @kernels::@k grid(%c2, %c2, %c2) block(64, 1, 1) shared 0 cluster(2, 1, 1)
  }
}

// -----

module {
  gpu.module @kernels {
    llvm.func @k(%map: !llvm.ptr {llvm.byval = !llvm.array<128 x i8>}) attributes {gpu.kernel, rocdl.kernel} {
      llvm.return
    }
  }
  fp8moe_plan.program @p {
    %c2 = arith.constant 2 : index
    %x = fp8moe_plan.input "x" align 16 : memref<64xf32>
    %map = fp8moe_plan.tensor_map %x sizes(%c2) box(64) swizzle 0 : memref<64xf32>
    // expected-error@+1 {{'fp8moe_plan.launch' op passes a tensor map, which gfx942 does not have}}
    fp8moe_plan.launch @kernels::@k grid(%c2, %c2, %c2) block(64, 1, 1) shared 0 args(%map) : !fp8moe_plan.tensor_map
  }
}

// -----

// A tensor map that no launch takes is no error on AMD.
module {
  gpu.module @kernels {
    llvm.func @k() attributes {gpu.kernel, rocdl.kernel} {
      llvm.return
    }
  }
  fp8moe_plan.program @p {
    %c2 = arith.constant 2 : index
    %x = fp8moe_plan.input "x" align 16 : memref<64xf32>
    %map = fp8moe_plan.tensor_map %x sizes(%c2) box(64) swizzle 0 : memref<64xf32>
    fp8moe_plan.launch @kernels::@k grid(%c2, %c2, %c2) block(64, 1, 1) shared 0 cooperative
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
    %c2 = arith.constant 2 : index
    // expected-error@+1 {{'fp8moe_plan.launch' op lets blocks begin before earlier kernels have ended, which gfx942 does not have; only targets of kind 'nvvm' do, give this target a launch without}}
    fp8moe_plan.launch @kernels::@k grid(%c2, %c2, %c2) block(64, 1, 1) shared 0 programmatic
  }
}
