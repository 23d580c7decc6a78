//===- MainLoop.cpp - Products of a tile ----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A stage of the contraction takes two phases, one for each half of the rows:
//
//   read R0, C0, C1 | refill R1 of the next stage     | multiply R0 x C0, C1
//   read R1         | refill R0, C0, C1 of this stage | multiply R1 x C0, C1
//
// A half of a stage is refilled in the phase after its read, so it arrives two
// phases before the next read, and two stages are enough. A barrier stands
// before and behind the products. With eight waves, those of the second half of
// the rows run one barrier behind: while four read and load, the four that
// share their SIMDs multiply.
//
// A wave waits for its own loads before the barrier: for all but those that
// are read later than in the next phase. Where loads do not go to shared
// memory directly they stay in registers for a stage.
//
// Lines that are shifted are masked in registers on their way, once and not
// each time that they are read. Only the last stages need that, which have a
// loop of their own: behind a branch in the middle of a stage LLVM finds better
// places for products than between the barriers.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/Kernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr MatmulHalf kFirst[] = {kRows0, kColumns0, kColumns1};
static constexpr MatmulHalf kAll[] = {kRows0, kColumns0, kColumns1, kRows1};

namespace {
using Fragments = SmallVector<MfmaFragment>;

class MainLoop {
public:
  MainLoop(CDNAMatmulKernel &kernel, const CDNATile &tile)
      : kernel(kernel), b(kernel.b), tile(tile), operands(kernel, tile) {
    if (kernel.problem.hasBlockScales())
      blockScales.emplace(kernel, tile);
  }

  CDNAAccumulators build();

private:
  /// Values in registers on their way to shared memory, for each half without
  /// direct loads in the order of kAll.
  using Staged = SmallVector<Value>;

  /// Whether waves that share a SIMD take turns.
  bool isPingPong() const { return kernel.config.getWaves() == 8; }
  int64_t stepBytes() const { return kernel.config.stepBytes; }
  Staged createPrologue();
  void refill(ArrayRef<MatmulHalf> halves, Value stage, Value step,
              MutableArrayRef<Value> staged, bool masksStaged);
  void storeStaged(MatmulHalf half, Value stage, Value step,
                   MutableArrayRef<Value> staged, bool isMasked);
  MutableArrayRef<Value> getStaged(MatmulHalf half,
                                   MutableArrayRef<Value> staged);
  SmallVector<Value> loadScales(Value step);
  void setScales(Fragments &fragments, ArrayRef<Value> &scales);
  void maskIfNeeded(Value step, ArrayRef<Fragments *> all);
  void multiply(MutableArrayRef<Value> accumulators, const Fragments &rows,
                const Fragments &columns);
  void endReads(int64_t others = 0);
  void endProducts();
  void shiftWaves(int64_t waveRow);
  int64_t getLoadsAhead();
  Value createMaskedBegin(Value end);
  SmallVector<Value> multiplyStages(Value begin, Value end, ValueRange init,
                                    bool masksStaged);
  SmallVector<Value> multiplyStage(Value step, ValueRange carried,
                                   bool masksStaged);
  /// The sums of a quadrant of the tile: rows of one half, columns of one.
  int64_t getQuadrantSums() const {
    return kernel.config.getInstructions(/*areRows=*/true) *
           kernel.config.getInstructions(/*areRows=*/false);
  }
  int64_t getSums() const { return 4 * getQuadrantSums(); }

  CDNAMatmulKernel &kernel;
  KernelBuilder &b;
  const CDNATile &tile;
  CDNAOperands operands;
  std::optional<CDNABlockScales> blockScales;
  /// Scales of a stage.
  size_t numScales = 0;
};
} // namespace

/// Loads that may be under way when a phase ends: four halves, the last that
/// were begun.
int64_t MainLoop::getLoadsAhead() {
  int64_t loads = 0;
  for (MatmulHalf half : kAll)
    loads += operands.countLoads(half);
  return loads;
}

/// The fragments that were read have arrived in registers, and the bytes that
/// the next phase reads have arrived in shared memory, for all waves. `others`
/// are loads to registers that may be under way besides.
void MainLoop::endReads(int64_t others) {
  kernel::SchedulingFenceOp::create(b);
  IntegerAttr loads;
  if (operands.hasDirect())
    loads = b.getI32IntegerAttr(getLoadsAhead() + others);
  kernel::WaitAccessesOp::create(b, loads, /*shared=*/0);
  kernel::ExecutionBarrierOp::create(b);
}

void MainLoop::endProducts() { kernel::ExecutionBarrierOp::create(b); }

/// Lets the waves of one half of the rows pass a barrier more.
void MainLoop::shiftWaves(int64_t waveRow) {
  if (isPingPong())
    b.createIf(b.equal(kernel.waveRow, waveRow),
               [&] { kernel::ExecutionBarrierOp::create(b); });
}

MutableArrayRef<Value> MainLoop::getStaged(MatmulHalf half,
                                           MutableArrayRef<Value> staged) {
  int64_t first = 0;
  for (MatmulHalf other : kAll) {
    if (other == half)
      break;
    first += operands.countStaged(other);
  }
  return staged.slice(first, operands.countStaged(half));
}

/// Fills half a stage with what was loaded `step` bytes into the contraction.
/// `isMasked`: it may have bytes that are not the tile's.
void MainLoop::storeStaged(MatmulHalf half, Value stage, Value step,
                           MutableArrayRef<Value> staged, bool isMasked) {
  SmallVector<Value> chunks = operands.combine(half, getStaged(half, staged));
  if (isMasked)
    operands.mask(half, step, chunks);
  operands.storeToShared(half, stage, chunks);
}

/// Fills halves of a stage with what is `step` bytes into the contraction:
/// directly, or from registers, which then get what a stage later follows.
void MainLoop::refill(ArrayRef<MatmulHalf> halves, Value stage, Value step,
                      MutableArrayRef<Value> staged, bool masksStaged) {
  for (MatmulHalf half : halves) {
    if (operands.isDirect(half)) {
      operands.loadToShared(half, stage, step);
      continue;
    }
    storeStaged(half, stage, step, staged, masksStaged);
    llvm::copy(operands.load(half, b.add(step, stepBytes())),
               getStaged(half, staged).begin());
  }
}

/// Two stages, but for the second half of the rows of the second one, which the
/// loop loads; without direct loads, registers hold what follows.
MainLoop::Staged MainLoop::createPrologue() {
  Value zero = b.i32(0), second = b.i32(kernel.config.getStageBytes());
  Value step = b.i32(stepBytes());
  // Before all loads to registers, whose waits then are for these, too.
  for (MatmulHalf half : kAll)
    if (operands.isDirect(half))
      operands.loadToShared(half, zero, zero);
  for (MatmulHalf half : kFirst)
    if (operands.isDirect(half))
      operands.loadToShared(half, second, step);
  Staged staged;
  if (operands.hasStaged()) {
    Staged stages[2];
    const Value starts[] = {zero, step};
    auto load = [&](Staged &to, ArrayRef<MatmulHalf> halves, Value at) {
      for (MatmulHalf half : halves)
        if (!operands.isDirect(half))
          llvm::append_range(to, operands.load(half, at));
    };
    for (auto [stage, at] : llvm::zip_equal(stages, starts))
      load(stage, kAll, at);
    kernel::SchedulingFenceOp::create(b);
    load(staged, kFirst, b.i32(2 * stepBytes()));
    llvm::append_range(staged, getStaged(kRows1, stages[1]));
    kernel::SchedulingFenceOp::create(b);
    for (MatmulHalf half : kAll) {
      if (operands.isDirect(half))
        continue;
      bool isMasked = kernel.config.shiftsLines;
      storeStaged(half, zero, zero, stages[0], isMasked);
      if (!(half == kRows1))
        storeStaged(half, second, step, stages[1], isMasked);
    }
  }
  endReads();
  return staged;
}

/// Begins to load the scales of a stage, in the order of kAll: behind the
/// refill of what is read first and before that of the second half of the rows,
/// between which endReads() counts them.
SmallVector<Value> MainLoop::loadScales(Value step) {
  SmallVector<Value> scales;
  if (blockScales)
    for (MatmulHalf half : kAll)
      llvm::append_range(scales, blockScales->load(half, step));
  return scales;
}

/// Takes the first of `scales` for fragments, if there are scales.
void MainLoop::setScales(Fragments &fragments, ArrayRef<Value> &scales) {
  if (blockScales)
    for (MfmaFragment &fragment : fragments)
      fragment.scale = blockScales->getWord(scales.consume_front());
}

/// Zeroes bytes of fragments outside of the tile's contraction. Only its first
/// and last stage have some. Lines that `shiftsLines` moves were masked on the
/// way to shared memory.
void MainLoop::maskIfNeeded(Value step, ArrayRef<Fragments *> all) {
  if (kernel.config.shiftsLines)
    return;
  Value hasMask = operands.createHasMask(step);
  if (!hasMask)
    return;
  auto collect = [&] {
    SmallVector<Value> chunks;
    for (Fragments *fragments : all)
      for (const MfmaFragment &fragment : *fragments)
        chunks.append(std::begin(fragment.chunks), std::end(fragment.chunks));
    return chunks;
  };
  SmallVector<Value> before = collect();
  // Without the unlikely branch LLVM hoists what both branches of a stage need
  // in front of the first one, into registers that 256x256 does not have.
  SmallVector<Value> masked = b.createIf(
      LLVM::ExpectOp::create(b, hasMask, b.i1(false)),
      [&] {
        // Without this fence LLVM masks every stage, to save the branch.
        kernel::SchedulingFenceOp::create(b);
        for (Fragments *fragments : all)
          operands.mask(step, *fragments);
        return collect();
      },
      [&] { return before; });
  ArrayRef<Value> rest = masked;
  for (Fragments *fragments : all)
    for (MfmaFragment &fragment : *fragments)
      for (Value &chunk : fragment.chunks)
        chunk = rest.consume_front();
}

/// Adds the products of some rows and columns: part after part, so that sums
/// that depend on each other are not neighbours.
void MainLoop::multiply(MutableArrayRef<Value> accumulators,
                        const Fragments &rows, const Fragments &columns) {
  KernelBuilder::Step step(b, "multiply_fragments");
  for (int64_t part : llvm::seq(kernel.mfma.getParts()))
    for (auto [i, row] : llvm::enumerate(rows))
      for (auto [j, column] : llvm::enumerate(columns)) {
        Value &sum = accumulators[i * columns.size() + j];
        sum = kernel.mfma.create(b, column, row, sum, part);
      }
}

/// The first of the stages that store to shared memory what is behind all that
/// are full: the loop stores up to two stages ahead.
Value MainLoop::createMaskedBegin(Value end) {
  Value stages = b.roundUp(end, stepBytes());
  return b.maxS(b.sub(stages, 3 * stepBytes()), 0);
}

/// Reads, refills and multiplies one stage; returns what the next one needs:
/// sums, where it is in shared memory, its scales, and what is in registers.
SmallVector<Value> MainLoop::multiplyStage(Value step, ValueRange carried,
                                           bool masksStaged) {
  SmallVector<Value> sums(carried.take_front(getSums()));
  Value stage = carried[getSums()];
  ValueRange loaded = carried.drop_front(getSums() + 1);
  SmallVector<Value> stageScales(loaded.take_front(numScales));
  ArrayRef<Value> scalesLeft = stageScales;
  SmallVector<Value> staged(loaded.drop_front(numScales));
  Value next = b.sub(b.i32(kernel.config.getStageBytes()), stage);
  auto getSumsOf = [&](int64_t quadrant) {
    return MutableArrayRef(sums).slice(quadrant * getQuadrantSums(),
                                       getQuadrantSums());
  };

  Fragments rows = operands.read(kRows0, stage);
  Fragments columns0 = operands.read(kColumns0, stage);
  Fragments columns1 = operands.read(kColumns1, stage);
  for (Fragments *fragments : {&rows, &columns0, &columns1})
    setScales(*fragments, scalesLeft);
  SmallVector<Value> nextScales = loadScales(b.add(step, stepBytes()));
  refill(kRows1, next, b.add(step, stepBytes()), staged, masksStaged);
  endReads(/*others=*/numScales);
  maskIfNeeded(step, {&rows, &columns0, &columns1});
  kernel::SetPriorityOp::create(b, 1);
  multiply(getSumsOf(0), rows, columns0);
  multiply(getSumsOf(1), rows, columns1);
  kernel::SetPriorityOp::create(b, 0);
  endProducts();

  rows = operands.read(kRows1, stage);
  setScales(rows, scalesLeft);
  refill(kFirst, stage, b.add(step, 2 * stepBytes()), staged, masksStaged);
  endReads();
  maskIfNeeded(step, {&rows});
  kernel::SetPriorityOp::create(b, 1);
  multiply(getSumsOf(2), rows, columns0);
  multiply(getSumsOf(3), rows, columns1);
  kernel::SetPriorityOp::create(b, 0);
  endProducts();

  sums.push_back(next);
  sums.append(nextScales);
  sums.append(staged);
  return sums;
}

SmallVector<Value> MainLoop::multiplyStages(Value begin, Value end,
                                            ValueRange init, bool masksStaged) {
  return b.createFor(begin, end, stepBytes(), init,
                     [&](Value step, ValueRange carried) {
                       return multiplyStage(step, carried, masksStaged);
                     });
}

CDNAAccumulators MainLoop::build() {
  SmallVector<Value> scales = loadScales(b.i32(0));
  numScales = scales.size();
  Staged staged = createPrologue();
  shiftWaves(1);

  // Minus zero plus a product is the product, and plus what is accumulated
  // into is that, whatever its sign.
  VectorType type = kernel.mfma.getAccumulatorType(b);
  float start = kernel.problem.accumulates ? -0.0f : 0.0f;
  Value none = arith::ConstantOp::create(
      b, DenseElementsAttr::get(type, b.getF32FloatAttr(start)));
  SmallVector<Value> carried(getSums(), none);
  carried.push_back(b.i32(0));
  llvm::append_range(carried, scales);
  llvm::append_range(carried, staged);

  // LLVM must not know how many stages there are. It would unroll a loop of
  // few: its copies take more registers than there are, and the waits count
  // scales of the next stage, whose loads would be dropped in the last copy, as
  // nobody needs them.
  Value begin = b.i32(0),
        end = kernel::OpaqueOp::create(b, /*uniform=*/true, tile.endBytes);
  if (kernel.config.shiftsLines) {
    Value masked =
        kernel::OpaqueOp::create(b, /*uniform=*/true, createMaskedBegin(end));
    carried = multiplyStages(begin, masked, carried, /*masksStaged=*/false);
    begin = masked;
  }
  carried = multiplyStages(begin, end, carried,
                           /*masksStaged=*/kernel.config.shiftsLines);
  shiftWaves(0);
  // Shared memory is free for something else.
  kernel::WaitAccessesOp::create(b, b.getI32IntegerAttr(0), /*shared=*/0);
  kernel::ExecutionBarrierOp::create(b);
  carried.resize(getSums());
  return carried;
}

CDNAAccumulators fp8moe::createCDNAMainLoop(CDNAMatmulKernel &kernel,
                                            const CDNATile &tile) {
  return MainLoop(kernel, tile).build();
}
