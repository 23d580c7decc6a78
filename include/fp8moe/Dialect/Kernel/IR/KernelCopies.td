//===- KernelCopies.td - Copies ----------------------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_KERNEL_IR_KERNELCOPIES_TD
#define FP8MOE_DIALECT_KERNEL_IR_KERNELCOPIES_TD

include "fp8moe/Dialect/Kernel/IR/KernelDialect.td"

//===----------------------------------------------------------------------===//
// Asynchronous copies, of NVIDIA only
//===----------------------------------------------------------------------===//

class Kernel_CopyOp<string mnemonic> : Kernel_Op<mnemonic>;

def Kernel_TensorLoadOp : Kernel_CopyOp<"tensor_load"> {
  let summary = "copy a box of a tensor map to shared memory";
  let semantics = [{
    Each thread that executes it begins a copy of the map's box at `coordinates`, the
    innermost dimension first, in the map's swizzle. Elements outside of the tensor are
    zero. When bytes have come, zeros included, they count for the mbarrier's phase. A
    thread that has waited for the phase sees them. The copy reads and writes by the
    asynchronous proxy.
  }];
  let example = "fp8moe_kernel.tensor_load %shared from %map[%column, %row] signals %barrier";
  let arguments = (ins Kernel_SharedPointer:$destination,
      LLVM_DefaultPointer:$map, Variadic<I32>:$coordinates,
      Kernel_SharedPointer:$barrier);
  let assemblyFormat = [{
    $destination `from` $map `[` $coordinates `]` `signals` $barrier attr-dict
  }];
  let hasVerifier = 1;
}

def Kernel_BulkLoadOp : Kernel_CopyOp<"bulk_load"> {
  let summary = "copy bytes to shared memory";
  let semantics = [{
    As `tensor_load`, but copies `bytes` consecutive bytes, a multiple of 16. Both
    addresses are multiples of 16.
  }];
  let example = "fp8moe_kernel.bulk_load %shared from %global, %bytes signals %barrier";
  let arguments = (ins Kernel_SharedPointer:$destination,
      Kernel_GlobalPointer:$source, I32:$bytes, Kernel_SharedPointer:$barrier);
  let assemblyFormat = [{
    $destination `from` $source `,` $bytes `signals` $barrier attr-dict
  }];
}

class Kernel_TensorWriteOp<string mnemonic> : Kernel_CopyOp<mnemonic> {
  let arguments = (ins Kernel_SharedPointer:$source, LLVM_DefaultPointer:$map,
      Variadic<I32>:$coordinates, UnitAttr:$evict_first);
  let assemblyFormat = [{
    $source `to` $map `[` $coordinates `]` (`evict_first` $evict_first^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Kernel_TensorStoreOp : Kernel_TensorWriteOp<"tensor_store"> {
  let summary = "copy a box of a tensor map from shared memory";
  let semantics = [{
    Each thread that executes it begins a copy, the reverse of `tensor_load`. Elements
    outside of the tensor are not written. The copy belongs to the thread's next
    `commit_stores`. It reads by the asynchronous proxy: an `async_proxy_fence` lies between
    what threads wrote to `source` and this. With `evict_first`, the L2 cache keeps the
    bytes for a short time only.
  }];
  let example = "fp8moe_kernel.tensor_store %shared to %map[%column, %row] evict_first";
}

def Kernel_TensorAddOp : Kernel_TensorWriteOp<"tensor_add"> {
  let summary = "add a box from shared memory to a tensor map";
  let semantics = [{
    As `tensor_store`, but each `f32` is added to the one in memory, atomically.
  }];
  let example = "fp8moe_kernel.tensor_add %shared to %map[%column, %row]";
}

def Kernel_CommitStoresOp : Kernel_CopyOp<"commit_stores"> {
  let summary = "end a group of stores";
  let semantics = [{
    The thread's `tensor_store` and `tensor_add` since the last group are a group. It may
    be empty, and counts for `wait_stores_read` all the same.
  }];
  let example = "fp8moe_kernel.commit_stores";
}

def Kernel_WaitStoresReadOp : Kernel_CopyOp<"wait_stores_read"> {
  let summary = "wait until groups of stores have read shared memory";
  let semantics = [{
    The thread waits until at most `pending` of its groups, the last ones, still read
    shared memory. That of the others may be written again.
  }];
  let example = "fp8moe_kernel.wait_stores_read 1";
  let arguments = (ins I32Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Kernel_TensorPrefetchOp : Kernel_CopyOp<"tensor_prefetch"> {
  let summary = "fetch a box of a tensor map to the L2 cache";
  let semantics = [{
    Changes nothing but time.
  }];
  let example = "fp8moe_kernel.tensor_prefetch %map[%column, %row]";
  let arguments = (ins LLVM_DefaultPointer:$map, Variadic<I32>:$coordinates);
  let assemblyFormat = "$map `[` $coordinates `]` attr-dict";
  let hasVerifier = 1;
}

def Kernel_MapPrefetchOp : Kernel_CopyOp<"map_prefetch"> {
  let summary = "fetch a tensor map";
  let semantics = [{
    Fetches the map itself, not what it describes. Changes nothing but time.
  }];
  let example = "fp8moe_kernel.map_prefetch %map";
  let arguments = (ins LLVM_DefaultPointer:$map);
  let assemblyFormat = "$map attr-dict";
}

//===----------------------------------------------------------------------===//
// Accesses of threads, of NVIDIA only
//===----------------------------------------------------------------------===//

def Kernel_SectorPrefetchOp : Kernel_CopyOp<"sector_prefetch"> {
  let summary = "fetch a sector to the L2 cache";
  let semantics = [{
    Fetches the 32 bytes around the address, the smallest unit of the cache. Changes
    nothing but time. Later writes go through that cache, so a kernel may fetch what
    earlier kernels still write.
  }];
  let example = "fp8moe_kernel.sector_prefetch %pointer";
  let arguments = (ins Kernel_GlobalPointer:$pointer);
  let assemblyFormat = "$pointer attr-dict";
}

def Kernel_Words : FixedVectorOfLengthAndType<[4], [I32]>,
    BuildableType<"::mlir::VectorType::get(4, $_builder.getI32Type())">;

def Kernel_LoadWordsOp : Kernel_CopyOp<"load_words"> {
  let summary = "load four words that other blocks write";
  let semantics = [{
    Four words from an address that is a multiple of 16. Each word is an atomic load of
    its own at the scope of the device. Without `acquire`, a load orders nothing. With it,
    the thread sees what the word's writer released before it.
  }];
  let example = [{%0 = fp8moe_kernel.load_words %pointer
    %1 = fp8moe_kernel.load_words acquire %pointer}];
  let arguments = (ins UnitAttr:$acquire, Kernel_GlobalPointer:$pointer);
  let results = (outs Kernel_Words:$words);
  let assemblyFormat = "(`acquire` $acquire^)? $pointer attr-dict";
}

def Kernel_AddFloatsOp : Kernel_CopyOp<"add_floats"> {
  let summary = "add four numbers to those in memory";
  let semantics = [{
    Adds each `f32` to the one at the address, a multiple of 16, atomically at the scope of
    the device. Orders nothing and does not wait.
  }];
  let example = "fp8moe_kernel.add_floats %pointer, %a, %b, %c, %d";
  let arguments = (ins Kernel_GlobalPointer:$pointer, Variadic<F32>:$values);
  let assemblyFormat = "$pointer `,` $values attr-dict";
  let hasVerifier = 1;
}

def Kernel_StoreMatricesOp : Kernel_CopyOp<"store_matrices"> {
  let summary = "store four matrices of a warp to shared memory";
  let semantics = [{
    The warp, which is converged, has four matrices of 8x8 elements of 16 bits, word m of a
    lane in matrix m. Lane i holds elements 2 * (i mod 4) and the next of row i / 4. Lane i
    names the address, a multiple of 16, of row i mod 8 of matrix i / 8.
  }];
  let example = "fp8moe_kernel.store_matrices %pointer, %a, %b, %c, %d";
  let arguments = (ins Kernel_SharedPointer:$pointer, Variadic<I32>:$words);
  let assemblyFormat = "$pointer `,` $words attr-dict";
  let hasVerifier = 1;
}

#endif // FP8MOE_DIALECT_KERNEL_IR_KERNELCOPIES_TD
