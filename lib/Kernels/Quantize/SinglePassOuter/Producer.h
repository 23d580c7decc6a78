//===- Producer.h - The warp that assigns tiles -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Declarations that the parts of the producer share. Segments.cpp finds the
// segments that tiles are in; Producer.cpp works out the tiles and loads them.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_PRODUCER_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_PRODUCER_H

#include "Kernels/Quantize/SinglePassOuter/Kernel.h"

namespace mlir::fp8moe::single_pass_outer {

/// Fields of SegmentState::shape: the log2 of the panels that are interleaved,
/// then flags.
constexpr BitField kInterleaveBits{0, 2};
constexpr BitField kTwoRowBit{2};
/// The segment writes the sector that it shares with the previous one.
constexpr BitField kFixUpBit{3};
/// The next segment writes the sector that it shares with this one.
constexpr BitField kCutBit{4};
/// Flags of a lane's tile, in the same word.
constexpr BitField kNewPanelBit{5};
/// The block's last tile of the panel.
constexpr BitField kLastBit{6};

/// A segment, all i32. A window is 32 of them, one for each lane.
struct SegmentState {
  Value segment;
  /// The number of its first tile, and the tiles of each of its panels.
  Value firstTile, tiles;
  /// Its rows in the input, and its first row in the output.
  Value start, length, outStart;
  /// Panels, in whole sets of interleaved ones.
  Value panels;
  Value shape;
  /// firstTile and tiles of the segment before it.
  Value previousFirst, previousTiles;

  static constexpr auto members() {
    using S = SegmentState;
    return std::array{&S::segment,      &S::firstTile, &S::tiles,
                      &S::start,        &S::length,    &S::outStart,
                      &S::panels,       &S::shape,     &S::previousFirst,
                      &S::previousTiles};
  }
  static constexpr size_t kSize = 10;

  static SegmentState fromValues(ValueRange values) {
    static_assert(members().size() == kSize);
    return fp8moe::fromValues(members(), values);
  }
  SmallVector<Value> toValues() const {
    return fp8moe::toValues(*this, members());
  }
};

/// A tile of a lane, or after a broadcast of the warp, all i32.
struct LaneTile {
  Value bits;
  /// The panel's number in the block, the first of its partial slots, its
  /// tiles, and how many blocks have some of them.
  Value panel, firstSlot, tiles, contributors;
  /// Which of them the block is.
  Value contributor;
  /// As in PanelRecord.
  Value isFinal;
  /// The number of the tile in the panel.
  Value index;
  Value segment, columnBlock;
  /// The segment's rows in the input, and its first row in the output.
  Value start, length, outStart;
  /// Where the magnitudes of the same columns of the previous segment are.
  Value previousSlot, previousContributors;
  /// The tile's row for SinglePassOuterKernel::getTileProgress; not used
  /// without rows.
  Value progress;

  static constexpr auto members() {
    using T = LaneTile;
    return std::array{
        &T::bits,        &T::panel,        &T::firstSlot,
        &T::tiles,       &T::contributors, &T::contributor,
        &T::isFinal,     &T::index,        &T::segment,
        &T::columnBlock, &T::start,        &T::length,
        &T::outStart,    &T::previousSlot, &T::previousContributors,
        &T::progress};
  }
};

/// The boxes of a tile that are loaded, all i32.
struct TileBoxes {
  /// The coordinates of box 0.
  Value column, row, segment;
  /// The fields below.
  Value numbers;
  /// The first one, their number, 1 if they have two rows a line, 1 if the
  /// rows above are a box more, and how many tiles may be on their way with
  /// this one.
  static constexpr BitField kFirst{0, 4}, kCount{4, 4}, kIsTwoRow{8, 4},
      kLoadsAbove{12, 4}, kLoadsInFlight{16, 16};

  static constexpr auto members() {
    using T = TileBoxes;
    return std::array{&T::column, &T::row, &T::segment, &T::numbers};
  }
};

/// A tile before it has a stage.
struct PreparedTile {
  TileRecord record;
  TileBoxes boxes;
  Value progress;
};

/// The tiles of the lanes. The masks have a bit for each lane that has a tile,
/// and for each whose panel is larger than the ring.
struct LaneTiles {
  LaneTile tile;
  Value acts, exceeds;
};

class ProducerBuilder {
public:
  explicit ProducerBuilder(SinglePassOuterKernel &kernel);

  void build();

private:
  bool hasPadding() const { return k.problem.outputPadding > 1; }
  Value getPanelColumns(Value isTwoRow) {
    return b.select(isTwoRow, b.i32(k.getTileColumns() / 2),
                    k.getTileColumns());
  }
  Value getTileRows(Value isTwoRow) {
    return b.select(isTwoRow, b.i32(2 * kLines), kLines);
  }

  Value getLastLane(Value value) {
    return b.shuffleIndex(value, b.i32(b.getSubgroupSize() - 1));
  }
  Value shiftLanes(Value value, Value last);
  SegmentState getFirstWindow();
  SegmentState createNextWindow(const SegmentState &last);
  void divideSegment(SegmentState &state);
  SegmentState createLikeSegment();
  SegmentState findLikeSegment(Value tileNumber, const SegmentState &like);
  Value createEndAfter(Value segment, Value end);
  Value createCut(Value start, Value end, Value tiles, Value nextEnd);
  Value getInterleaveTiles(Value panels, Value tiles);
  /// Whether segments that are all alike, of so many panels, have at most so
  /// many tiles a block.
  Value haveAtMost(Value panels, Value tiles, int64_t tilesPerBlock) {
    return b.lessEqual(b.mul(k.segments, b.mul(panels, tiles)),
                       b.mul(k.numBlocks, tilesPerBlock));
  }
  /// Whether each tile of a panel of so many is a span.
  Value haveTilesAsSpans(Value tiles) {
    return k.problem.jagged ? b.lessEqual(tiles, kShortTiles) : b.i1(false);
  }
  /// The spans of so many tiles, and the numbers that tiles have: as if each
  /// span were whole.
  Value getSpans(Value tiles) {
    Value whole = b.shiftRight(b.add(tiles, b.sub(k.spanTiles, 1)), k.spanLog);
    return b.select(haveTilesAsSpans(tiles), tiles, whole);
  }
  Value getNumbers(Value tiles) {
    return b.shiftLeft(getSpans(tiles), k.spanLog);
  }
  Value getNumberInSpan(Value number) {
    return b.bitAnd(number, b.sub(k.spanTiles, 1));
  }
  /// The number of the first tile behind a segment.
  Value getTileEnd(const SegmentState &state) {
    return b.add(state.firstTile, b.mul(getNumbers(state.tiles), state.panels));
  }
  SegmentState lookUp(Value tileNumber, const SegmentState &window);
  SegmentState findSegments(Value tileNumber, SegmentState &window);
  Value isInRange(const SegmentState &state) {
    return b.less(state.segment, k.segments);
  }

  Value isFinalSet(const SegmentState &state, Value firstInSegment);
  /// The tiles of the lanes. `lastPanel` and `panel` are updated: the first
  /// partial slot of the last lane's panel, and the number of panels before.
  LaneTiles createLaneTiles(Value tileNumber, const SegmentState &state,
                            Value &lastPanel, Value &panel);
  PanelRecord preparePanel(const LaneTile &tile);
  PreparedTile prepareTile(const LaneTile &tile, Value index, Value flags);
  RingPosition issueLanes(const LaneTiles &lanes, RingPosition position);
  RingPosition issueLargePanel(const LaneTile &tile, RingPosition position);
  RingPosition issue(const PreparedTile &tile, Value isIssuer,
                     RingPosition position, function_ref<void()> publish);
  Value getLoadsInFlight(const LaneTile &tile);
  void prefetchFirstRows();
  void prefetchShare(const LaneTile &tile, const TileBoxes &boxes);
  void loadBoxes(const TileBoxes &boxes, Value stage);
  void finish(Value panel, RingPosition position, Value remainder);

  SinglePassOuterKernel &k;
  KernelBuilder &b;
};

} // namespace mlir::fp8moe::single_pass_outer

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_PRODUCER_H
