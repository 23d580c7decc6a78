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
// The lanes of the producer warp look at 32 segments at a time, then work out
// one tile each, with what others must know about it. Then they take turns: the
// whole warp waits for a stage, and the tile's lane issues the copies.
//
//===----------------------------------------------------------------------===//

#include "StreamedQuantize.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::streamed;

/// Units of more tiles than this many a block are folded: half as many columns
/// of twice as many rows a tile. While a unit waits for its scales its tiles
/// occupy stages and the registers of convert teams, as do those of the next
/// unit, which are being loaded: 16 together.
static constexpr int64_t kFoldTilesPerBlock = 8;

/// Units of more tiles than these, of which four together have at most
/// kInterleaveTilesPerBlock a block, are interleaved: shorter ones are read
/// next to their neighbours anyway. Jagged ones gain from 12 on (32768x7168 in
/// 8 groups 84% -> 86% of a copy); segments that are all alike lose below 96
/// (units of 56 tiles 94% -> 86%), and so do tiles beside rows.
static constexpr int64_t kInterleaveTiles = 12;
static constexpr int64_t kInterleaveWholeTiles = 96;
static constexpr int64_t kInterleaveTilesPerBlock = 6;

/// Tiles that are on their way to a block at once. The ring has more stages,
/// for tiles that wait for scales; loads beyond those that keep the memory busy
/// only make each other late, and with them whatever blocks tell each other.
/// Four were mostly better than three (by up to 5%) and five (up to 2%), but
/// not where a block has more than four tiles of a unit, all of which wait for
/// the last one: there, three were better by 4%. Units of up to 12 tiles, as
/// many as may have a seam, have no limit: many of their tiles are partly
/// empty, and the producer has no time for more (64 groups of 260 rows lost
/// 2%).
static constexpr int64_t kLoadsInFlight = 4;
static constexpr int64_t kShortTiles = 12;
static constexpr int64_t kTallTilesPerBlock = 4;
static constexpr int64_t kTallLoadsInFlight = 3;
static constexpr int64_t kNoLimit = 0;

/// A sector that two segments share is written by the second one, which needs
/// the scales of the first: only if these are quickly collected again.
static constexpr int64_t kSeamTiles = 12;
static_assert(kSeamTiles <= kInterleaveTiles,
              "entries of a segment before a seam lie behind each other");

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
  /// The block's last tile of the unit.
  kLastBit = 64,
};

/// A segment, all i32. A window is 32 of them, one for each lane.
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
  /// The tile's row for StreamedKernel::getTileProgress; not used without rows.
  Value progress;

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
                      &T::previousContributors,
                      &T::progress};
  }
};

/// The boxes of a tile that are loaded, all i32.
struct TileBoxes {
  /// The coordinates of box 0.
  Value column, row, segment;
  /// The first one, their number, 1 if they are folded, and how many tiles may
  /// be on their way with this one; four bits each.
  Value numbers;

  static constexpr auto members() {
    using T = TileBoxes;
    return std::array{&T::column, &T::row, &T::segment, &T::numbers};
  }
};

/// What there is to know before a tile has a stage.
struct PreparedTile {
  TileRecord record;
  TileBoxes boxes;
  Value progress;
};

/// The tiles of the lanes. The masks have a bit for each lane that has a tile,
/// and for each whose unit is larger than the ring.
struct LaneTiles {
  LaneTile tile;
  Value acts, exceeds;
};

class ProducerBuilder {
public:
  explicit ProducerBuilder(StreamedKernel &kernel) : k(kernel), b(kernel.b) {}

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
  Value getBoxRows(Value isFolded) {
    return b.select(isFolded, b.i32(2 * kBoxLines), kBoxLines);
  }

  Value getLastLane(Value value) {
    return b.shuffleIndex(value, b.i32(b.getSubgroupSize() - 1));
  }
  Value shiftLanes(Value value, Value last);
  Value scanLanes(Value value, function_ref<Value(Value, Value)> combine);
  SegmentState getFirstWindow();
  SegmentState createNextWindow(const SegmentState &last);
  Value createEndAfter(Value segment, Value end);
  Value createCut(Value start, Value end, Value tiles, Value nextEnd);
  /// The number of the first tile behind a segment.
  Value getTileEnd(const SegmentState &state) {
    return b.add(state.firstTile, b.mul(state.tiles, state.units));
  }
  SegmentState lookUp(Value tileNumber, const SegmentState &window);
  SegmentState findSegments(Value tileNumber, SegmentState &window);
  Value isInRange(const SegmentState &state) {
    return b.less(state.segment, k.segments);
  }

  /// What the lanes have to do. `lastUnit` and `unit` are updated: the first
  /// entry of the last lane's unit, and the number of units before.
  LaneTiles createLaneTiles(Value tileNumber, const SegmentState &state,
                            Value &lastUnit, Value &unit);
  UnitRecord prepareUnit(const LaneTile &tile);
  PreparedTile prepareTile(const LaneTile &tile, Value index, Value flags);
  RingPosition issueLanes(const LaneTiles &lanes, RingPosition position);
  RingPosition issueLargeUnit(const LaneTile &tile, RingPosition position);
  RingPosition issue(const PreparedTile &tile, Value isIssuer,
                     RingPosition position, function_ref<void()> publish);
  void publish(const LaneTile &tile, UnitRecord record, Value stage);
  Value getLoadsInFlight(const LaneTile &tile);
  void prefetchShare(const LaneTile &tile, const TileBoxes &boxes);
  void loadBoxes(const TileBoxes &boxes, Value stage);
  void finish(Value unit, RingPosition position, Value tail);

  StreamedKernel &k;
  KernelBuilder &b;
};
} // namespace

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// The 32 segments before the first one, none of which has tiles.
SegmentState ProducerBuilder::getFirstWindow() {
  SegmentState window;
  for (auto member : SegmentState::members())
    window.*member = b.i32(0);
  window.segment = b.sub(k.lane, b.getSubgroupSize());
  return window;
}

/// `value` of the previous lane; the first lane has that of the last lane of
/// `last`.
Value ProducerBuilder::shiftLanes(Value value, Value last) {
  Value below = b.shuffleIndex(value, b.maxS(b.sub(k.lane, 1), 0));
  return b.select(k.isFirstLane, getLastLane(last), below);
}

/// Combines `value` of all lanes up to this one.
Value ProducerBuilder::scanLanes(Value value,
                                 function_ref<Value(Value, Value)> combine) {
  for (int64_t distance = 1; distance < b.getSubgroupSize(); distance *= 2) {
    Value source = b.sub(k.lane, distance);
    Value other = b.shuffleIndex(value, b.maxS(source, 0));
    value =
        b.select(b.lessEqual(b.i32(0), source), combine(value, other), value);
  }
  return value;
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

/// The 32 segments after those of `last`, one for each lane.
SegmentState ProducerBuilder::createNextWindow(const SegmentState &last) {
  int64_t padding = k.problem.outputPadding;
  auto sum = [&](Value lhs, Value rhs) -> Value { return b.add(lhs, rhs); };
  auto max = [&](Value lhs, Value rhs) -> Value { return b.maxS(lhs, rhs); };
  SegmentState next;
  next.segment = b.add(last.segment, b.getSubgroupSize());
  Value exists = b.less(next.segment, k.segments);
  Value end, nextEnd;
  if (k.problem.jagged) {
    Value lastEnd = b.add(last.start, last.length);
    end = createEndAfter(next.segment, getLastLane(lastEnd));
    end = scanLanes(end, max);
    next.start = shiftLanes(end, lastEnd);
    next.length = b.sub(end, next.start);
    nextEnd = createEndAfter(b.add(next.segment, 1), end);
    if (hasPadding()) {
      Value lastOutEnd = b.add(last.outStart, b.roundUp(last.length, padding));
      Value outEnd = b.add(getLastLane(lastOutEnd),
                           scanLanes(b.roundUp(next.length, padding), sum));
      next.outStart = shiftLanes(outEnd, lastOutEnd);
    } else {
      next.outStart = next.start;
    }
  } else {
    next.start = next.outStart = b.i32(0);
    next.length = b.select(exists, k.rows, 0);
    end = nextEnd = next.length;
  }
  Value extent = b.add(b.roundUp(next.length, padding),
                       b.bitAnd(next.outStart, kSectorRows - 1));
  Value tiles =
      b.select(b.less(b.i32(0), next.length), b.ceilDiv(extent, kLines), 0);
  Value isFolded = b.less(b.mul(k.numBlocks, kFoldTilesPerBlock), tiles);
  bool isShared = k.problem.jagged && !k.tile.hasRows();
  Value isInterleaved = k.both(
      b.less(b.i32(isShared ? kInterleaveTiles : kInterleaveWholeTiles), tiles),
      b.lessEqual(b.shiftLeft(tiles, kInterleaveLog),
                  b.mul(k.numBlocks, kInterleaveTilesPerBlock)));
  int64_t mask = (1 << kInterleaveLog) - 1;
  isInterleaved =
      k.both(isInterleaved, b.equal(b.bitAnd(k.numBlocks, mask), 0));

  Value units = b.ceilDiv(k.columns, k.getTileColumns());
  units = b.select(isInterleaved, b.bitAnd(b.add(units, mask), ~mask), units);
  Value foldedUnits = b.ceilDiv(k.columns, k.getTileColumns() / 2);
  next.units = b.select(isFolded, foldedUnits, units);
  next.tiles = b.select(isFolded, b.ceilDiv(extent, 2 * kLines), tiles);
  Value lastTileEnd = getTileEnd(last);
  Value tileEnd = b.add(getLastLane(lastTileEnd),
                        scanLanes(b.mul(next.tiles, next.units), sum));
  next.firstTile = shiftLanes(tileEnd, lastTileEnd);
  next.previousFirst = shiftLanes(next.firstTile, last.firstTile);
  next.previousTiles = shiftLanes(next.tiles, last.tiles);

  Value isCut = k.both(k.negate(isFolded),
                       createCut(next.start, end, next.tiles, nextEnd));
  Value cut = bitIf(isCut, kCutBit);
  Value isSeam = hasBit(shiftLanes(cut, last.shape), kCutBit);
  next.shape = b.bitOr(b.bitOr(bitIf(isInterleaved, kInterleaveLog),
                               bitIf(isFolded, kFoldedBit)),
                       b.bitOr(bitIf(isSeam, kSeamBit), cut));
  return next;
}

/// The segment of `window` that a lane's tile is in: the last one that begins
/// at or before it, as segments without tiles begin where the next one does.
SegmentState ProducerBuilder::lookUp(Value tileNumber,
                                     const SegmentState &window) {
  Value index = b.i32(0);
  for (int64_t step = b.getSubgroupSize() / 2; step > 0; step /= 2) {
    Value candidate = b.add(index, step);
    Value first = b.shuffleIndex(window.firstTile, candidate);
    index = b.select(b.lessEqual(first, tileNumber), candidate, index);
  }
  SegmentState state;
  for (auto member : SegmentState::members())
    state.*member = b.shuffleIndex(window.*member, index);
  return state;
}

/// The segments of the lanes' tiles, whose numbers never decrease from lane to
/// lane and from call to call. `window` moves on as far as needed.
SegmentState ProducerBuilder::findSegments(Value tileNumber,
                                           SegmentState &window) {
  constexpr size_t kSize = SegmentState::kSize;
  SegmentState none = window;
  none.segment = k.segments;
  SmallVector<Value> init = window.toValues();
  llvm::append_range(init, none.toValues());
  SmallVector<Type> types(2 * kSize, b.getI32Type());
  SmallVector<Value> result = k.createWhile(
      init, types,
      [&](ValueRange carried) {
        SegmentState window =
            SegmentState::fromValues(carried.take_front(kSize));
        SegmentState found =
            SegmentState::fromValues(carried.drop_front(kSize));
        Value isBehind =
            b.lessEqual(getLastLane(getTileEnd(window)), tileNumber);
        Value isHere = k.both(k.negate(isBehind), k.negate(isInRange(found)));
        SegmentState candidate = lookUp(tileNumber, window);
        SmallVector<Value> values = window.toValues();
        for (auto member : SegmentState::members())
          values.push_back(b.select(isHere, candidate.*member, found.*member));
        Value hasMore =
            b.less(b.add(getLastLane(window.segment), 1), k.segments);
        return std::pair(k.both(hasMore, k.voteAny(isBehind)), values);
      },
      [&](ValueRange carried) {
        SmallVector<Value> values =
            createNextWindow(
                SegmentState::fromValues(carried.take_front(kSize)))
                .toValues();
        llvm::append_range(values, carried.drop_front(kSize));
        return values;
      });
  window = SegmentState::fromValues(ValueRange(result).take_front(kSize));
  return SegmentState::fromValues(ValueRange(result).drop_front(kSize));
}

//===----------------------------------------------------------------------===//
// Tiles of the lanes
//===----------------------------------------------------------------------===//

LaneTiles ProducerBuilder::createLaneTiles(Value tileNumber,
                                           const SegmentState &state,
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
  // Lanes without a tile divide by it, too.
  tile.contributors = b.maxS(b.minS(state.tiles, share), 1);
  Value isLast = b.lessEqual(state.tiles, b.add(index, share));
  tile.bits = b.bitOr(state.shape, b.bitOr(bitIf(isNewUnit, kNewUnitBit),
                                           bitIf(isLast, kLastBit)));
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
  tile.progress = k.getRowOfTile(relative, b.mul(state.tiles, state.units),
                                 state.start, state.length);

  // The first of a block's tiles stands for all when they exceed the ring.
  Value acts =
      k.both(isReal, b.bitOr(k.negate(exceeds), b.less(index, k.numBlocks)));
  return {tile, k.ballot(acts), k.ballot(exceeds)};
}

/// All but the stage of a seam.
UnitRecord ProducerBuilder::prepareUnit(const LaneTile &tile) {
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
  record.previousEntry = tile.previousEntry;
  record.previousContributors = tile.previousContributors;
  return record;
}

void ProducerBuilder::publish(const LaneTile &tile, UnitRecord record,
                              Value stage) {
  Value isSeam = k.both(hasBit(tile.bits, kSeamBit), b.equal(tile.index, 0));
  record.seamStage = b.select(isSeam, stage, -1);
  k.publishUnit(tile.unit, record);
}

/// Tile `index` of the unit of `tile`.
PreparedTile ProducerBuilder::prepareTile(const LaneTile &tile, Value index,
                                          Value flags) {
  PreparedTile prepared;
  prepared.progress = tile.progress;
  Value isFolded = hasBit(tile.bits, kFoldedBit);
  Value tileRows = getTileRows(isFolded);
  TileRecord &record = prepared.record;
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
  Value boxRows = getBoxRows(isFolded);
  Value firstBox = b.divU(loadLow, boxRows);
  Value count = b.maxS(b.sub(b.ceilDiv(record.high, boxRows), firstBox), 0);
  TileBoxes &boxes = prepared.boxes;
  boxes.column = record.column;
  boxes.row = b.add(record.row, b.sub(tile.start, tile.outStart));
  boxes.segment = tile.segment;
  boxes.numbers = b.bitOr(b.bitOr(firstBox, b.shiftLeft(count, 4)),
                          b.bitOr(b.shiftLeft(k.toWord(isFolded), 8),
                                  b.shiftLeft(getLoadsInFlight(tile), 12)));
  return prepared;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// How many tiles may be on their way at once, with this one.
Value ProducerBuilder::getLoadsInFlight(const LaneTile &tile) {
  // Rows beside tiles are loads that this does not count.
  if (k.tile.hasRows())
    return b.i32(kNoLimit);
  Value isShort = b.lessEqual(tile.tiles, kShortTiles);
  Value isTall = b.less(b.mul(k.numBlocks, kTallTilesPerBlock), tile.tiles);
  Value limit = b.select(isTall, b.i32(kTallLoadsInFlight), kLoadsInFlight);
  return b.select(isShort, b.i32(kNoLimit), limit);
}

/// Rows of 128 bytes use memory badly. The blocks that load the same rows of
/// interleaved units share them: each fetches some of the rows for all units to
/// the second-level cache, shortly before.
void ProducerBuilder::prefetchShare(const LaneTile &tile,
                                    const TileBoxes &boxes) {
  Value share = b.bitAnd(tile.columnBlock, kInterleavedUnits - 1);
  Value firstBlock = b.sub(tile.columnBlock, share);
  SmallVector<Value> coordinates{b.mul(firstBlock, k.getTileColumns()),
                                 b.add(boxes.row, b.mul(share, kShareRows))};
  if (isSegmentDim(k.problem))
    coordinates.push_back(boxes.segment);
  createTensorPrefetch(b, k.shareMap, coordinates);
}

void ProducerBuilder::loadBoxes(const TileBoxes &boxes, Value stage) {
  Value first = b.bitAnd(boxes.numbers, 15);
  Value count = b.bitAnd(b.shiftRight(boxes.numbers, 4), 15);
  Value isFolded = k.isNonZero(b.bitAnd(b.shiftRight(boxes.numbers, 8), 15));
  Value barrier = k.ring.getFullBarrier(stage);
  createArriveExpecting(b, barrier, b.mul(count, kBoxBytes));
  Value shared = b.offsetBytes(k.getStage(stage), b.mul(first, kBoxPitch));
  auto loadAll = [&](Value map, int64_t boxRows) {
    Value row = b.add(boxes.row, b.mul(first, boxRows));
    for (int64_t box : llvm::seq(kBoxes))
      b.createIf(b.less(b.i32(box), count), [&] {
        SmallVector<Value> coordinates{boxes.column, b.add(row, box * boxRows)};
        if (isSegmentDim(k.problem))
          coordinates.push_back(boxes.segment);
        createTensorLoad(b, map, coordinates,
                         b.offsetBytes(shared, box * kBoxPitch), barrier);
      });
  };
  b.createIf(
      isFolded, [&] { loadAll(k.foldedMap, 2 * kBoxLines); },
      [&] { loadAll(k.map, kBoxLines); });
}

/// Loads a tile; the lane `isIssuer` knows which. Once there is a stage,
/// `publish` runs there first.
RingPosition ProducerBuilder::issue(const PreparedTile &tile, Value isIssuer,
                                    RingPosition position,
                                    function_ref<void()> publish) {
  k.ring.createWaitEmpty(position);
  Value limit = b.shiftRight(tile.boxes.numbers, 12);
  b.createIf(b.compare(arith::CmpIPredicate::ne, limit, kNoLimit),
             [&] { k.ring.createWaitFull(k.ring.getBefore(position, limit)); });
  b.createIf(isIssuer, [&] {
    k.advanceTiles(tile.progress);
    if (publish)
      publish();
    k.storeTileRecord(position.stage, tile.record);
    loadBoxes(tile.boxes, position.stage);
  });
  k.syncWarp();
  return k.ring.getNext(position);
}

/// A unit that is larger than the ring is read whole for its magnitudes; the
/// last tiles stay, and the others are read again.
RingPosition ProducerBuilder::issueLargeUnit(const LaneTile &tile,
                                             RingPosition position) {
  k.ring.createWaitEmpty(position);
  b.createIf(k.isFirstLane,
             [&] { publish(tile, prepareUnit(tile), position.stage); });
  Value count = b.ceilDiv(b.sub(tile.tiles, tile.index), k.numBlocks);
  // Two stages are left for reading ahead.
  Value again = b.sub(count, k.tile.stages - 2);
  SmallVector<Value> result = b.createRareFor(
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
        RingPosition next = issue(prepareTile(tile, index, flags),
                                  k.isFirstLane, {carried[0], carried[1]},
                                  /*publish=*/nullptr);
        return SmallVector<Value>{next.stage, next.parity};
      });
  return {result[0], result[1]};
}

/// The lanes take turns; each has prepared what it can before, and fetches its
/// share when it is next.
RingPosition ProducerBuilder::issueLanes(const LaneTiles &lanes,
                                         RingPosition position) {
  Type i32 = b.getI32Type();
  const LaneTile &tile = lanes.tile;
  Value flags = b.bitOr(b.i32(tile_flags::kMeasure | tile_flags::kConvert),
                        bitIf(hasBit(tile.bits, kLastBit), tile_flags::kPost));
  PreparedTile prepared = prepareTile(tile, tile.index, flags);
  UnitRecord unit = prepareUnit(tile);
  Value isNewUnit = hasBit(tile.bits, kNewUnitBit);
  Value hasTile = hasBit(b.shiftRight(lanes.acts, k.lane), 1);
  // Rows are read as wholes where they are quantized, too.
  Value fetches = k.tile.hasRows()
                      ? b.i1(false)
                      : k.both(hasTile, k.isNonZero(getInterleave(tile.bits)));
  Value anyFetches = k.voteAny(fetches);
  auto prefetchIf = [&](Value isNext) {
    b.createIf(anyFetches, [&] {
      b.createIf(k.both(fetches, isNext),
                 [&] { prefetchShare(tile, prepared.boxes); });
      k.syncWarp();
    });
  };
  prefetchIf(k.isFirstLane);
  SmallVector<Value> result = k.createWhile(
      {position.stage, position.parity, lanes.acts}, {i32, i32, i32},
      [&](ValueRange carried) {
        return std::pair(k.isNonZero(carried[2]),
                         llvm::to_vector_of<Value>(carried));
      },
      [&](ValueRange carried) {
        RingPosition position{carried[0], carried[1]};
        Value turn = LLVM::CountTrailingZerosOp::create(
            b, i32, carried[2], /*is_zero_poison=*/true);
        Value others = b.bitAnd(carried[2], b.sub(carried[2], 1));
        prefetchIf(b.equal(k.lane, b.add(turn, 1)));
        Value exceeds = b.bitAnd(lanes.exceeds, b.bitXor(carried[2], others));
        SmallVector<Value> next = b.createIf(
            k.isNonZero(exceeds), {i32, i32},
            [&] {
              LaneTile large;
              for (auto member : LaneTile::members())
                large.*member = b.shuffleIndex(tile.*member, turn);
              RingPosition next = issueLargeUnit(large, position);
              return SmallVector<Value>{next.stage, next.parity};
            },
            [&] {
              // Known to be the same in all lanes, boxes take few registers.
              PreparedTile current = prepared;
              for (auto member : TileBoxes::members())
                current.boxes.*member =
                    b.shuffleIndex(prepared.boxes.*member, turn);
              RingPosition next =
                  issue(current, b.equal(k.lane, turn), position, [&] {
                    b.createIf(isNewUnit,
                               [&] { publish(tile, unit, position.stage); });
                  });
              return SmallVector<Value>{next.stage, next.parity};
            });
        next.push_back(others);
        return next;
      });
  return {result[0], result[1]};
}

/// Tells each convert team and each scale warp that there is no more; the
/// measure warps see the first of these. `tail` is the first row of the output
/// that belongs to no segment.
void ProducerBuilder::finish(Value unit, RingPosition position, Value tail) {
  b.createIf(k.isFirstLane, [&] {
    for (int64_t team = 0; team < k.tile.convertTeams; ++team) {
      k.ring.createWaitEmpty(position);
      k.storeEndRecord(position.stage, tail);
      createArrive(b, k.ring.getFullBarrier(position.stage));
      position = k.ring.getNext(position);
    }
    for (int64_t i : llvm::seq(k.tile.scaleWarps))
      k.publishEndUnit(b.add(unit, i + 1));
    if (k.tile.hasRows())
      k.announce(k.getTileProgress(), b.i32(kAllRead));
  });
}

void ProducerBuilder::build() {
  Type i32 = b.getI32Type();
  constexpr size_t kStates = SegmentState::kSize;
  // Tile number, window, last unit, unit, position in the ring.
  SmallVector<Value> init{b.add(k.block, b.mul(k.lane, k.numBlocks))};
  llvm::append_range(init, createNextWindow(getFirstWindow()).toValues());
  RingPosition begin = k.ring.getPosition(b.i32(0));
  init.append({b.i32(-1), b.i32(-1), begin.stage, begin.parity});
  // The lanes' segments go on to the body.
  SmallVector<Type> types(init.size() + kStates, i32);

  SmallVector<Value> last = k.createWhile(
      init, types,
      [&](ValueRange carried) {
        SegmentState window =
            SegmentState::fromValues(carried.slice(1, kStates));
        SegmentState state = findSegments(carried[0], window);
        SmallVector<Value> values(carried);
        llvm::copy(window.toValues(), values.begin() + 1);
        llvm::append_range(values, state.toValues());
        return std::pair(k.voteAny(isInRange(state)), values);
      },
      [&](ValueRange values) {
        ValueRange rest = values.slice(1 + kStates, 4);
        Value lastUnit = rest[0], unit = rest[1];
        LaneTiles lanes = createLaneTiles(
            values[0], SegmentState::fromValues(values.take_back(kStates)),
            lastUnit, unit);
        RingPosition position = issueLanes(lanes, {rest[2], rest[3]});
        SmallVector<Value> next(values.drop_back(kStates));
        next[0] = b.add(values[0], b.mul(k.numBlocks, b.getSubgroupSize()));
        next[1 + kStates] = lastUnit;
        next[2 + kStates] = unit;
        next[3 + kStates] = position.stage;
        next[4 + kStates] = position.parity;
        return next;
      });
  // The last window has been reached, as no lane has a tile.
  SegmentState window =
      SegmentState::fromValues(ValueRange(last).slice(1, kStates));
  Value tail = getLastLane(b.add(
      window.outStart, b.roundUp(window.length, k.problem.outputPadding)));
  ValueRange rest = ValueRange(last).slice(1 + kStates, 4);
  finish(rest[1], {rest[2], rest[3]}, tail);
}

void fp8moe::buildStreamedProducer(StreamedKernel &kernel, Value) {
  ProducerBuilder(kernel).build();
}
