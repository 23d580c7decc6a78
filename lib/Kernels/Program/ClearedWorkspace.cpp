//===- ClearedWorkspace.cpp - Memory of zeros for kernels -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Program/ClearedWorkspace.h"

#include "Kernels/Emit/MemoryAccess.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Blocks that clear words at most; any number computes the same.
static constexpr int64_t kMaxClearBlocks = 1024;
/// Threads of a block, which zeroes 16 bytes with each of them at a time.
static constexpr int64_t kClearThreads = 256;

/// Builds kernel `name`: its arguments are a buffer, its size in chunks of 16
/// bytes, and the number of blocks.
static void buildClearWords(Location loc, gpu::GPUModuleOp module,
                            StringRef name, const TargetInfo &target) {
  KernelSignature signature;
  signature.pointers = signature.sizes = 1;
  signature.threads = kClearThreads;
  KernelBuilder b(loc, module, name, signature, target);
  Value chunks = b.getSize(0);
  b.forEachWorkTile(b.ceilDiv(chunks, kClearThreads), [&](Value workTile) {
    Value chunk = b.add(b.mul(workTile, kClearThreads), b.getThread());
    b.createIf(b.less(chunk, chunks), [&] {
      b.store(
          b.zeroWords(),
          b.offsetBytes(b.getPointer(0, "words"), b.mul(chunk, kVectorBytes)),
          kVectorBytes);
    });
  });
}

Value fp8moe::createWordWorkspace(ImplicitLocOpBuilder &b,
                                  const HostSize &words, int64_t alignment) {
  std::optional<int64_t> known = words.getKnown();
  SmallVector<Value> dynamicSizes;
  if (!known)
    dynamicSizes.push_back(words.getValue(b));
  auto type =
      MemRefType::get(known.value_or(ShapedType::kDynamic), b.getI32Type());
  return plan::WorkspaceOp::create(b, type, dynamicSizes, ValueRange(),
                                   alignment)
      .getBuffer();
}

Value fp8moe::createClearedWorkspace(ImplicitLocOpBuilder &b,
                                     ProgramLowering &lowering,
                                     const HostSize &words, int64_t alignment,
                                     Value when) {
  Value buffer = createWordWorkspace(b, words, alignment);
  HostSize chunks = words / HostSize(kVectorBytes / kWordBytes);
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      "clear_words", {},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetInfo &target) {
        buildClearWords(b.getLoc(), module, name, target);
      });
  HostSize blocks = minOf(ceilDiv(chunks, HostSize(kClearThreads)),
                          HostSize(kMaxClearBlocks));
  Value numBlocks = blocks.getValue(b), one = HostSize(1).getValue(b);
  plan::LaunchOp::create(b, kernel, ValueRange{numBlocks, one, one},
                         {kClearThreads, 1, 1}, /*sharedBytes=*/0,
                         ValueRange{buffer, chunks.getValue(b), numBlocks},
                         when);
  return buffer;
}
