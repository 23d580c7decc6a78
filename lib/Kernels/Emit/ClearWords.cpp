//===- ClearWords.cpp - A kernel that zeroes a buffer ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Emit/ClearWords.h"
#include "Kernels/Emit/MemoryAccess.h"

using namespace mlir;
using namespace mlir::fp8moe;

void fp8moe::buildClearWords(Location loc, gpu::GPUModuleOp module,
                             StringRef name, const TargetHooks &hooks) {
  KernelSignature signature;
  signature.pointers = signature.sizes = 1;
  signature.threads = kClearThreads;
  KernelBuilder b(loc, module, name, signature, hooks);
  Value chunks = b.getSize(0);
  b.forEachWorkTile(b.ceilDiv(chunks, kClearThreads), [&](Value workTile) {
    Value chunk = b.add(b.mul(workTile, kClearThreads), b.getThread());
    b.createIf(b.less(chunk, chunks), [&] {
      b.store(b.zeroWords(),
              b.offsetBytes(b.getPointer(0), b.mul(chunk, kVectorBytes)),
              kVectorBytes);
    });
  });
}
