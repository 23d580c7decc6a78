//===- Producer.h - The warp that assigns tiles -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Declarations that the parts of the producer share. Segments.cpp finds the
// segments that tiles are in. Producer.cpp computes the tiles and loads them.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_PRODUCER_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_PRODUCER_H

#include "Kernels/Quantize/SinglePassOuter/Kernel.h"

namespace mlir::fp8moe::single_pass_outer {

/// Fields of SegmentState::shape: the log2 of the panels that are interleaved,
/// then flags.
constexpr BitField kInterleaveBits{0, 2};
/// The segment writes the sector that it shares with the previous one.
constexpr BitField kFixUpBit{2};
/// The next segment writes the sector that it shares with this one.
constexpr BitField kCutBit{3};
/// Flags of a lane's tile, in the same word. The tile is the block's first of
/// its panel.
constexpr BitField kNewPanelBit{4};
/// The tile is the block's last of its panel.
constexpr BitField kLastBit{5};

/// A segment, all i32. A window is 32 consecutive segments, one in each lane.
struct SegmentState {
  Value segment;
  /// The number of the segment's first tile, and the tiles of each of its
  /// panels.
  Value firstTile, tiles;
  /// First row and number of rows in the input, and first row in the output.
  Value start, length, outStart;
  /// Number of panels, rounded up to whole sets of interleaved panels.
  Value panels;
  Value shape;
  /// firstTile and tiles of the previous segment.
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

/// A tile of one lane, or of the warp after a broadcast. All values are i32.
struct LaneTile {
  Value bits;
  /// The panel: its index in this block, its first partial slot, its number of
  /// tiles, and how many blocks have tiles of it (contributors).
  Value panel, firstSlot, tiles, contributors;
  /// Index of this block among the contributors.
  Value contributor;
  /// Index of the tile in its panel.
  Value index;
  Value segment, columnBlock;
  /// The segment's rows in the input, and its first row in the output.
  Value start, length, outStart;
  /// First partial slot and contributors of the previous segment's panel with
  /// the same columns.
  Value previousSlot, previousContributors;
  /// The row that getTileProgress is set to; unused without rows.
  Value progress;

  static constexpr auto members() {
    using T = LaneTile;
    return std::array{&T::bits,         &T::panel,
                      &T::firstSlot,    &T::tiles,
                      &T::contributors, &T::contributor,
                      &T::index,        &T::segment,
                      &T::columnBlock,  &T::start,
                      &T::length,       &T::outStart,
                      &T::previousSlot, &T::previousContributors,
                      &T::progress};
  }
};

/// The tensor map boxes to load for a tile, all i32.
struct TileBoxes {
  /// The coordinates of box 0.
  Value column, row, segment;
  /// The fields below, in one word.
  Value numbers;
  /// The first box, the number of boxes, and whether one more box loads the
  /// rows above.
  static constexpr BitField kFirst{0, 4}, kCount{4, 4}, kLoadsAbove{8};

  static constexpr auto members() {
    using T = TileBoxes;
    return std::array{&T::column, &T::row, &T::segment, &T::numbers};
  }
};

/// A tile before it gets a stage of the ring.
struct PreparedTile {
  TileRecord record;
  TileBoxes boxes;
  Value progress;
};

/// The tiles of the lanes. `acts` has a bit for each lane that has a tile,
/// `exceeds` for each lane whose panel is larger than the ring.
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
  /// Whether each tile of a panel of `tiles` tiles is a span by itself.
  Value haveTilesAsSpans(Value tiles) {
    return k.problem.jagged ? b.lessEqual(tiles, kShortTiles) : b.i1(false);
  }
  /// Return the number of spans of `tiles` tiles, and how many tile numbers
  /// they take. Numbers are assigned as if each span were whole.
  Value getSpans(Value tiles) {
    Value whole = b.shiftRight(b.add(tiles, kSpanTiles - 1), kSpanLog);
    return b.select(haveTilesAsSpans(tiles), tiles, whole);
  }
  Value getNumbers(Value tiles) {
    return b.shiftLeft(getSpans(tiles), kSpanLog);
  }
  Value getNumberInSpan(Value number) {
    return b.bitAnd(number, kSpanTiles - 1);
  }
  /// Returns the number of the first tile after a segment.
  Value getTileEnd(const SegmentState &state) {
    return b.add(state.firstTile, b.mul(getNumbers(state.tiles), state.panels));
  }
  SegmentState lookUp(Value tileNumber, const SegmentState &window);
  SegmentState findSegments(Value tileNumber, SegmentState &window);
  Value isInRange(const SegmentState &state) {
    return b.less(state.segment, k.segments);
  }

  /// Returns the tiles of the lanes. Updates `lastPanel`, the first partial
  /// slot of the last lane's panel, and `panel`, the number of panels so far.
  LaneTiles createLaneTiles(Value tileNumber, const SegmentState &state,
                            Value &lastPanel, Value &panel);
  PanelRecord preparePanel(const LaneTile &tile);
  PreparedTile prepareTile(const LaneTile &tile, Value index, Value flags);
  RingPosition issueLanes(const LaneTiles &lanes, RingPosition position);
  RingPosition issueLargePanel(const LaneTile &tile, RingPosition position);
  RingPosition issue(const PreparedTile &tile, Value isIssuer,
                     RingPosition position, function_ref<void()> publish);
  void waitForLoads(RingPosition position);
  void prefetchFirstRows();
  void prefetchShare(const LaneTile &tile, const TileBoxes &boxes);
  void loadBoxes(const TileBoxes &boxes, Value stage);
  void finish(Value panel, RingPosition position, Value remainder);

  SinglePassOuterKernel &k;
  KernelBuilder &b;
};

} // namespace mlir::fp8moe::single_pass_outer

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_PRODUCER_H
