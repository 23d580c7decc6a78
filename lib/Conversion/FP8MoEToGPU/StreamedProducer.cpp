//===- StreamedProducer.cpp - Deals tiles and loads them ------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// All tiles are numbered: by segment, by unit (a block of columns), by row; the
// blocks of the grid take them in turn. A segment whose units are tall enough
// that they would be read one at a time interleaves the tiles of four, so that
// what is read at once is wider.
//
// The lanes of a producer warp work out one tile each, 32 at a time. Then they
// take turns: the whole warp waits for a stage, and its first lane issues the
// copies. Of several producer warps, each issues some boxes of every tile.
//
//===----------------------------------------------------------------------===//

#include "StreamedQuantize.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::streamed;

/// Units of more tiles than this many a block are folded: half as many columns
/// of twice as many rows a tile. While a unit waits for its scales it occupies
/// stages, as do the tiles that are being loaded meanwhile; with 13 stages,
/// taller units leave too few for those.
static constexpr int64_t kFoldTilesPerBlock = 6;

/// Units of more tiles than kInterleaveTiles, of which four together have at
/// most kFoldTilesPerBlock a block, are interleaved: shorter ones are read next
/// to their neighbours anyway.
static constexpr int64_t kInterleaveTiles = 96;
static constexpr int64_t kInterleaveLog = 2;

/// A sector that two segments share is written by the second one, which needs
/// the scales of the first: only if these are quickly collected again.
static constexpr int64_t kSeamTiles = 12;

namespace {
/// Bits of SegmentState::shape. The lowest two are the log2 of the units that
/// are interleaved.
enum Shape : int64_t {
  kInterleaveMask = 3,
  kFoldedBit = 4,
  /// The segment writes the sector that it shares with the previous one.
  kSeamBit = 8,
  /// The next segment writes the sector that it shares with this one.
  kCutBit = 16,
};

/// Properties of a lane's tile, in the same word.
enum TileBits : int64_t {
  kNewUnitBit = 32,
  /// The unit is larger than the ring.
  kExceedsBit = 64,
  /// The block's last tile of the unit.
  kLastBit = 128,
};

/// Where a lane is in the list of segments, all i32.
struct SegmentState {
  Value segment;
  /// The number of its first tile, and the tiles of each of its units.
  Value firstTile, tiles;
  /// Its rows in the input, and its first row in the output.
  Value start, length, outStart;
  /// Units, in whole sets of interleaved ones.
  Value units;
  Value shape;
  /// firstTile and tiles of the segment before it.
  Value previousFirst, previousTiles;

  static constexpr auto members() {
    using S = SegmentState;
    return std::array{&S::segment,       &S::firstTile,    &S::tiles, &S::start,
                      &S::length,        &S::outStart,     &S::units, &S::shape,
                      &S::previousFirst, &S::previousTiles};
  }
  static constexpr size_t kSize = 10;

  static SegmentState fromValues(ValueRange values) {
    SegmentState state;
    for (auto [member, value] : llvm::zip(members(), values))
      state.*member = value;
    static_assert(members().size() == kSize);
    return state;
  }
  SmallVector<Value> toValues() const {
    return llvm::map_to_vector(members(),
                               [&](auto member) { return this->*member; });
  }
};

/// A tile of a lane, or after a broadcast of the warp, all i32.
struct LaneTile {
  Value bits;
  /// The unit's number in the block, the first of its entries, its tiles, and
  /// how many blocks have some of them.
  Value unit, firstEntry, tiles, contributors;
  /// The number of the tile in the unit.
  Value index;
  Value segment, columnBlock;
  /// The segment's rows in the input, and its first row in the output.
  Value start, length, outStart;
  /// Where the magnitudes of the same columns of the previous segment are.
  Value previousEntry, previousContributors;

  static constexpr auto members() {
    using T = LaneTile;
    return std::array{&T::bits,
                      &T::unit,
                      &T::firstEntry,
                      &T::tiles,
                      &T::contributors,
                      &T::index,
                      &T::segment,
                      &T::columnBlock,
                      &T::start,
                      &T::length,
                      &T::outStart,
                      &T::previousEntry,
                      &T::previousContributors};
  }
};

class ProducerBuilder {
public:
  ProducerBuilder(StreamedKernel &kernel, Value warp)
      : k(kernel), b(kernel.b), warp(warp), isFirstWarp(b.equal(warp, 0)) {}

  void build();

private:
  bool hasPadding() const { return k.problem.outputPadding > 1; }
  Value hasBit(Value word, int64_t bit) {
    return k.isNonZero(b.bitAnd(word, bit));
  }
  Value getInterleave(Value shape) {
    return b.bitAnd(shape, int64_t(kInterleaveMask));
  }
  Value bitIf(Value condition, int64_t bit) {
    return b.select(condition, b.i32(bit), 0);
  }
  Value getUnitColumns(Value isFolded) {
    return b.select(isFolded, b.i32(k.getTileColumns() / 2),
                    k.getTileColumns());
  }
  Value getTileRows(Value isFolded) {
    return b.select(isFolded, b.i32(2 * kLines), kLines);
  }

  SegmentState getFirstState();
  SegmentState createNextState(const SegmentState &state);
  Value createEndAfter(Value segment, Value end);
  Value createCut(Value start, Value end, Value tiles, Value nextEnd);
  SegmentState findSegment(Value tileNumber, const SegmentState &state);
  Value isInRange(const SegmentState &state) {
    return b.less(state.segment, k.segments);
  }

  /// What the lanes have to do, and the lanes that have something, as bits.
  /// `lastUnit` and `unit` are updated: the first entry of the last lane's
  /// unit, and the number of units before.
  std::pair<LaneTile, Value> createLaneTiles(Value tileNumber,
                                             const SegmentState &state,
                                             Value &lastUnit, Value &unit);
  RingPosition issueUnitTiles(const LaneTile &lane, Value turn,
                              RingPosition position);
  RingPosition issueLargeUnit(const LaneTile &tile, RingPosition position);
  RingPosition issue(const LaneTile &tile, Value index, Value flags,
                     RingPosition position, function_ref<void()> publish);
  void publish(const LaneTile &tile, Value stage);
  void loadBoxes(const LaneTile &tile, Value row, Value low, Value high,
                 Value stage);
  void finish(Value unit, RingPosition position);

  StreamedKernel &k;
  KernelBuilder &b;
  Value warp, isFirstWarp;
};
} // namespace

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

SegmentState ProducerBuilder::getFirstState() {
  SegmentState state;
  for (auto member : SegmentState::members())
    state.*member = b.i32(0);
  state.segment = b.i32(-1);
  return state;
}

/// The end of a segment's rows whose predecessor ends at `end`; the same when
/// there is no such segment.
Value ProducerBuilder::createEndAfter(Value segment, Value end) {
  Value exists = b.less(segment, k.segments);
  Value loaded = k.loadEnd(b.minS(segment, b.sub(k.segments, 1)));
  return b.select(exists, b.maxS(loaded, end), end);
}

/// Whether the segment after [start, end), which ends at `nextEnd`, writes the
/// sector that both share. Both sides ask this.
Value ProducerBuilder::createCut(Value start, Value end, Value tiles,
                                 Value nextEnd) {
  if (hasPadding() || !k.problem.jagged)
    return b.i1(false);
  Value sector = b.bitAnd(end, -kSectorRows);
  Value isShared = b.compare(arith::CmpIPredicate::ne, sector, end);
  Value hasTwoOwners = k.both(b.lessEqual(start, sector),
                              b.lessEqual(b.add(sector, kSectorRows), nextEnd));
  // Units of a folded segment have other columns.
  Value nextRows = b.sub(nextEnd, sector);
  Value isNextFull =
      b.less(nextRows, b.mul(k.numBlocks, kFoldTilesPerBlock * kLines));
  Value isShort =
      k.both(b.lessEqual(tiles, kSeamTiles), b.less(b.i32(0), tiles));
  return k.both(k.both(isShared, hasTwoOwners), k.both(isNextFull, isShort));
}

SegmentState ProducerBuilder::createNextState(const SegmentState &state) {
  int64_t padding = k.problem.outputPadding;
  SegmentState next;
  next.segment = b.add(state.segment, 1);
  Value exists = b.less(next.segment, k.segments);
  next.firstTile = b.add(state.firstTile, b.mul(state.tiles, state.units));
  next.previousFirst = state.firstTile;
  next.previousTiles = state.tiles;
  if (k.problem.jagged) {
    next.start = b.add(state.start, state.length);
    next.length = b.sub(createEndAfter(next.segment, next.start), next.start);
    next.outStart =
        hasPadding() ? b.add(state.outStart, b.roundUp(state.length, padding))
                     : next.start;
  } else {
    next.start = next.outStart = b.i32(0);
    next.length = b.select(exists, k.rows, 0);
  }
  Value extent = b.add(b.roundUp(next.length, padding),
                       b.bitAnd(next.outStart, kSectorRows - 1));
  Value tiles =
      b.select(b.less(b.i32(0), next.length), b.ceilDiv(extent, kLines), 0);
  Value limit = b.mul(k.numBlocks, kFoldTilesPerBlock);
  Value isFolded = b.less(limit, tiles);
  Value isInterleaved =
      k.both(b.less(b.i32(kInterleaveTiles), tiles),
             b.lessEqual(b.shiftLeft(tiles, kInterleaveLog), limit));
  int64_t mask = (1 << kInterleaveLog) - 1;
  isInterleaved =
      k.both(isInterleaved, b.equal(b.bitAnd(k.numBlocks, mask), 0));

  Value units = b.ceilDiv(k.columns, k.getTileColumns());
  units = b.select(isInterleaved, b.bitAnd(b.add(units, mask), ~mask), units);
  Value foldedUnits = b.ceilDiv(k.columns, k.getTileColumns() / 2);
  next.units = b.select(isFolded, foldedUnits, units);
  next.tiles = b.select(isFolded, b.ceilDiv(extent, 2 * kLines), tiles);

  Value end = b.add(next.start, next.length);
  Value nextEnd =
      k.problem.jagged ? createEndAfter(b.add(next.segment, 1), end) : end;
  Value isCut = k.both(k.negate(isFolded),
                       createCut(next.start, end, next.tiles, nextEnd));
  Value isSeam = hasBit(state.shape, kCutBit);
  next.shape = b.bitOr(b.bitOr(bitIf(isInterleaved, kInterleaveLog),
                               bitIf(isFolded, kFoldedBit)),
                       b.bitOr(bitIf(isSeam, kSeamBit), bitIf(isCut, kCutBit)));
  return next;
}

SegmentState ProducerBuilder::findSegment(Value tileNumber,
                                          const SegmentState &state) {
  SmallVector<Type> types(SegmentState::kSize, b.getI32Type());
  return SegmentState::fromValues(k.createWhile(
      state.toValues(), types,
      [&](ValueRange carried) {
        SegmentState state = SegmentState::fromValues(carried);
        Value end = b.add(state.firstTile, b.mul(state.tiles, state.units));
        Value isBehind = b.lessEqual(end, tileNumber);
        return std::pair(k.both(isInRange(state), isBehind),
                         llvm::to_vector_of<Value>(carried));
      },
      [&](ValueRange carried) {
        return createNextState(SegmentState::fromValues(carried)).toValues();
      }));
}

//===----------------------------------------------------------------------===//
// Tiles of the lanes
//===----------------------------------------------------------------------===//

std::pair<LaneTile, Value>
ProducerBuilder::createLaneTiles(Value tileNumber, const SegmentState &state,
                                 Value &lastUnit, Value &unit) {
  Value inRange = isInRange(state);
  Value isFolded = hasBit(state.shape, kFoldedBit);
  Value interleave = getInterleave(state.shape);
  // Blocks that share a unit.
  Value share = b.shiftRight(k.numBlocks, interleave);

  Value relative = b.sub(tileNumber, state.firstTile);
  Value setTiles = b.select(inRange, b.shiftLeft(state.tiles, interleave), 1);
  Value set = b.divU(relative, setTiles);
  Value inSet = b.sub(relative, b.mul(set, setTiles));
  Value unitInSet =
      b.bitAnd(inSet, b.sub(b.shiftLeft(b.i32(1), interleave), 1));
  Value index = b.shiftRight(inSet, interleave);
  Value columnBlock = b.add(b.shiftLeft(set, interleave), unitInSet);
  // The tile number of the first one of the unit.
  Value firstEntry =
      b.add(b.add(state.firstTile, b.mul(set, setTiles)), unitInSet);
  firstEntry = b.select(inRange, firstEntry, -1);

  Value column = b.mul(columnBlock, getUnitColumns(isFolded));
  Value isReal = k.both(inRange, b.less(column, k.columns));
  Value exceeds = b.less(b.mul(k.numBlocks, k.tile.stages), state.tiles);

  Value previous = b.shuffleIndex(firstEntry, b.maxS(b.sub(k.lane, 1), 0));
  previous = b.select(k.isFirstLane, lastUnit, previous);
  Value isNewUnit =
      k.both(isReal, b.compare(arith::CmpIPredicate::ne, firstEntry, previous));
  auto countBits = [&](Value bits) -> Value {
    return LLVM::CtPopOp::create(b, b.getI32Type(), bits);
  };
  Value newUnits = k.ballot(isNewUnit);
  // All bits up to that of this lane; 2 << 31 is 0.
  Value lanesToHere = b.sub(b.shiftLeft(b.i32(2), k.lane), 1);

  LaneTile tile;
  tile.unit = b.add(unit, countBits(b.bitAnd(newUnits, lanesToHere)));
  unit = b.add(unit, countBits(newUnits));
  lastUnit = b.shuffleIndex(firstEntry, b.i32(b.getSubgroupSize() - 1));

  tile.firstEntry = firstEntry;
  tile.contributors = b.minS(state.tiles, share);
  Value isLast = b.lessEqual(state.tiles, b.add(index, share));
  tile.bits =
      b.bitOr(b.bitOr(state.shape, bitIf(isNewUnit, kNewUnitBit)),
              b.bitOr(bitIf(exceeds, kExceedsBit), bitIf(isLast, kLastBit)));
  tile.segment = state.segment;
  tile.columnBlock = columnBlock;
  tile.index = index;
  tile.tiles = state.tiles;
  tile.start = state.start;
  tile.length = state.length;
  tile.outStart = state.outStart;
  // Units of few tiles are not interleaved.
  tile.previousEntry =
      b.add(state.previousFirst, b.mul(columnBlock, state.previousTiles));
  tile.previousContributors = b.minS(state.previousTiles, k.numBlocks);

  // The first of a block's tiles stands for all when they exceed the ring.
  Value acts =
      k.both(isReal, b.bitOr(k.negate(exceeds), b.less(index, k.numBlocks)));
  return {tile, k.ballot(acts)};
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void ProducerBuilder::publish(const LaneTile &tile, Value stage) {
  Value isFolded = hasBit(tile.bits, kFoldedBit);
  UnitRecord record;
  record.entry = tile.firstEntry;
  record.interleave = getInterleave(tile.bits);
  record.contributors = tile.contributors;
  record.segment = tile.segment;
  record.column = b.mul(tile.columnBlock, getUnitColumns(isFolded));
  record.isFolded = k.toWord(isFolded);
  record.storesScales =
      k.toWord(b.equal(b.remU(tile.index, tile.contributors), 0));
  Value isSeam = k.both(hasBit(tile.bits, kSeamBit), b.equal(tile.index, 0));
  record.seamStage = b.select(isSeam, stage, -1);
  record.previousEntry = tile.previousEntry;
  record.previousContributors = tile.previousContributors;
  k.publishUnit(tile.unit, record);
}

/// Loads this warp's boxes of the rows [low, high) of a tile that begins at
/// `row` of the input.
void ProducerBuilder::loadBoxes(const LaneTile &tile, Value row, Value low,
                                Value high, Value stage) {
  int64_t warps = k.tile.producerWarps;
  Value isFolded = hasBit(tile.bits, kFoldedBit);
  Value boxRows = b.select(isFolded, b.i32(2 * kBoxLines), kBoxLines);
  Value first = b.add(b.divU(low, boxRows), warp);
  Value boxes = b.sub(b.ceilDiv(high, boxRows), first);
  Value count = b.divU(b.maxS(b.add(boxes, warps - 1), 0), warps);
  Value barrier = k.ring.getFullBarrier(stage);
  createArriveExpecting(b, barrier, b.mul(count, kBoxBytes));

  Value column = b.mul(tile.columnBlock, getUnitColumns(isFolded));
  Value shared = k.getStage(stage);
  auto load = [&](Value map, int64_t number) {
    Value box = b.add(first, number * warps);
    SmallVector<Value> coordinates{column, b.add(row, b.mul(box, boxRows))};
    if (isSegmentDim(k.problem))
      coordinates.push_back(tile.segment);
    createTensorLoad(b, map, coordinates,
                     b.offsetBytes(shared, b.mul(box, kBoxPitch)), barrier);
  };
  for (int64_t number : llvm::seq(kBoxes / warps))
    b.createIf(b.less(b.i32(number), count), [&] {
      b.createIf(
          isFolded, [&] { load(k.foldedMap, number); },
          [&] { load(k.map, number); });
    });
}

/// Loads tile `index` of the unit of `tile`. `publish` runs in one thread once
/// there is a stage.
RingPosition ProducerBuilder::issue(const LaneTile &tile, Value index,
                                    Value flags, RingPosition position,
                                    function_ref<void()> publish) {
  Value isFolded = hasBit(tile.bits, kFoldedBit);
  Value tileRows = getTileRows(isFolded);
  TileRecord record;
  record.unit = tile.unit;
  // A block posts to the entry that has the number of its first tile.
  record.entry =
      b.add(tile.firstEntry, b.shiftLeft(b.remU(index, tile.contributors),
                                         getInterleave(tile.bits)));
  record.segment = tile.segment;
  record.column = b.mul(tile.columnBlock, getUnitColumns(isFolded));
  record.row =
      b.add(b.bitAnd(tile.outStart, -kSectorRows), b.mul(index, tileRows));
  Value first = b.sub(tile.outStart, record.row);
  Value end = b.add(first, tile.length);
  record.low = b.maxS(first, 0);
  record.high = b.clamp(end, 0, tileRows);
  // What is written: with the padding, or less the sector left to others.
  Value writtenEnd =
      hasPadding()
          ? b.add(first, b.roundUp(tile.length, k.problem.outputPadding))
          : b.select(hasBit(tile.bits, kCutBit), b.bitAnd(end, -kSectorRows),
                     end);
  record.paddedHigh = b.minS(writtenEnd, tileRows);
  Value isSeam = k.both(hasBit(tile.bits, kSeamBit), b.equal(index, 0));
  record.flags = b.bitOr(b.bitOr(flags, bitIf(isFolded, tile_flags::kFolded)),
                         bitIf(isSeam, tile_flags::kSeam));
  Value loadLow =
      b.select(isSeam, b.bitAnd(record.low, -kSectorRows), record.low);
  Value inputRow = b.add(record.row, b.sub(tile.start, tile.outStart));

  k.ring.createWaitEmpty(position);
  b.createIf(k.isFirstLane, [&] {
    b.createIf(isFirstWarp, [&] {
      if (publish)
        publish();
      k.storeTileRecord(position.stage, record);
    });
    loadBoxes(tile, inputRow, loadLow, record.high, position.stage);
  });
  return k.ring.getNext(position);
}

/// A unit that is larger than the ring is read whole for its magnitudes; the
/// last tiles stay, and the others are read again.
RingPosition ProducerBuilder::issueLargeUnit(const LaneTile &tile,
                                             RingPosition position) {
  k.ring.createWaitEmpty(position);
  b.createIf(k.both(k.isFirstLane, isFirstWarp),
             [&] { publish(tile, position.stage); });
  Value count = b.ceilDiv(b.sub(tile.tiles, tile.index), k.numBlocks);
  // Two stages are left for reading ahead.
  Value again = b.sub(count, k.tile.stages - 2);
  SmallVector<Value> result = b.createFor(
      b.i32(0), b.add(count, again), 1, {position.stage, position.parity},
      [&](Value step, ValueRange carried) {
        Value isSecond = b.lessEqual(count, step);
        Value number = b.select(isSecond, b.sub(step, count), step);
        Value stays = b.lessEqual(again, step);
        Value isLast = b.equal(step, b.sub(count, 1));
        Value firstFlags = b.bitOr(b.bitOr(b.i32(tile_flags::kMeasure),
                                           bitIf(stays, tile_flags::kConvert)),
                                   bitIf(isLast, tile_flags::kPost));
        Value flags =
            b.select(isSecond, b.i32(tile_flags::kConvert), firstFlags);
        Value index = b.add(tile.index, b.mul(number, k.numBlocks));
        RingPosition next =
            issue(tile, index, flags, {carried[0], carried[1]}, nullptr);
        return SmallVector<Value>{next.stage, next.parity};
      });
  return {result[0], result[1]};
}

/// What lane `turn` has to do, by the whole warp.
RingPosition ProducerBuilder::issueUnitTiles(const LaneTile &lane, Value turn,
                                             RingPosition position) {
  LaneTile tile;
  for (auto member : LaneTile::members())
    tile.*member = b.shuffleIndex(lane.*member, turn);
  SmallVector<Value> next = b.createIf(
      hasBit(tile.bits, kExceedsBit), {b.getI32Type(), b.getI32Type()},
      [&] {
        RingPosition next = issueLargeUnit(tile, position);
        return SmallVector<Value>{next.stage, next.parity};
      },
      [&] {
        Value flags =
            b.bitOr(b.i32(tile_flags::kMeasure | tile_flags::kConvert),
                    bitIf(hasBit(tile.bits, kLastBit), tile_flags::kPost));
        RingPosition next = issue(tile, tile.index, flags, position, [&] {
          b.createIf(hasBit(tile.bits, kNewUnitBit),
                     [&] { publish(tile, position.stage); });
        });
        return SmallVector<Value>{next.stage, next.parity};
      });
  return {next[0], next[1]};
}

/// Tells each convert team and each scale warp that there is no more; the
/// measure warps see the first of these.
void ProducerBuilder::finish(Value unit, RingPosition position) {
  b.createIf(k.isFirstLane, [&] {
    for (int64_t team = 0; team < k.tile.convertTeams; ++team) {
      k.ring.createWaitEmpty(position);
      b.createIf(isFirstWarp, [&] { k.storeEndRecord(position.stage); });
      createArrive(b, k.ring.getFullBarrier(position.stage));
      position = k.ring.getNext(position);
    }
    b.createIf(isFirstWarp, [&] {
      for (int64_t i : llvm::seq(k.tile.scaleWarps))
        k.publishEndUnit(b.add(unit, i + 1));
    });
  });
}

void ProducerBuilder::build() {
  Type i32 = b.getI32Type();
  constexpr size_t kStates = SegmentState::kSize;
  // Tile number, segment, last unit, unit, position in the ring.
  SmallVector<Value> init{b.add(k.block, b.mul(k.lane, k.numBlocks))};
  llvm::append_range(init, getFirstState().toValues());
  RingPosition begin = k.ring.getPosition(b.i32(0));
  init.append({b.i32(-1), b.i32(-1), begin.stage, begin.parity});
  SmallVector<Type> types(init.size(), i32);

  SmallVector<Value> last = k.createWhile(
      init, types,
      [&](ValueRange carried) {
        SmallVector<Value> values(carried);
        SegmentState state = findSegment(
            values[0], SegmentState::fromValues(carried.slice(1, kStates)));
        llvm::copy(state.toValues(), values.begin() + 1);
        return std::pair(k.voteAny(isInRange(state)), values);
      },
      [&](ValueRange values) {
        ValueRange rest = values.drop_front(1 + kStates);
        Value lastUnit = rest[0], unit = rest[1];
        std::pair<LaneTile, Value> work = createLaneTiles(
            values[0], SegmentState::fromValues(values.slice(1, kStates)),
            lastUnit, unit);
        SmallVector<Value> position = k.createWhile(
            {rest[2], rest[3], work.second}, {i32, i32, i32},
            [&](ValueRange carried) {
              return std::pair(k.isNonZero(carried[2]),
                               llvm::to_vector_of<Value>(carried));
            },
            [&](ValueRange carried) {
              Value turn = LLVM::CountTrailingZerosOp::create(
                  b, i32, carried[2], /*is_zero_poison=*/true);
              RingPosition next =
                  issueUnitTiles(work.first, turn, {carried[0], carried[1]});
              Value others = b.bitAnd(carried[2], b.sub(carried[2], 1));
              return SmallVector<Value>{next.stage, next.parity, others};
            });
        SmallVector<Value> next(values);
        next[0] = b.add(values[0], b.mul(k.numBlocks, b.getSubgroupSize()));
        next[1 + kStates] = lastUnit;
        next[2 + kStates] = unit;
        next[3 + kStates] = position[0];
        next[4 + kStates] = position[1];
        return next;
      });
  ValueRange rest = ValueRange(last).drop_front(1 + kStates);
  finish(rest[1], {rest[2], rest[3]});
}

void fp8moe::buildStreamedProducer(StreamedKernel &kernel, Value warp) {
  ProducerBuilder(kernel, warp).build();
}
