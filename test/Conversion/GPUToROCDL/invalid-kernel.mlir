// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(gpu.func(fp8moe-lower-kernel-to-rocdl{chip=gfx942})))"

gpu.module @kernels {
  gpu.func @sum(%word: i32) -> i32 {
    // expected-error@+1 {{'gpu.subgroup_reduce' op is a reduction without a lowering; kernels have 'maxui' of an i32 in the whole subgroup}}
    %sum = gpu.subgroup_reduce add %word : (i32) -> i32
    gpu.return %sum : i32
  }
}

// -----

gpu.module @kernels {
  gpu.func @warp(%condition: i1) -> i32 {
    // expected-error@+1 {{'fp8moe_kernel.ballot' op has a result of 'i32'; subgroups of AMD's GPUs have 64 lanes, so it is an i64}}
    %lanes = fp8moe_kernel.ballot %condition : i32
    gpu.return %lanes : i32
  }
}

// -----

// FNUZ and OCP encodings differ: the same byte means another number on the other chip.
gpu.module @kernels {
  gpu.func @pack(%x: f32) -> i32 {
    // expected-error@+1 {{'fp8moe_kernel.pack_fp8' op has numbers of 'f8E4M3FN', but the target's instructions are for 'f8E4M3FNUZ'; use that type}}
    %word = fp8moe_kernel.pack_fp8 %x, %x, %x, %x : f8E4M3FN
    gpu.return %word : i32
  }
}

// -----

gpu.module @kernels {
  gpu.func @pack_pair(%x: f32) -> i16 {
    // expected-error@+1 {{'fp8moe_kernel.pack_fp8_pair' op has numbers of 'f8E5M2', but the target's instructions are for 'f8E5M2FNUZ'; use that type}}
    %pair = fp8moe_kernel.pack_fp8_pair %x, %x : f8E5M2
    gpu.return %pair : i16
  }
}

// -----

gpu.module @kernels {
  gpu.func @unpack(%word: i32) -> f32 {
    // expected-error@+1 {{'fp8moe_kernel.unpack_fp8' op has numbers of 'f8E4M3FN'}}
    %values:4 = fp8moe_kernel.unpack_fp8 %word : f8E4M3FN
    gpu.return %values#0 : f32
  }
}

// -----

gpu.module @kernels {
  gpu.func @mfma(%x: i64, %sums: vector<16xf32>) -> vector<16xf32> {
    // expected-error@+1 {{'fp8moe_kernel.mfma' op has numbers of 'f8E5M2'}}
    %0 = fp8moe_kernel.mfma %x, %x, %sums : f8E4M3FNUZ, f8E5M2, i64, vector<16xf32>
    gpu.return %0 : vector<16xf32>
  }
}

// -----

gpu.module @kernels {
  // expected-error@+1 {{asks for 2 resident blocks of unknown size; add 'known_block_size'}}
  gpu.func @blocks() kernel attributes {fp8moe_kernel.resident_blocks = 2 : i32} {
    gpu.return
  }
}
