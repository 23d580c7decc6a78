//===- RegisterResidentKernel.cpp - Slices held in registers --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Input and output are contiguous along the rows. A team of threads takes a
// slice (the rows of one column of one segment), loads all of it into
// registers, reduces the amax, and quantizes from registers: the input is read
// once. A team is a part of a subgroup, or several subgroups, which reduce
// through shared memory.
//
//   rows     low   16 aligned bytes of the output each                high
//            | edge | chunk 0 | chunk 1 | ... | chunk T | chunk .. | edge |
//   thread     0..15     0         1              0         1 ..    0..15
//              (an element each)
//
// Thread t of T holds chunks t, t + T, t + 2T, ..., and an element of each
// edge. An edge is the rows that share a chunk with another slice. Chunks are
// aligned in the output wherever a column begins, even if the pitch of columns
// is no multiple of a chunk. If they are not aligned in the input as well, the
// slice is read twice, element by element. Of slices that exceed the team's
// registers, the excess is read twice.
//
// Where 16-byte accesses may be misaligned, chunks are counted from `low` on,
// and the last one is shifted back to end with the slice. It overlaps the chunk
// before, and both store the same bytes there. There are no edges, and only
// slices shorter than a chunk are processed by elements.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeKernel.h"
#include "Kernels/Quantize/QuantizeLaunch.h"
#include "Kernels/Quantize/RegisterResident/RegisterResidentTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Values that are converted together.
constexpr int64_t kPack = 4;
/// Upper bound on the rows of a slice in registers, which are counted in i32
/// without overflow.
constexpr int64_t kLongestHeld = int64_t(1) << 30;

/// A row of a slice's edge, and whether it exists (i1).
struct Element {
  Value row, isInside;
};

class RegisterResidentBuilder {
public:
  RegisterResidentBuilder(QuantizeKernel &kernel, RegisterResidentTileAttr tile)
      : kernel(kernel), b(kernel.b), tile(tile),
        team{Value(), tile.getThreads() / tile.getColumns()} {}

  void build();

private:
  int64_t getInputBytes() const { return kernel.math.getInputBytes(); }
  /// Returns the elements from one of a thread's chunks to its next.
  int64_t getStep() const { return team.threads * kOutputChunk; }
  int64_t getHeldRows() const { return tile.getChunks() * getStep(); }
  /// Returns the rounds of chunks in registers that fill the whole team for
  /// every possible length.
  int64_t countFullRounds() const {
    int64_t known = getKnownRows();
    return ShapedType::isDynamic(known) ? 0 : known / getStep();
  }
  int64_t getAlignment(int64_t elementBytes) const {
    return isUnaligned() ? elementBytes : kVectorBytes;
  }
  /// Returns the rows of a slice if static, else kDynamic.
  int64_t getKnownRows() const {
    return kernel.problem.jagged ? ShapedType::kDynamic
                                 : kernel.problem.sizes.reduction;
  }

  bool isUnaligned() const {
    return b.getTarget().has(Feature::UnalignedVectors);
  }

  bool mayBeShifted(const Plane &inputPlane, const Plane &outputPlane) const;
  Value createAlignTogether();

  /// Computes the thread's index in its team. Returns the team's index in the
  /// block.
  Value enterTeam();
  void forEachColumn(Value strip, Value teamInBlock, int64_t strips,
                     function_ref<void(Value)> body);
  void enterColumn(Value index);
  void quantizeColumn(Value index);
  void zeroColumn(Value index);
  IndexRange enterSlice(IndexRange rows, const Plane &inputPlane,
                        const Plane &outputPlane);
  void quantizeHeld(IndexRange rows);
  void quantizeTwice(IndexRange rows);
  void zeroFill(IndexRange rows, Value isAligned);

  /// Returns the rows in whole chunks, or all rows where chunks may overlap.
  IndexRange getChunks(IndexRange rows);
  /// Returns the first row of the chunk counted from `row` on.
  Value placeChunk(Value row);
  /// Loads the thread's chunk of round `round` to registers, if it has one.
  SmallVector<Value> loadHeld(Value first, Value pointer, int64_t round,
                              IndexRange chunks);
  Value getAddress(Value pointer) {
    return LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
  }
  Value getInputPointer(Value row);
  Value getOutputPointer(Value row);

  SmallVector<Value> loadChunk(Value pointer);
  void storeChunk(Value row, ArrayRef<Value> chunk, ArrayRef<Value> scales);
  /// Whether slices may have more chunks than registers hold.
  bool mayHaveLaterChunks() const {
    int64_t known = getKnownRows();
    return ShapedType::isDynamic(known) || known > getHeldRows();
  }

  /// Returns the thread's rows in the edges before and after the chunks, at
  /// most kPack.
  SmallVector<Element> getEdges(IndexRange rows, IndexRange chunks);
  Value loadElements(ArrayRef<Element> elements);
  void storeElements(ArrayRef<Element> elements, Value words,
                     ArrayRef<Value> scales);

  Value combineTeam(Value magnitude);
  Value createScale(Value magnitude);

  QuantizeKernel &kernel;
  KernelBuilder &b;
  RegisterResidentTileAttr tile;
  Team team;
  /// Shared memory with a magnitude for each subgroup. Null when a team is
  /// within a subgroup.
  Value magnitudeMemory;

  /// The index after the last column.
  Value endColumn;
  /// The current slice. Its rows are counted from `input` and `output`, which
  /// are aligned when chunks can be. `hasColumn` is false for a team past the
  /// last column; its slice has no rows.
  SegmentView segment;
  Value column, hasColumn, input, output;
  /// Whether the slice may begin within a chunk, and whether chunks are aligned
  /// (i1): in the output, and in the input as well.
  bool hasHead;
  Value outputAligned, bothAligned;
  /// Rows of the segment (i32), for slices in registers.
  Value length;
};

} // namespace

Value RegisterResidentBuilder::enterTeam() {
  bool isTeam = tile.getColumns() == 1;
  team.thread = isTeam ? b.getThread() : b.remU(b.getThread(), team.threads);
  return isTeam ? b.i64(0) : b.divU(b.getThread(), team.threads);
}

void RegisterResidentBuilder::build() {
  Value teamInBlock = enterTeam();
  endColumn = kernel.sizes.parallel;
  if (int64_t bytes = register_resident::getSharedBytes(
          team.threads, tile.getThreads(), b.getSubgroupSize()))
    magnitudeMemory = b.allocateShared(bytes, "magnitudes");
  Value strips = b.ceilDiv(kernel.sizes.parallel,
                           register_resident::getWorkTileColumns(tile));
  Value workTiles = b.mul(kernel.sizes.segments, strips);
  Value remainderWorkTiles =
      kernel.problem.jagged
          ? b.ceilDiv(strips, register_resident::kRemainderStrips)
          : b.i64(0);
  bool isOnlySegment =
      !kernel.problem.jagged && kernel.problem.sizes.segments == 1;
  b.forEachWorkTile(b.add(workTiles, remainderWorkTiles), [&](Value workTile) {
    auto quantizeWorkTile = [&] {
      segment = kernel.createSegment(isOnlySegment ? b.i64(0)
                                                   : b.divU(workTile, strips));
      forEachColumn(isOnlySegment ? workTile : b.remU(workTile, strips),
                    teamInBlock,
                    /*strips=*/1, [&](Value index) { quantizeColumn(index); });
    };
    if (!kernel.problem.jagged) {
      quantizeWorkTile();
      return;
    }
    b.createIf(b.less(workTile, workTiles), quantizeWorkTile, [&] {
      segment = kernel.createSegment(kernel.sizes.segments);
      // Mostly there are no such rows.
      b.createIf(b.less(segment.zeroRows.low, segment.zeroRows.high), [&] {
        forEachColumn(b.mul(b.sub(workTile, workTiles),
                            register_resident::kRemainderStrips),
                      teamInBlock, register_resident::kRemainderStrips,
                      [&](Value index) { zeroColumn(index); });
      });
    });
  });
}

/// Calls `body` for the team's columns in `strips` strips from `strip` on.
void RegisterResidentBuilder::forEachColumn(Value strip, Value teamInBlock,
                                            int64_t strips,
                                            function_ref<void(Value)> body) {
  Value first = b.add(b.mul(strip, register_resident::getWorkTileColumns(tile)),
                      teamInBlock);
  if (tile.getRounds() * strips == 1) {
    body(first);
    return;
  }
  b.createFor(
      b.i64(0), b.i64(strips * register_resident::getWorkTileColumns(tile)),
      tile.getColumns(), [&](Value offset) { body(b.add(first, offset)); });
}

/// Whether output columns may be misaligned on targets that need aligned
/// vectors. Their pitch is then neither known nor promised to be a multiple of
/// a chunk. An address without promise alone does not count: mostly it is
/// aligned, and slices need no edges for it.
bool RegisterResidentBuilder::mayBeShifted(const Plane &inputPlane,
                                           const Plane &outputPlane) const {
  APInt pitch;
  bool isWhole =
      kernel.problem.outputAlignment % kOutputChunk == 0 ||
      (matchPattern(outputPlane.otherStride, m_ConstantInt(&pitch)) &&
       pitch.getSExtValue() % kOutputChunk == 0);
  return !isUnaligned() && !isWhole && inputPlane.isContiguous() &&
         outputPlane.isContiguous();
}

/// Makes `rows` of `column` the current slice. Returns them, counted from its
/// origin.
IndexRange RegisterResidentBuilder::enterSlice(IndexRange rows,
                                               const Plane &inputPlane,
                                               const Plane &outputPlane) {
  Value origin = kernel.getFirstChunk(rows);
  hasHead = kernel.problem.jagged;
  outputAligned = outputPlane.vectorizable;
  bothAligned = b.bitAnd(inputPlane.vectorizable, outputAligned);
  if (mayBeShifted(inputPlane, outputPlane)) {
    // The chunk of the output that holds the first row.
    Value first = createElementPointer(b, outputPlane, rows.low, column);
    origin = b.sub(rows.low, b.bitAnd(getAddress(first), kVectorBytes - 1));
    hasHead = true;
    outputAligned = b.i1(true);
    bothAligned = createAlignTogether();
  }
  // Loads do not ask whether there is a column.
  Value existing = isUnaligned() ? b.minS(column, b.sub(endColumn, 1)) : column;
  input = createElementPointer(b, inputPlane, origin, existing);
  output = createElementPointer(b, outputPlane, origin, column);
  return {b.sub(rows.low, origin),
          b.select(hasColumn, b.sub(rows.high, origin), 0)};
}

/// i1: where a chunk of the output is aligned, the same rows of the input are,
/// too; of all columns of the segment, as teams must not part.
Value RegisterResidentBuilder::createAlignTogether() {
  int64_t elements = kVectorBytes / getInputBytes();
  Value together = b.i1(true);
  auto require = [&](Value input, Value output) {
    Value distance = b.bitAnd(b.sub(input, output), elements - 1);
    together = b.bitAnd(together, b.equal(distance, 0));
  };
  require(b.divU(getAddress(segment.input), getInputBytes()),
          getAddress(segment.output));
  require(kernel.sizes.inParallel, kernel.sizes.outParallel);
  return together;
}

void RegisterResidentBuilder::enterColumn(Value index) {
  column = index;
  hasColumn = b.less(column, endColumn);
}

void RegisterResidentBuilder::quantizeColumn(Value index) {
  enterColumn(index);
  Plane inputPlane = kernel.getInputPlane(segment, Along::Rows);
  Plane outputPlane = kernel.getOutputPlane(segment, Along::Rows);
  IndexRange rows = enterSlice(segment.rows, inputPlane, outputPlane);
  Value numRows = b.sub(segment.rows.high, segment.rows.low);
  Value isHeld = b.bitAnd(bothAligned, b.lessEqual(numRows, kLongestHeld));
  if (isUnaligned())
    isHeld = b.bitAnd(isHeld, b.lessEqual(b.i64(kOutputChunk), numRows));
  length = b.narrow(numRows);
  b.createIf(
      isHeld, [&] { quantizeHeld({b.narrow(rows.low), b.narrow(rows.high)}); },
      [&] { quantizeTwice(rows); });
  if (kernel.problem.outputPadding > 1)
    zeroColumn(index);
}

void RegisterResidentBuilder::zeroColumn(Value index) {
  enterColumn(index);
  Plane outputPlane = kernel.getOutputPlane(segment, Along::Rows);
  IndexRange rows =
      enterSlice(segment.zeroRows, kernel.getInputPlane(segment, Along::Rows),
                 outputPlane);
  zeroFill(rows, outputAligned);
}

//===----------------------------------------------------------------------===//
// The schedules of a slice
//===----------------------------------------------------------------------===//

void RegisterResidentBuilder::quantizeHeld(IndexRange rows) {
  IndexRange chunks = getChunks(rows);
  Value thread = b.narrow(team.thread);
  Value first = b.add(chunks.low, b.mul(thread, kOutputChunk));
  Value pointer = getInputPointer(first);

  // All loads are on their way before the first result is used.
  SmallVector<Element> edges = getEdges(rows, chunks);
  Value edgeWords = loadElements(edges);
  SmallVector<SmallVector<Value>> held;
  for (int64_t i : llvm::seq(tile.getChunks()))
    held.push_back(loadHeld(first, pointer, i, chunks));

  Value largest = kernel.math.createAbsMax(b.zeroWords(), edgeWords);
  for (ArrayRef<Value> chunk : held)
    largest = kernel.math.createAbsMax(largest, chunk);
  if (mayHaveLaterChunks())
    largest = b.createRareFor(
        b.add(first, getHeldRows()), chunks.high, getStep(), largest,
        [&](Value row, Value largest) {
          return kernel.math.createAbsMax(
              largest, loadChunk(getInputPointer(placeChunk(row))));
        });

  SmallVector<Value> scales(kOutputChunk,
                            createScale(kernel.math.createLargest(largest)));
  for (auto [i, chunk] : llvm::enumerate(held)) {
    Value row = b.add(first, i * getStep());
    Value place =
        static_cast<int64_t>(i) < countFullRounds() ? row : placeChunk(row);
    b.createIf(b.less(row, chunks.high),
               [&, chunk = chunk] { storeChunk(place, chunk, scales); });
  }
  storeElements(edges, edgeWords, scales);
  if (mayHaveLaterChunks())
    b.createRareFor(
        b.add(first, getHeldRows()), chunks.high, getStep(), [&](Value row) {
          Value place = placeChunk(row);
          storeChunk(place, loadChunk(getInputPointer(place)), scales);
        });
}

/// Quantizes a slice in two reads, element by element. Neighbouring threads
/// have neighbouring elements, as no wider access is aligned.
void RegisterResidentBuilder::quantizeTwice(IndexRange rows) {
  auto getPack = [&](Value row) {
    SmallVector<Element> pack;
    for (int64_t i : llvm::seq(kPack)) {
      Value other = b.add(row, i * team.threads);
      pack.push_back({other, b.less(other, rows.high)});
    }
    return pack;
  };
  Value first = b.add(rows.low, team.thread);
  const int64_t step = kPack * team.threads;
  Value largest = b.createRareFor(
      first, rows.high, step, b.zeroWords(), [&](Value row, Value largest) {
        return kernel.math.createAbsMax(largest, loadElements(getPack(row)));
      });
  SmallVector<Value> scales(kPack,
                            createScale(kernel.math.createLargest(largest)));
  b.createRareFor(first, rows.high, step, [&](Value row) {
    SmallVector<Element> pack = getPack(row);
    storeElements(pack, loadElements(pack), scales);
  });
}

/// Zeroes rows: by chunks when these are aligned or may overlap, else by
/// elements.
void RegisterResidentBuilder::zeroFill(IndexRange rows, Value isAligned) {
  IndexRange chunks = getChunks(rows);
  Value lastChunk = b.sub(rows.high, kOutputChunk);
  if (isUnaligned())
    isAligned = b.bitAnd(isAligned, b.lessEqual(rows.low, lastChunk));
  Value zero = arith::ConstantIntOp::create(b, b.getI8Type(), 0);
  auto zeroElements = [&](Value low, Value high) {
    b.createRareFor(
        b.add(low, team.thread), high, team.threads,
        [&](Value row) { b.store(zero, getOutputPointer(row), 1); });
  };
  b.createIf(
      isAligned,
      [&] {
        zeroElements(rows.low, b.minS(chunks.low, rows.high));
        b.createRareFor(b.add(chunks.low, b.mul(team.thread, kOutputChunk)),
                        chunks.high, getStep(), [&](Value row) {
                          if (isUnaligned())
                            row = b.minS(row, lastChunk);
                          b.store(b.zeroWords(), getOutputPointer(row),
                                  getAlignment(/*elementBytes=*/1));
                        });
        zeroElements(b.maxS(chunks.low, chunks.high), rows.high);
      },
      [&] { zeroElements(rows.low, rows.high); });
}

//===----------------------------------------------------------------------===//
// Chunks
//===----------------------------------------------------------------------===//

IndexRange RegisterResidentBuilder::getChunks(IndexRange rows) {
  if (isUnaligned())
    return rows;
  return {b.roundUp(rows.low, kOutputChunk),
          b.bitAnd(rows.high, -kOutputChunk)};
}

Value RegisterResidentBuilder::placeChunk(Value row) {
  return isUnaligned() ? b.minS(row, b.sub(length, kOutputChunk)) : row;
}

/// Where chunks may overlap, a whole round has them or has none: a branch that
/// all lanes take together, and none where the length is known.
SmallVector<Value> RegisterResidentBuilder::loadHeld(Value first, Value pointer,
                                                     int64_t round,
                                                     IndexRange chunks) {
  int64_t wordsPerChunk = kernel.getInputChunks(kOutputChunk);
  Value row = b.add(first, round * getStep());
  auto load = [&] {
    if (isUnaligned() && round >= countFullRounds())
      return loadChunk(getInputPointer(placeChunk(row)));
    return loadChunk(
        b.offsetBytes(pointer, round * getStep() * getInputBytes()));
  };
  Value hasChunk = isUnaligned() ? b.less(b.i32(round * getStep()), length)
                                 : b.less(row, chunks.high);
  return b.createIf(hasChunk, load, [&] {
    return SmallVector<Value>(wordsPerChunk, b.zeroWords());
  });
}

Value RegisterResidentBuilder::getInputPointer(Value row) {
  return b.offsetBytes(input, b.mul(b.widen(row), getInputBytes()));
}

Value RegisterResidentBuilder::getOutputPointer(Value row) {
  return b.offsetBytes(output, b.widen(row));
}

SmallVector<Value> RegisterResidentBuilder::loadChunk(Value pointer) {
  KernelBuilder::Step step(b, "load_chunk");
  SmallVector<Value> words;
  for (int64_t i : llvm::seq(kernel.getInputChunks(kOutputChunk)))
    words.push_back(b.load(b.getWordsType(),
                           b.offsetBytes(pointer, i * kVectorBytes),
                           getAlignment(getInputBytes()), /*readOnly=*/true));
  return words;
}

void RegisterResidentBuilder::storeChunk(Value row, ArrayRef<Value> chunk,
                                         ArrayRef<Value> scales) {
  b.store(kernel.math.quantizeChunks(chunk, scales), getOutputPointer(row),
          getAlignment(/*elementBytes=*/1));
}

//===----------------------------------------------------------------------===//
// Single elements
//===----------------------------------------------------------------------===//

SmallVector<Element> RegisterResidentBuilder::getEdges(IndexRange rows,
                                                       IndexRange chunks) {
  Value thread = b.narrow(team.thread);
  SmallVector<Element> elements;
  if (isUnaligned())
    return elements;
  auto add = [&](Value low, Value high) {
    for (int64_t i = 0; i < kOutputChunk; i += team.threads) {
      Value row = b.add(low, b.add(thread, i));
      elements.push_back({row, b.less(row, high)});
    }
  };
  if (hasHead)
    add(rows.low, b.minS(chunks.low, rows.high));
  int64_t known = getKnownRows();
  if (hasHead || ShapedType::isDynamic(known) || known % kOutputChunk != 0)
    add(b.maxS(chunks.low, chunks.high), rows.high);
  assert(elements.size() <= kPack && "teams are too small for their edges");
  return elements;
}

/// Loads elements into the layout of an input chunk, with zeros for missing
/// ones.
Value RegisterResidentBuilder::loadElements(ArrayRef<Element> elements) {
  KernelBuilder::Step step(b, "load_elements");
  if (elements.empty())
    return b.zeroWords();
  IntegerType type = b.getIntegerType(getInputBytes() * 8);
  Value zero = arith::ConstantIntOp::create(b, type, 0);
  SmallVector<Value> loaded;
  for (const Element &element : elements)
    loaded.push_back(b.createIf(
        element.isInside,
        [&] {
          return b.load(type, getInputPointer(element.row), getInputBytes(),
                        /*readOnly=*/true);
        },
        [&] { return zero; }));
  loaded.resize(kVectorBytes / getInputBytes(), zero);
  return b.packWords(b.joinElements(loaded));
}

void RegisterResidentBuilder::storeElements(ArrayRef<Element> elements,
                                            Value words,
                                            ArrayRef<Value> scales) {
  if (elements.empty())
    return;
  SmallVector<Value> values = kernel.math.unpackValues(words);
  Value bytes = kernel.math
                    .createQuantizeOwn(ArrayRef(values).take_front(kPack),
                                       scales.take_front(kPack))
                    .front();
  for (auto [i, element] : llvm::enumerate(elements))
    b.createIf(element.isInside, [&, i = i, &element = element] {
      b.store(b.truncate(b.getI8Type(), b.shiftRight(bytes, 8 * i)),
              getOutputPointer(element.row), 1);
    });
}

//===----------------------------------------------------------------------===//
// The team
//===----------------------------------------------------------------------===//

Value RegisterResidentBuilder::combineTeam(Value magnitude) {
  KernelBuilder::Step step(b, "combine_threads");
  int64_t lanes = std::min(team.threads, b.getSubgroupSize());
  for (int64_t mask = 1; mask < lanes; mask *= 2)
    magnitude =
        std::apply([&](Value lhs, Value rhs) { return b.maxU(lhs, rhs); },
                   b.exchange(magnitude, mask));
  if (!magnitudeMemory)
    return magnitude;
  // Threads may still read the magnitudes of the block's previous slices.
  b.createBarrier();
  auto getPointer = [&](Value subgroup) {
    return b.offsetBytes(magnitudeMemory, b.mul(subgroup, kWordBytes));
  };
  b.createIf(b.equal(b.getLane(), 0),
             [&] { b.storeWord(magnitude, getPointer(b.getSubgroup())); });
  b.createBarrier();
  int64_t subgroups = team.threads / b.getSubgroupSize();
  Value pointer =
      getPointer(b.mul(b.divU(b.getThread(), team.threads), subgroups));
  for (int64_t i : llvm::seq(subgroups)) {
    Value other = b.loadWord(b.offsetBytes(pointer, i * kWordBytes));
    magnitude = b.maxU(magnitude, other);
  }
  return magnitude;
}

Value RegisterResidentBuilder::createScale(Value magnitude) {
  Value scale = kernel.math.createScale(combineTeam(magnitude));
  b.createIf(b.bitAnd(hasColumn, b.equal(team.thread, 0)),
             [&] { kernel.storeScale(segment, column, scale); });
  return scale;
}

namespace mlir::fp8moe {
FailureOr<Value> launchRegisterResident(const KernelInstance &instance,
                                        Value when, ProgramLowering &lowering) {
  const auto &quantize = cast<QuantizeInstance>(instance);
  auto tile = cast<RegisterResidentTileAttr>(instance.tile);
  QuantizeLaunch launch(quantize, quantize.operands, lowering);
  HostSize workTiles = register_resident::countWorkTiles(
      tile, launch.getSegments(), launch.getColumns(), launch.problem.jagged);
  auto build = [&](QuantizeKernel &kernel) {
    kernel.b.requestResidentBlocks(tile.getBlocks());
    RegisterResidentBuilder(kernel, tile).build();
  };
  launch.launchGeneral(quantize, "quantize_register_resident",
                       tile.getThreads(), workTiles, build, when);
  return Value();
}
} // namespace mlir::fp8moe
