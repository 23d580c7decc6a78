//===- Producer.cpp - Deals tiles and loads them --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// All tiles are numbered: by segment, by panel (a block of columns), by row;
// the blocks of the grid take spans of them in turn. A short jagged panel
// leaves numbers unused (kShortTiles); lanes with these have no tile. A segment
// whose panels are tall enough that they would be read one at a time
// interleaves the spans of four, so that what is read at once is wider. The
// lanes of the producer warp look at 32 jagged segments at a time, then work
// out one tile each, with what others must know about it. Then they take turns:
// the whole warp waits for a stage, and the tile's lane issues the copies.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/SinglePassOuter/Producer.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Most tiles of a block with loads in flight. The ring has more stages, for
/// tiles that wait for scales. Loads beyond those that saturate memory only
/// delay each other, and the magnitudes that blocks exchange. Four are up to 2%
/// better for short panels, and up to 4% worse for others.
static constexpr int64_t kLoadsInFlight = 3;

/// Boxes, of a tile's bytes each, that a block prefetches to L2 before it knows
/// its tiles. Knowing them takes a round trip to memory, so first tiles arrive
/// half a microsecond sooner (3072x2880 in 5 groups 13.8 -> 12.9 us). One box
/// is worse by 1% to 3%, as are three.
static constexpr int64_t kEarlyBoxes = 2;

ProducerBuilder::ProducerBuilder(SinglePassOuterKernel &kernel)
    : k(kernel), b(kernel.b) {
  assert(getStagesWithRowsAbove(k.tile) >= kLoadsInFlight &&
         "loads in flight need as many stages");
}

//===----------------------------------------------------------------------===//
// Tiles of the lanes
//===----------------------------------------------------------------------===//

LaneTiles ProducerBuilder::createLaneTiles(Value tileNumber,
                                           const SegmentState &state,
                                           Value &lastPanel, Value &panel) {
  KernelBuilder::Step step(b, "find_tiles_of_lanes");
  Value inRange = isInRange(state);
  Value interleave = kInterleaveBits.get(b, state.shape);
  // Blocks that share a panel.
  Value share = b.shiftRight(k.numBlocks, interleave);

  Value relative = b.sub(tileNumber, state.firstTile);
  Value setTiles = b.select(
      inRange, b.shiftLeft(getNumbers(state.tiles), interleave), kSpanTiles);
  Value set = b.divU(relative, setTiles);
  Value inSet = b.sub(relative, b.mul(set, setTiles));
  Value spanInSet = b.shiftRight(inSet, kSpanLog);
  Value inSpan = getNumberInSpan(inSet);
  Value panelInSet =
      b.bitAnd(spanInSet, b.sub(b.shiftLeft(b.i32(1), interleave), 1));
  Value span = b.shiftRight(spanInSet, interleave);
  Value isSpan = haveTilesAsSpans(state.tiles);
  Value tilesInSpan = b.select(isSpan, b.i32(1), kSpanTiles);
  Value index = b.add(b.mul(span, tilesInSpan), inSpan);
  Value columnBlock = b.add(b.shiftLeft(set, interleave), panelInSet);
  // The tile number of the first one of the panel.
  Value firstSlot = b.add(b.add(state.firstTile, b.mul(set, setTiles)),
                          b.shiftLeft(panelInSet, kSpanLog));
  firstSlot = b.select(inRange, firstSlot, -1);

  Value column = b.mul(columnBlock, k.getTileColumns());
  Value isTile =
      k.both(b.less(inSpan, tilesInSpan), b.less(index, state.tiles));
  Value isReal = k.both(k.both(inRange, isTile), b.less(column, k.columns));
  // As whole spans a block may have some tiles more than the ring has stages:
  // those that convert teams hold have none.
  static_assert(kSpanTiles - 1 <= SinglePassOuterTile::kConvertTeams);
  Value exceeds = b.less(b.mul(k.numBlocks, k.usedStages), state.tiles);

  Value previous = b.shuffleIndex(firstSlot, b.maxS(b.sub(k.lane, 1), 0));
  previous = b.select(k.isFirstLane, lastPanel, previous);
  Value isNewPanel =
      k.both(isReal, b.compare(arith::CmpIPredicate::ne, firstSlot, previous));
  auto countBits = [&](Value bits) -> Value {
    return LLVM::CtPopOp::create(b, b.getI32Type(), bits);
  };
  Value newPanels = b.ballot(isNewPanel);
  // All bits up to that of this lane; 2 << 31 is 0.
  Value lanesToHere = b.sub(b.shiftLeft(b.i32(2), k.lane), 1);

  LaneTile tile;
  tile.panel = b.add(panel, countBits(b.bitAnd(newPanels, lanesToHere)));
  panel = b.add(panel, countBits(newPanels));
  lastPanel = b.shuffleIndex(firstSlot, b.i32(b.getSubgroupSize() - 1));

  tile.firstSlot = firstSlot;
  // Lanes without a tile divide by it, too.
  Value spans = getSpans(state.tiles);
  tile.contributors = b.maxS(b.minS(spans, share), 1);
  tile.contributor = b.remU(span, tile.contributors);
  Value isLast = k.both(b.lessEqual(spans, b.add(span, share)),
                        b.bitOr(b.equal(b.add(inSpan, 1), tilesInSpan),
                                b.lessEqual(state.tiles, b.add(index, 1))));
  tile.bits = b.bitOr(state.shape, b.bitOr(kNewPanelBit.setIf(b, isNewPanel),
                                           kLastBit.setIf(b, isLast)));
  tile.segment = state.segment;
  tile.columnBlock = columnBlock;
  tile.index = index;
  tile.tiles = state.tiles;
  tile.start = state.start;
  tile.length = state.length;
  tile.outStart = state.outStart;
  // Panels of few tiles are not interleaved.
  tile.previousSlot = b.add(
      state.previousFirst, b.mul(columnBlock, getNumbers(state.previousTiles)));
  tile.previousContributors =
      b.minS(getSpans(state.previousTiles), k.numBlocks);
  tile.progress =
      k.getRowOfTile(relative, b.mul(getNumbers(state.tiles), state.panels),
                     state.start, state.length);

  // The first of a block's tiles stands for all when they exceed the ring.
  Value isFirst = k.both(b.less(span, k.numBlocks), b.equal(inSpan, 0));
  Value acts = k.both(isReal, b.bitOr(k.negate(exceeds), isFirst));
  return {tile, b.ballot(acts), b.ballot(exceeds)};
}

PanelRecord ProducerBuilder::preparePanel(const LaneTile &tile) {
  KernelBuilder::Step step(b, "prepare_panel");
  PanelRecord record;
  record.slot = tile.firstSlot;
  record.interleave = kInterleaveBits.get(b, tile.bits);
  record.contributors = tile.contributors;
  record.segment = tile.segment;
  record.column = b.mul(tile.columnBlock, k.getTileColumns());
  record.contributor = tile.contributor;
  record.previousSlot = tile.previousSlot;
  Value hasFixUp =
      k.both(kFixUpBit.isSet(b, tile.bits), b.equal(tile.index, 0));
  record.previousContributors =
      b.select(hasFixUp, tile.previousContributors, 0);
  return record;
}

/// Returns the record and boxes of tile `index` of the panel of `tile`.
PreparedTile ProducerBuilder::prepareTile(const LaneTile &tile, Value index,
                                          Value flags) {
  KernelBuilder::Step step(b, "prepare_tile");
  PreparedTile prepared;
  prepared.progress = tile.progress;
  TileRecord &record = prepared.record;
  record.panel = tile.panel;
  // A block posts to the partial slot that has the number of its first tile.
  record.slot =
      b.add(tile.firstSlot,
            b.shiftLeft(tile.contributor,
                        b.add(kInterleaveBits.get(b, tile.bits), kSpanLog)));
  record.segment = tile.segment;
  record.column = b.mul(tile.columnBlock, k.getTileColumns());
  record.row =
      b.add(b.bitAnd(tile.outStart, -kSectorRows), b.mul(index, kLines));
  Value first = b.sub(tile.outStart, record.row);
  Value end = b.add(first, tile.length);
  Value low = b.maxS(first, 0), high = b.clamp(end, 0, kLines);
  // The rows that are written: with the padding, or less the sector left to
  // others.
  Value writtenEnd =
      hasPadding()
          ? b.add(first, b.roundUp(tile.length, k.problem.outputPadding))
          : b.select(kCutBit.isSet(b, tile.bits), b.bitAnd(end, -kSectorRows),
                     end);
  record.bounds = b.bitOr(
      b.bitOr(TileRecord::kLow.place(b, low), TileRecord::kHigh.place(b, high)),
      TileRecord::kPaddedHigh.place(b, b.minS(writtenEnd, kLines)));
  Value isFirst = b.equal(index, 0);
  Value needsFixUp = k.both(kFixUpBit.isSet(b, tile.bits), isFirst);
  record.flags = b.bitOr(flags, tile_flags::kFixUp.setIf(b, needsFixUp));
  // Whether rows are left to others: if the segment ends in this tile and the
  // sector at its end is theirs, or if the data goes on below; and likewise
  // above.
  Value goesOn = b.less(b.i32(kLines), writtenEnd);
  Value cameFromAbove = k.negate(isFirst);
  if (hasPadding()) {
    goesOn = k.both(goesOn, b.lessEqual(b.i32(kLines), end));
    cameFromAbove = k.both(cameFromAbove, b.lessEqual(b.i32(0), end));
  }
  Value leavesLast = b.bitOr(goesOn, kCutBit.isSet(b, tile.bits));
  Value hasAbove = b.bitOr(cameFromAbove, needsFixUp);
  record.flags = b.bitOr(record.flags,
                         b.bitOr(tile_flags::kHasAbove.setIf(b, hasAbove),
                                 tile_flags::kLeavesLast.setIf(b, leavesLast)));
  Value loadLow = b.select(needsFixUp, b.bitAnd(low, -kSectorRows), low);
  Value firstBox = b.divU(loadLow, kBoxLines);
  Value count = b.maxS(b.sub(b.ceilDiv(high, kBoxLines), firstBox), 0);
  TileBoxes &boxes = prepared.boxes;
  boxes.column = record.column;
  record.inputRow = b.add(record.row, b.sub(tile.start, tile.outStart));
  boxes.row = record.inputRow;
  boxes.segment = tile.segment;
  Value range = b.bitOr(TileBoxes::kFirst.place(b, firstBox),
                        TileBoxes::kCount.place(b, count));
  Value loadsAbove =
      k.both(k.both(hasAbove, tile_flags::kConvert.isSet(b, flags)),
             k.negate(k.isAligned));
  Value above = TileBoxes::kLoadsAbove.place(b, k.toWord(loadsAbove));
  boxes.numbers = b.bitOr(range, above);
  return prepared;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Prefetches the first rows of the tensor to L2 while offsets are loading. For
/// short groups, the first tiles of all blocks are in these rows.
void ProducerBuilder::prefetchFirstRows() {
  int64_t boxColumns = kInterleavedPanels * k.getTileColumns();
  Value number = b.add(k.block, b.mul(k.lane, k.numBlocks));
  Value inLine = b.ceilDiv(k.columns, boxColumns);
  Value line = b.divU(number, inLine);
  Value row = b.mul(line, kShareRows);
  Value column = b.mul(b.sub(number, b.mul(line, inLine)), boxColumns);
  Value isBox = k.both(b.less(k.lane, kEarlyBoxes), b.less(row, k.rows));
  b.createIf(isBox, [&] {
    kernel::TensorPrefetchOp::create(b, k.shareMap, ValueRange{column, row});
  });
}

/// Prefetches the block's share of interleaved rows to L2, as rows of 128 bytes
/// use DRAM inefficiently. The blocks that load the same rows of interleaved
/// panels each prefetch some of these rows for all panels, shortly before their
/// loads.
void ProducerBuilder::prefetchShare(const LaneTile &tile,
                                    const TileBoxes &boxes) {
  Value share = b.bitAnd(tile.columnBlock, kInterleavedPanels - 1);
  Value firstBlock = b.sub(tile.columnBlock, share);
  SmallVector<Value> coordinates{b.mul(firstBlock, k.getTileColumns()),
                                 b.add(boxes.row, b.mul(share, kShareRows))};
  if (isSegmentDim(k.problem))
    coordinates.push_back(boxes.segment);
  kernel::TensorPrefetchOp::create(b, k.shareMap, coordinates);
}

void ProducerBuilder::loadBoxes(const TileBoxes &boxes, Value stage) {
  KernelBuilder::Step step(b, "load_boxes");
  Value first = TileBoxes::kFirst.get(b, boxes.numbers);
  Value count = TileBoxes::kCount.get(b, boxes.numbers);
  Value loadsAbove = TileBoxes::kLoadsAbove.get(b, boxes.numbers);
  Value barrier = k.ring.getFullBarrier(stage);
  kernel::ArriveExpectTxOp::create(b, barrier,
                                   b.mul(b.add(count, loadsAbove), kBoxBytes));
  Value shared = k.getStage(stage);
  auto load = [&](Value map, Value row, Value target) {
    SmallVector<Value> coordinates{boxes.column, row};
    if (isSegmentDim(k.problem))
      coordinates.push_back(boxes.segment);
    kernel::TensorLoadOp::create(b, target, map, coordinates, barrier);
  };
  b.createIf(b.isNonZero(loadsAbove), [&] {
    load(k.boxMap, b.sub(boxes.row, kBoxLines), k.getRowsAbove(stage));
  });
  Value isWhole = b.equal(count, kBoxes);
  b.createIf(
      isWhole, [&] { load(k.tileMap, boxes.row, shared); },
      [&] {
        b.createFor(first, b.add(first, count), 1, [&](Value box) {
          load(k.boxMap, b.add(boxes.row, b.mul(box, kBoxLines)),
               b.offsetBytes(shared, b.mul(box, kBoxBytes)));
        });
      });
}

/// Waits until only kLoadsInFlight - 1 tiles before `position` are on their
/// way.
void ProducerBuilder::waitForLoads(RingPosition position) {
  k.ring.createWaitFull(k.ring.getBefore(position, b.i32(kLoadsInFlight)));
}

/// Loads a tile, whose values are those of the lane with `isIssuer`. Runs
/// `publish` once a stage is free, before the load.
RingPosition ProducerBuilder::issue(const PreparedTile &tile, Value isIssuer,
                                    RingPosition position,
                                    function_ref<void()> publish) {
  KernelBuilder::Step step(b, "issue_tile");
  k.ring.createWaitEmpty(position);
  // Rows beside tiles are loads that this does not count.
  if (!k.tile.hasRows())
    waitForLoads(position);
  b.createIf(isIssuer, [&] {
    k.advanceTiles(tile.progress);
    if (publish)
      publish();
    k.storeTileRecord(position.stage, tile.record);
    loadBoxes(tile.boxes, position.stage);
  });
  b.syncSubgroup();
  return k.ring.getNext(position);
}

/// Loads a panel larger than the ring. All of its tiles are loaded for the
/// magnitudes; the last ones stay in the ring, and the others are loaded again.
RingPosition ProducerBuilder::issueLargePanel(const LaneTile &tile,
                                              RingPosition position) {
  k.ring.createWaitEmpty(position);
  b.createIf(k.isFirstLane,
             [&] { k.publishPanel(tile.panel, preparePanel(tile)); });
  Value count = b.ceilDiv(b.sub(tile.tiles, tile.contributor), k.numBlocks);
  // Two stages are left for reading ahead.
  Value again = b.sub(count, b.sub(k.usedStages, 2));
  SmallVector<Value> result = b.createRareFor(
      b.i32(0), b.add(count, again), 1, position.pack(),
      [&](Value step, ValueRange carried) {
        RingPosition position = RingPosition::unpack(carried);
        Value isSecond = b.lessEqual(count, step);
        Value number = b.select(isSecond, b.sub(step, count), step);
        Value stays = b.lessEqual(again, step);
        Value isLast = b.equal(step, b.sub(count, 1));
        Value firstFlags =
            b.bitOr(b.bitOr(b.i32(tile_flags::kReduce.getMask()),
                            tile_flags::kConvert.setIf(b, stays)),
                    tile_flags::kPost.setIf(b, isLast));
        Value flags = b.select(isSecond, b.i32(tile_flags::kConvert.getMask()),
                               firstFlags);
        Value index = b.add(tile.contributor, b.mul(number, k.numBlocks));
        // A tile that is read again does not wait for its scales. Were loads to
        // come in another order by a whole round of the ring, a convert team
        // could take one for that of the round before: a phase is a parity.
        if (k.tile.hasRows())
          waitForLoads(position);
        return issue(prepareTile(tile, index, flags), k.isFirstLane, position,
                     /*publish=*/nullptr)
            .pack();
      });
  return RingPosition::unpack(result);
}

/// Loads the tiles of the lanes, one lane after another. Each lane has prepared
/// its tile before, and prefetches its share when it is next.
RingPosition ProducerBuilder::issueLanes(const LaneTiles &lanes,
                                         RingPosition position) {
  const LaneTile &tile = lanes.tile;
  Value flags = b.bitOr(
      b.i32(tile_flags::kReduce.getMask() | tile_flags::kConvert.getMask()),
      tile_flags::kPost.setIf(b, kLastBit.isSet(b, tile.bits)));
  PreparedTile prepared = prepareTile(tile, tile.index, flags);
  PanelRecord panel = preparePanel(tile);
  Value isNewPanel = kNewPanelBit.isSet(b, tile.bits);
  Value hasTile = b.isNonZero(b.bitAnd(b.shiftRight(lanes.acts, k.lane), 1));
  // Rows are read as wholes where they are quantized, too.
  Value fetches =
      k.tile.hasRows()
          ? b.i1(false)
          : k.both(hasTile, b.isNonZero(kInterleaveBits.get(b, tile.bits)));
  Value anyFetches = b.voteAny(fetches);
  auto prefetchIf = [&](Value isNext) {
    b.createIf(anyFetches, [&] {
      b.createIf(k.both(fetches, isNext),
                 [&] { prefetchShare(tile, prepared.boxes); });
      b.syncSubgroup();
    });
  };
  prefetchIf(k.isFirstLane);
  SmallVector<Value> result = b.createWhile(
      {position.stage, position.parity, lanes.acts},
      [&](ValueRange carried) { return b.isNonZero(carried[2]); },
      [&](ValueRange carried) {
        RingPosition position = RingPosition::unpack(carried);
        Value turn = LLVM::CountTrailingZerosOp::create(
            b, b.getI32Type(), carried[2], /*is_zero_poison=*/true);
        Value others = b.bitAnd(carried[2], b.sub(carried[2], 1));
        Value following = LLVM::CountTrailingZerosOp::create(
            b, b.getI32Type(), others, /*is_zero_poison=*/false);
        prefetchIf(b.equal(k.lane, following));
        Value exceeds = b.bitAnd(lanes.exceeds, b.bitXor(carried[2], others));
        SmallVector<Value> next = b.createIf(
            b.isNonZero(exceeds),
            [&] {
              LaneTile large;
              for (auto member : LaneTile::members())
                large.*member = b.shuffleIndex(tile.*member, turn);
              return issueLargePanel(large, position).pack();
            },
            [&] {
              // Known to be the same in all lanes, boxes take few registers.
              PreparedTile current = prepared;
              for (auto member : TileBoxes::members())
                current.boxes.*member =
                    b.shuffleIndex(prepared.boxes.*member, turn);
              auto publish = [&] {
                b.createIf(isNewPanel,
                           [&] { k.publishPanel(tile.panel, panel); });
              };
              return issue(current, b.equal(k.lane, turn), position, publish)
                  .pack();
            });
        next.push_back(others);
        return next;
      });
  return RingPosition::unpack(result);
}

/// Ends the loops of each convert team and each scale warp by records; reduce
/// warps read the first of these. `remainder` is the first row of the output
/// that belongs to no segment.
void ProducerBuilder::finish(Value panel, RingPosition position,
                             Value remainder) {
  TileRecord end;
  for (auto member : TileRecord::members())
    end.*member = b.i32(0);
  end.flags = b.i32(tile_flags::kEnd.getMask());
  end.row = remainder;
  b.createIf(k.isFirstLane, [&] {
    for (int64_t team : llvm::seq(SinglePassOuterTile::kConvertTeams)) {
      k.ring.createWaitEmpty(position);
      end.panel = b.i32(team);
      k.storeTileRecord(position.stage, end);
      kernel::ArriveOp::create(b, k.ring.getFullBarrier(position.stage));
      position = k.ring.getNext(position);
    }
    for (int64_t i : llvm::seq(SinglePassOuterTile::kScaleWarps))
      k.publishEndPanel(b.add(panel, i + 1));
    if (k.tile.hasRows())
      k.announce(k.getTileProgress(), b.i32(kAllRead));
  });
}

void ProducerBuilder::build() {
  Type i32 = b.getI32Type();
  constexpr size_t kStates = SegmentState::kSize;
  bool hasWindows = k.problem.jagged;
  // Tile number, last panel, panel, position in the ring, and the window.
  constexpr size_t kFixed = 5;
  Value span =
      b.add(k.block, b.mul(b.shiftRight(k.lane, kSpanLog), k.numBlocks));
  // Not in `initialize`, so that the producer goes straight on to this code.
  kernel::WaitForPrerequisitesOp::create(b);
  if (hasWindows && !k.tile.hasRows())
    prefetchFirstRows();
  RingPosition begin = k.ring.getPosition(b.i32(0));
  SmallVector<Value> init{
      b.add(b.shiftLeft(span, kSpanLog), getNumberInSpan(k.lane)), b.i32(-1),
      b.i32(-1), begin.stage, begin.parity};
  SegmentState like;
  if (hasWindows)
    llvm::append_range(init, createNextWindow(getFirstWindow()).toValues());
  else
    like = createLikeSegment();
  // The lanes' segments go on to the body.
  SmallVector<Type> types(init.size() + kStates, i32);

  k.beginProducer();
  SmallVector<Value> last = b.createWhile(
      init, types,
      [&](ValueRange carried) {
        SmallVector<Value> values(carried.take_front(kFixed));
        SegmentState state;
        if (hasWindows) {
          SegmentState window =
              SegmentState::fromValues(carried.drop_front(kFixed));
          state = findSegments(carried[0], window);
          llvm::append_range(values, window.toValues());
        } else {
          state = findLikeSegment(carried[0], like);
        }
        llvm::append_range(values, state.toValues());
        return std::pair(b.voteAny(isInRange(state)), values);
      },
      [&](ValueRange values) {
        Value lastPanel = values[1], panel = values[2];
        LaneTiles lanes = createLaneTiles(
            values[0], SegmentState::fromValues(values.take_back(kStates)),
            lastPanel, panel);
        RingPosition position = issueLanes(lanes, {values[3], values[4]});
        SmallVector<Value> next{
            b.add(values[0], b.mul(k.numBlocks, b.getSubgroupSize())),
            lastPanel, panel, position.stage, position.parity};
        llvm::append_range(next, values.drop_back(kStates).drop_front(kFixed));
        return next;
      });
  Value remainder = b.i32(0);
  if (hasWindows) {
    // The last window has been reached, as no lane has a tile.
    SegmentState window =
        SegmentState::fromValues(ValueRange(last).slice(kFixed, kStates));
    remainder = getLastLane(b.add(
        window.outStart, b.roundUp(window.length, k.problem.outputPadding)));
  }
  finish(last[2], {last[3], last[4]}, remainder);
}

void fp8moe::buildSinglePassOuterProducer(SinglePassOuterKernel &kernel,
                                          Value) {
  ProducerBuilder(kernel).build();
}
