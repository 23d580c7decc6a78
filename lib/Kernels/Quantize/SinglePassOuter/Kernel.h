//===- Kernel.h - Quantize from one read ------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The quantize kernel of a single pass over an outer reduction: the input is
// contiguous along columns, the output along rows, and the input is read once.
// The kernel is persistent, with at most one block per multiprocessor. Warps
// have roles, and a tile passes from role to role:
//
//   producer   loads tiles into the stages of a ring by TMA
//   reduce     reduces the amax of each tile's columns; after the block's last
//              tile of a panel (some columns of one segment), posts the amax to
//              global memory for all blocks
//   scale      reduces what all blocks posted for a panel, computes the scales
//   convert    loads the tile from the ring to registers, quantizes it once its
//              scales are known, and stores it
//   rows       (only for both axes) copies whole rows to shared memory,
//              reduces, quantizes and stores them
//
// docs/design/kernels.md has a picture, and says why it is this way.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_KERNEL_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_KERNEL_H

#include "Kernels/Emit/BitField.h"
#include "Kernels/Emit/MemoryAccess.h"
#include "Kernels/Emit/NVIDIA/GridBarrier.h"
#include "Kernels/Emit/NVIDIA/StageRing.h"
#include "Kernels/Quantize/QuantizeMath.h"
#include "Kernels/Quantize/QuantizeSizes.h"
#include "Kernels/Quantize/SinglePassOuter/SinglePassOuterTiles.h"

namespace mlir::fp8moe {

namespace single_pass_outer {
/// Tiles begin at a multiple of this many output rows, the bytes of a sector:
/// a sector that two blocks write partly costs several times one that a block
/// writes alone.
constexpr int64_t kSectorRows = nvidia::kSectorBytes;

/// The log2 of the number of interleaved panels. A panel is the column of tiles
/// below each other in one segment.
constexpr int64_t kInterleaveLog = 2;
constexpr int64_t kInterleavedPanels = 1 << kInterleaveLog;
/// Rows of a share. Each block prefetches one share of the rows of a tile, as
/// wide as all of the interleaved panels.
constexpr int64_t kShareRows = kLines / kInterleavedPanels;

/// Partial slots that a scale warp reads in one round trip: four for each chunk
/// that a lane has in flight. (A block posts its amax of a panel to a partial
/// slot.) Panels with more contributing blocks have relays: the first of so
/// many neighbouring contributors reduces their slots into the slot after its
/// own. With 32 slots a trip the weights of 16 experts were 7% slower: the L2
/// cache delivers slots besides tiles.
constexpr int64_t kTripSlots = 12;
} // namespace single_pass_outer

/// The operations to perform on a tile: flags of TileRecord::flags.
namespace tile_flags {
constexpr BitField kReduce{0};
constexpr BitField kConvert{1};
/// The tile is the block's last of its panel, after which it posts the amax.
constexpr BitField kPost{2};
/// The record is no tile, and ends the role's loop. Its `row` is the first
/// output row after all segments. Its `panel` is the convert team that reads
/// it.
constexpr BitField kEnd{3};
/// The tile also writes the last rows of the previous segment, which share the
/// first sector of its output. They have that segment's scales.
constexpr BitField kFixUp{4};
/// For misaligned output columns, where the lower tile writes 16-byte words
/// with rows of two tiles. The tile writes rows above it; it leaves its last
/// rows to the tile below.
constexpr BitField kHasAbove{5};
constexpr BitField kLeavesLast{6};
} // namespace tile_flags

/// Convert the listed members of a record to loop-carried values, and back.
template <typename Record, size_t N>
SmallVector<Value> toValues(const Record &record,
                            const std::array<Value Record::*, N> &members) {
  return llvm::map_to_vector(members,
                             [&](auto member) { return record.*member; });
}
template <typename Record, size_t N>
Record fromValues(const std::array<Value Record::*, N> &members,
                  ValueRange values) {
  Record record;
  for (auto [member, value] : llvm::zip_equal(members, values))
    record.*member = value;
  return record;
}

/// The record of a tile in the ring, all i32. Rows are numbered as in the
/// output.
struct TileRecord {
  Value flags;
  /// The panel's index in this block, and the partial slot that its amax is
  /// posted to.
  Value panel, slot;
  Value segment;
  /// The first row and column.
  Value row, column;
  /// The first row in the input, whose groups are not padded.
  Value inputRow;
  /// The fields below in one word, to save a register of convert teams. Rows
  /// are relative to the tile, up to 128: [low, high) have data, and [low,
  /// paddedHigh) are written.
  Value bounds;
  static constexpr BitField kLow{0, 10}, kHigh{10, 10}, kPaddedHigh{20, 10};

  static constexpr auto members() {
    using T = TileRecord;
    return std::array{&T::flags, &T::panel,  &T::slot,     &T::segment,
                      &T::row,   &T::column, &T::inputRow, &T::bounds};
  }
};

/// The record of a panel with tiles of this block, all i32.
struct PanelRecord {
  /// The panel's first partial slot; the log2 of the distance between its
  /// slots, in spans; and the number of contributing blocks, negative to end
  /// the role's loop.
  Value slot, interleave, contributors;
  Value segment, column;
  /// Index of this block among the contributors. The first one writes the
  /// scales.
  Value contributor;
  /// The first partial slot, and the contributors, of the previous segment's
  /// panel. Without contributors the block has no rows of that segment.
  Value previousSlot, previousContributors;

  static constexpr auto members() {
    using P = PanelRecord;
    return std::array{&P::contributors, &P::slot,
                      &P::interleave,   &P::segment,
                      &P::column,       &P::contributor,
                      &P::previousSlot, &P::previousContributors};
  }
};

/// Events of a panel, each with an mbarrier. Published: its record can be read.
/// Posted: the block's reduce warps have posted, before which polling other
/// blocks is useless. Scales: its scales are in shared memory.
enum class PanelEvent { Published, Posted, Scales };

/// Progress value of a role that has loaded everything: beyond all rows.
constexpr int64_t kAllRead = (int64_t(1) << 31) - 1;

/// IDs of named barriers: for the producer's begin, and for that of all other
/// warps.
constexpr int64_t kProducerBarrier = 1, kOthersBarrier = 2;

/// Bytes that a lane reads or writes at once.
constexpr int64_t kChunkBytes = 16;
/// Chunks of a line.
constexpr int64_t kLineChunks = single_pass_outer::kLineBytes / kChunkBytes;

/// Whether the input has a dimension of segments besides those of rows and
/// columns.
inline bool isSegmentDim(const AxisQuantizeProblem &problem) {
  return !problem.jagged && problem.sizes.inSegment != 0;
}

/// Strides of the output of the quantization along rows, in elements. Row r
/// begins at r * pitch and is contiguous; its scale is at r * scaleStride.
struct RowOutput {
  int64_t pitch, scaleStride;
};

/// The state that all roles share.
class SinglePassOuterKernel {
public:
  SinglePassOuterKernel(KernelBuilder &b, const AxisQuantizeProblem &problem,
                        const SinglePassOuterTile &tile,
                        const RowOutput &rowOutput);

  KernelBuilder &b;
  const AxisQuantizeProblem &problem;
  const SinglePassOuterTile &tile;
  /// Only valid where the tile has rows, as are the row pointers below.
  const RowOutput &rowOutput;
  QuantizeMath math;
  QuantizeSizes<Value> sizes;
  /// Pointers to global memory. `partialSlots` is the scratch after the grid
  /// barrier's flags.
  Value offsets, input, output, scales, scratch, partialSlots;
  Value rowQuantized, rowScales;
  /// Tensor maps of the input, for boxes of a whole tile, kBoxLines lines, and
  /// a share of interleaved panels.
  Value tileMap, boxMap, shareMap;

  // All i32.
  Value lane, warp, block, numBlocks, isFirstLane;
  Value segments, rows, columns;

  /// i1: 16-byte chunks of each output column are contiguous and aligned.
  Value isAligned;
  /// Number of stages in use (i32). Where isAligned is false, there are fewer
  /// than the tile has.
  Value usedStages;
  StageRing ring;

  /// Initialises mbarriers and partial slots, and begins the grid barrier. All
  /// warps but the producer have waited for earlier kernels afterwards; the
  /// producer waits by itself.
  void initialize(Value numSlots);
  /// Called by the producer before it uses mbarriers.
  void beginProducer();

  int64_t getInputBytes() const { return math.getInputBytes(); }
  /// Columns of a tile.
  int64_t getTileColumns() const {
    return single_pass_outer::kLineBytes / getInputBytes();
  }

  Value getStage(Value stage);
  /// Returns the address of the kBoxLines rows above a stage's tile. Only
  /// loaded for misaligned output columns.
  Value getRowsAbove(Value stage);
  /// Returns the shared memory where a group of a convert warp exchanges
  /// columns, for misaligned columns. A group is kGroupLanes lanes with cells
  /// below each other.
  static constexpr int64_t kGroupLanes = 8;
  Value getExchange(Value warp, Value group);
  void storeTileRecord(Value stage, const TileRecord &record);
  Value isEnd(Value stage);
  TileRecord loadTileRecord(Value stage);
  /// Returns the offset of a chunk of a line in a stage. The TMA swizzle
  /// permutes chunks by the line's address.
  Value getChunkOffset(Value line, Value chunk);
  /// Releases a stage. Every thread of a warp calls it, after its last read.
  void releaseStage(Value stage);

  // Panels, and their scales in shared memory.
  void publishPanel(Value panel, const PanelRecord &record);
  void publishEndPanel(Value panel);
  Value isEndPanel(Value panel);
  PanelRecord loadPanelRecord(Value panel);
  /// Returns the address of a panel's scales: an f32 for every two bytes of a
  /// line.
  Value getPanelScales(Value panel);
  /// Returns the address of the scales for rows of the previous segment, where
  /// the panel has a fix-up.
  Value getFixUpScales(Value panel);
  void signal(PanelEvent event, Value panel);
  void wait(PanelEvent event, Value panel);
  /// Called by the first scale warp. Waits until all blocks have zeroed the
  /// partial slots that they post to, and signals the other scale warps.
  void meetOtherBlocks();
  void waitForGridReady() {
    kernel::WaitParityOp::create(b, readyBarrier, b.i32(0));
  }

  // Rows in shared memory, and the progress words by which the producer of
  // tiles and the row warps keep pace.
  Value getRowStage(Value stage);
  Value getRowBarrier(Value stage);
  /// Returns the address of the index, among the block's rows, of the row that
  /// a stage holds.
  Value getRowNumber(Value stage);
  /// Return the address of the progress of tiles and of rows, as a row index:
  /// the row being loaded. Tiles count in proportion to their segment's rows.
  Value getTileProgress();
  Value getRowProgress();
  /// Raises a progress word to `value` by an atomic maximum, as several warps
  /// may write it.
  void announce(Value pointer, Value value);
  /// Publishes in `own` that `row` is about to be loaded. Then waits until
  /// `other` is at most a limited distance behind.
  void keepPace(Value own, Value row, Value other);
  // These do nothing without rows.
  /// Returns the row at the position of tile `index` of `count`, scaled to the
  /// `length` rows from `start` on.
  Value getRowOfTile(Value index, Value count, Value start, Value length);
  /// Called by the producer before it loads a tile. Publishes the progress of
  /// tiles, and waits until rows are not far behind.
  void advanceTiles(Value row);
  /// Returns how many rows tiles and rows may be apart.
  int64_t getRowLead() const {
    return single_pass_outer::kLeadBytes / std::max<int64_t>(tile.rowBytes, 1);
  }

  // Short forms.
  Value both(Value lhs, Value rhs) { return b.bitAnd(lhs, rhs); }
  Value negate(Value condition) { return b.bitXor(condition, 1); }
  Value toWord(Value condition) {
    return b.zeroExtend(b.getI32Type(), condition);
  }
  Value laneBit(int64_t bit) { return b.isNonZero(b.bitAnd(lane, bit)); }
  /// Loads the end of a segment's rows, clamped to [0, rows].
  Value loadEnd(Value segment);
  void storeScale(Value segment, Value column, Value scale);
  /// Whether a tile may have rows of two segments to write.
  bool haveFixUps() const {
    return problem.jagged && problem.outputPadding == 1;
  }

  /// Returns the sign bits of a word of magnitudes: one for each input element.
  /// Posted words have them set; zeroed slots do not.
  int64_t getSignBits() const {
    return getInputBytes() == 4 ? 0x80000000 : 0x80008000;
  }
  /// Reduce-scatter of `words` by maximum over lanes that differ in bit `mask`
  /// and the bits below, one bit for each halving of the words. A lane gets the
  /// word whose index is in these lane bits, highest first.
  Value createScatteredMax(SmallVector<Value> words, int64_t mask);

private:
  void prefetchEnds();
  void initializeBarriers();
  void initializeRows();
  /// Returns the threads of kProducerBarrier: the producer, and the warp that
  /// initialises mbarriers.
  int64_t getProducerThreads() const;
  void zeroSlots(Value numSlots, int64_t firstWarp, int64_t endWarp);
  Value getShared(int64_t offset, Value index, int64_t bytes);
  /// Returns an mbarrier at `address`; printed kernels show `name`.
  Value getBarrier(StringRef name, Value address);
  Value getBarrier(PanelEvent event, Value panel);
  Value getTileRecord(Value stage);
  Value getPanelRecord(Value panel);
  Value getPanelSlot(Value panel) {
    return b.bitAnd(panel, tile.getPanelSlots() - 1);
  }

  std::optional<GridBarrier> gridBarrier;
  GridBarrierState gridBarrierState;
  Value shared, readyBarrier;
};

/// Builds the kernel of a problem, whose input is contiguous along columns and
/// the output along rows. Its parameters are: tensor maps of the input (whole
/// tiles, boxes, and a share of interleaved panels); the pointers offsets
/// (jagged only), input, output, scales and scratch, and, where the tile has
/// rows, quantized rows and their scales; the dynamic sizes in the order of
/// `members`. `numSlots` (i64) is the number of partial slots
/// in the scratch.
void buildSinglePassOuter(KernelBuilder &b, const AxisQuantizeProblem &problem,
                          const SinglePassOuterTile &tile,
                          const RowOutput &rowOutput, Value numSlots);

// The roles. `warp` counts within the role.
void buildSinglePassOuterProducer(SinglePassOuterKernel &kernel, Value warp);
void buildSinglePassOuterReduce(SinglePassOuterKernel &kernel, Value warp);
void buildSinglePassOuterScale(SinglePassOuterKernel &kernel, Value warp);
void buildSinglePassOuterConvert(SinglePassOuterKernel &kernel, Value warp);
void buildSinglePassOuterRows(SinglePassOuterKernel &kernel, Value warp);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_KERNEL_H
