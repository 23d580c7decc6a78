//===- LowerRows.cpp - Launches of operations on rows ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Rows/LowerRows.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Threads of a block.
static constexpr int64_t kThreads = 256;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

RowOperands RowOperands::get(RowOpInterface op, ProgramLowering &lowering) {
  OpFoldResult zero = lowering.getBuilder().getIndexAttr(0);
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  RowOperands operands;
  operands.problem.elementType = result.getElementType();
  operands.sizes.columns =
      lowering.getBuilder().getIndexAttr(result.getDimSize(1));
  operands.sizes.gradientPitch = zero;
  auto addInput = [&](Value tensor) {
    BufferView view = lowering.getView(tensor);
    operands.pointers.push_back(view.buffer);
    operands.problem.inputAlignment = getBufferAlignment(view);
    operands.sizes.inputRows = view.sizes[0];
    operands.sizes.inputPitch = view.strides[0];
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](GatherRowsOp gather) {
        addInput(gather.getInput());
        operands.problem.kind = RowKind::Gather;
        operands.pointers.push_back(lowering.getView(gather.getRows()).buffer);
      })
      .Case([&](SwiGLUOp swiglu) {
        addInput(swiglu.getInput());
        operands.problem.kind = RowKind::SwiGLU;
        if (!swiglu.getWeights())
          return;
        operands.problem.kind = RowKind::WeightedSwiGLU;
        operands.pointers.push_back(
            lowering.getView(swiglu.getWeights()).buffer);
      })
      .Case([&](SwiGLUGradientOp gradient) {
        addInput(gradient.getInput());
        operands.problem.kind = RowKind::SwiGLUGradient;
        BufferView view = lowering.getView(gradient.getGradient());
        operands.pointers.push_back(view.buffer);
        operands.problem.gradientAlignment = getBufferAlignment(view);
        operands.sizes.gradientPitch = view.strides[0];
      });
  // Only a gather reads other rows than that of the result.
  if (!isa<GatherRowsOp>(op))
    operands.sizes.inputRows = zero;
  operands.problem.sizes = getKnownSizes(operands.sizes);
  return operands;
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

namespace {
/// Rows of the result, and where they are written.
template <typename T> struct WrittenSizes {
  T rows, pitch;

  static constexpr auto members() {
    return std::array{&WrittenSizes::rows, &WrittenSizes::pitch};
  }
};
} // namespace

/// Chunks that a thread loads before it computes the first one.
static constexpr int64_t kChunksOfThread = 2;

/// Elements of a chunk: with more of them, registers would be for fewer
/// threads.
static int64_t getChunk(const RowSourceProblem &problem) {
  return kVectorBytes * 8 / problem.elementType.getIntOrFloatBitWidth();
}

/// A thread computes chunks of each part. Pointers are the result, then those
/// of the source; sizes likewise.
static void buildRows(KernelBuilder &b, const RowSourceProblem &problem,
                      const WrittenSizes<int64_t> &known,
                      int64_t outputAlignment) {
  unsigned parameter = 0;
  WrittenSizes<Value> sizes = bindSizes(b, known, parameter);
  const int64_t chunk = getChunk(problem);
  RowSource source(b, problem, /*firstPointer=*/1, parameter, chunk);
  Plane output{b.getPointer(0, "output"),
               problem.elementType.getIntOrFloatBitWidth() / 8, b.i64(1),
               sizes.pitch, Value()};
  output.vectorizable =
      createVectorizable(b, output.base, outputAlignment, output.elementBytes,
                         output.vectorStride, {sizes.pitch});
  Value chunksOfPart = b.divU(source.getPartColumns(), chunk);
  Value count = b.named("chunks", b.mul(sizes.rows, chunksOfPart));
  struct Chunk {
    Value index, row, column;
    SmallVector<Value> found, loaded;
  };
  constexpr int64_t kTile = kThreads * kChunksOfThread;
  b.forEachWorkTile(b.ceilDiv(count, kTile), [&](Value workTile) {
    std::array<Chunk, kChunksOfThread> chunks;
    for (auto [i, each] : llvm::enumerate(chunks)) {
      each.index =
          b.named("chunk", b.add(b.add(b.mul(workTile, kTile), b.getThread()),
                                 b.i64(i * kThreads)));
      // Threads behind the last chunk load it, too, and store nothing.
      Value existing = b.minS(each.index, b.sub(count, 1));
      each.row = b.named("row", b.divU(existing, chunksOfPart));
      each.column =
          b.named("column", b.mul(b.remU(existing, chunksOfPart), chunk));
      each.found = source.find(each.row);
    }
    for (Chunk &each : chunks)
      each.loaded = source.load(each.found, each.column);
    for (Chunk &each : chunks) {
      SmallVector<Value> computed = source.compute(each.found, each.loaded);
      KernelBuilder::Step step(b, "store_row");
      b.createIf(b.less(each.index, count), [&] {
        for (auto [part, words] : llvm::enumerate(computed))
          storeChunk(b, output,
                     b.add(each.column, b.mul(source.getPartColumns(), part)),
                     each.row, words, {b.i64(0), source.getColumns()});
      });
    }
  });
}

void fp8moe::launchRows(RowOpInterface op, Value when,
                        ProgramLowering &lowering) {
  RowOperands operands = RowOperands::get(op, lowering);
  BufferView output = lowering.getView(op->getResult(0));
  WrittenSizes<OpFoldResult> written{output.sizes[0], output.strides[0]};
  WrittenSizes<int64_t> known = getKnownSizes(written);
  int64_t alignment = getBufferAlignment(output);
  KernelLaunch launch{"rows",
                      {TypeAttr::get(operands.problem.elementType)},
                      operands.problem.getNumbers(),
                      kThreads,
                      {output.buffer},
                      listSizes(written)};
  launch.numbers.push_back(alignment);
  llvm::append_range(launch.buffers, operands.pointers);
  llvm::append_range(launch.sizes, listSizes(operands.sizes));
  OpBuilder builder = lowering.getBuilder();
  SizeBuilder size(builder, op->getLoc());
  OpFoldResult chunks =
      size.mul(written.rows, size.ceilDiv(operands.sizes.columns,
                                          getChunk(operands.problem) *
                                              operands.problem.countParts()));
  lowering.launchKernel(
      op->getLoc(), launch, size.ceilDiv(chunks, kThreads * kChunksOfThread),
      [&](KernelBuilder &b) {
        buildRows(b, operands.problem, known, alignment);
      },
      when);
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

/// Launches nothing if all readers compute the result. A reader whose kernel
/// leaves the work to others launches the kernel before them.
static LogicalResult lowerRows(Operation *op, ProgramLowering &lowering) {
  if (failed(requireKernels(op, lowering.getTarget())) ||
      failed(lowering.createResult(op->getOpResult(0))))
    return failure();
  auto rows = cast<RowOpInterface>(op);
  if (!isComputedByReaders(rows))
    launchRows(rows, /*when=*/{}, lowering);
  return success();
}

FP8MOE_DEFINE_OP_LOWERING(Row, "operations on rows", isAnyOf<RowOpInterface>,
                          lowerRows)
