//===- Kernel.h - Quantize from one read ------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The quantize kernel of a single pass over an outer reduction: the input's
// columns are contiguous, the output's rows, and the input is read once. At
// most one block per multiprocessor runs as long as there is work. Warps have
// roles, and a tile passes from role to role:
//
//   producer   loads tiles into the stages of a ring by TMA
//   reduce     the largest magnitudes of each tile; when the block's share of a
//              panel (some columns of one segment) is done, posts them for all
//              blocks
//   scale      collects what all blocks posted for a panel: the scales
//   convert    quantizes the tile that is still in the ring, and stores it
//   rows       (only where both axes are asked for) copy whole rows to shared
//              memory by themselves, reduce, quantize and store them
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

/// The log2 of the panels whose tiles are interleaved, where they are.
constexpr int64_t kInterleaveLog = 2;
constexpr int64_t kInterleavedPanels = 1 << kInterleaveLog;
/// The rows of a tile in as many shares: each block fetches one share of all of
/// the panels.
constexpr int64_t kShareRows = kLines / kInterleavedPanels;

/// Partial slots of posted magnitudes that a scale warp reads in one trip to
/// memory, four for each chunk that a lane has in flight. Panels of more
/// contributors have relays: the first of so many neighbouring contributors
/// reads what they posted and posts the largest of it, to the partial slot
/// after its own. Trips of 32 partial slots made the weights of 16 experts 7%
/// slower: the L2 cache delivers partial slots besides tiles.
constexpr int64_t kTripSlots = 12;
/// Final panels have no relays up to so many contributors: each block reads all
/// that they posted, one trip to memory less when nothing else is under way.
constexpr int64_t kFinalEntries = 32;
} // namespace single_pass_outer

/// The work on a tile; flags of TileRecord::flags.
namespace tile_flags {
constexpr BitField kReduce{0};
constexpr BitField kConvert{1};
/// The block's last tile of the panel: post the magnitudes.
constexpr BitField kPost{2};
/// No tile; the role is done.
constexpr BitField kEnd{3};
/// A line holds two rows of half as many columns.
constexpr BitField kTwoRow{4};
/// The rows before the first one, in the same sector of the output, belong to
/// the previous segment, and are written with its scales.
constexpr BitField kFixUp{5};
/// Where columns begin anywhere, words of 16 bytes of the output that have rows
/// of two tiles are written by the lower one: whether this one has the rows
/// above the tile to write, and whether its own last ones are left to another.
constexpr BitField kHasAbove{6};
constexpr BitField kLeavesLast{7};
} // namespace tile_flags

/// The members of a record that are named, as loops carry them, and back.
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

/// A tile in the ring, all i32. Rows are numbered as in the output.
struct TileRecord {
  Value flags;
  /// The panel's number in this block, and where its magnitudes go.
  Value panel, slot;
  Value segment;
  /// The first row and column.
  Value row, column;
  /// The first row in the input, whose groups are not padded.
  Value inputRow;
  /// The fields below, in one word, as convert teams keep it in a register: of
  /// rows within the tile, up to 256, those with data are [low, high), those to
  /// write [low, paddedHigh).
  Value bounds;
  static constexpr BitField kLow{0, 10}, kHigh{10, 10}, kPaddedHigh{20, 10};

  static constexpr auto members() {
    using T = TileRecord;
    return std::array{&T::flags, &T::panel,  &T::slot,     &T::segment,
                      &T::row,   &T::column, &T::inputRow, &T::bounds};
  }
};

/// The work of a convert team when there are no more tiles, all i32.
struct EndRecord {
  /// The first row of the output behind all segments.
  Value remainder;
  /// Which share of the rows from there on is the team's.
  Value share;
};

/// A panel of which a block has tiles, all i32.
struct PanelRecord {
  /// The first partial slot of posted magnitudes, and the log2 of the distance
  /// to the next one in spans; their number, negative when the role is done.
  Value slot, interleave, contributors;
  Value segment, column;
  /// 1 when the set of the panel and all later ones are within one round of
  /// spans, so that no block that has tiles of it has tiles of a later panel.
  Value isFinal;
  /// 1 when two rows share a line.
  Value isTwoRow;
  /// Which of the contributors this block is. The first one writes the scales.
  Value contributor;
  /// 1 when the block's first tile also has rows of the previous segment, and
  /// where that segment's magnitudes are.
  Value hasFixUp, previousSlot, previousContributors;
};

/// Events of a panel, each with an mbarrier: its record is there; the block's
/// reduce warps have posted their words, before which nothing of others is
/// worth reading; its scales are there.
enum class PanelEvent { Published, Posted, Scales };

/// Progress value of a producer that has loaded everything: beyond all rows.
constexpr int64_t kAllRead = (int64_t(1) << 31) - 1;

/// Named barriers: those that begin the producer, and all other warps.
constexpr int64_t kProducerBarrier = 1, kOthersBarrier = 2;

/// Bytes that a lane reads or writes at once.
constexpr int64_t kChunkBytes = 16;
/// So many are in a line.
constexpr int64_t kLineChunks = single_pass_outer::kLineBytes / kChunkBytes;

/// Whether the input has a dimension of segments besides those of rows and
/// columns.
inline bool isSegmentDim(const AxisQuantizeProblem &problem) {
  return !problem.jagged && problem.sizes.inSegment != 0;
}

/// Where the quantization along rows goes, in elements: row r of the output
/// begins at r * pitch and is contiguous, its scale is at r * scaleStride.
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
  /// Only where the tile has rows, as the pointers are.
  const RowOutput &rowOutput;
  QuantizeMath math;
  QuantizeSizes<Value> sizes;
  /// In global memory; `partialSlots` are those of posted magnitudes.
  Value offsets, input, output, scales, scratch, partialSlots;
  Value rowQuantized, rowScales;
  /// Tensor maps of the input: of whole tiles, with full lines and with two-row
  /// ones, of boxes, and of a share of interleaved panels.
  Value tileMap, twoRowMap, boxMap, shareMap;

  // All i32.
  Value lane, warp, block, numBlocks, isFirstLane;
  Value segments, rows, columns;
  /// The log2 of the tiles in a span, and their number.
  Value spanLog, spanTiles;

  /// i1: chunks of rows of every column of the output are aligned.
  Value isAligned;
  /// The stages that are used (i32): fewer than the tile has where columns
  /// begin anywhere.
  Value usedStages;
  StageRing ring;

  /// Initialises mbarriers and partial slots, and begins to meet the other
  /// blocks. Other warps than the producer then have waited for earlier
  /// kernels; it waits by itself.
  void initialize(Value numSlots);
  /// By the producer, before it uses mbarriers.
  void beginProducer();

  int64_t getInputBytes() const { return math.getInputBytes(); }
  /// Columns of a tile, with one row a line.
  int64_t getTileColumns() const {
    return single_pass_outer::kLineBytes / getInputBytes();
  }

  Value getStage(Value stage);
  /// Where the kBoxLines rows above the tile of a stage are, where columns
  /// begin anywhere.
  Value getRowsAbove(Value stage);
  /// Where the lanes of a group of a convert warp exchange columns then:
  /// kGroupLanes below each other.
  static constexpr int64_t kGroupLanes = 8;
  Value getExchange(Value warp, Value group);
  void storeTileRecord(Value stage, const TileRecord &record);
  /// The record that there is no more, one for each convert team.
  void storeEndRecord(Value stage, const EndRecord &record);
  Value isEnd(Value stage);
  EndRecord loadEndRecord(Value stage);
  TileRecord loadTileRecord(Value stage);
  /// Where chunk `chunk` of a line is in a stage: the hardware swizzles chunks
  /// by the line's address, those of two-row lines within each half.
  Value getChunkOffset(Value line, Value chunk);
  Value getTwoRowChunkOffset(Value line, Value lineHalf, Value chunk);
  /// By every thread of a warp, when it has read what it needs of a stage.
  void releaseStage(Value stage);

  // Panels, and their scales in shared memory.
  void publishPanel(Value panel, const PanelRecord &record);
  void publishEndPanel(Value panel);
  Value isEndPanel(Value panel);
  PanelRecord loadPanelRecord(Value panel);
  /// The scales of a panel: an f32 for every two bytes of a line.
  Value getPanelScales(Value panel);
  /// Scales for the rows of the previous segment, where the panel has a fix-up.
  Value getFixUpScales(Value panel);
  void signal(PanelEvent event, Value panel);
  void wait(PanelEvent event, Value panel);
  /// By the first scale warp: waits until all blocks have zeroed the partial
  /// slots that they post to, and tells the other scale warps.
  void meetOtherBlocks();
  void waitForGridReady() {
    kernel::WaitParityOp::create(b, readyBarrier, b.i32(0));
  }

  // Rows in shared memory, and what the producer of tiles and the warps of rows
  // tell each other.
  Value getRowStage(Value stage);
  Value getRowBarrier(Value stage);
  /// The number of the row, of the block's, that a stage is loaded with.
  Value getRowNumber(Value stage);
  /// How far each is, as a row: that which it loads, for tiles one in
  /// proportion to those of the segment.
  Value getTileProgress();
  Value getRowProgress();
  /// Writes one of these words, which never decrease: several may write one.
  void announce(Value pointer, Value value);
  /// Says in `own` that `row` is about to be read, and waits until `other` is
  /// not far behind.
  void keepPace(Value own, Value row, Value other);
  // These do nothing without rows.
  /// The row, of `length` from `start` on, that is as far among them as number
  /// `index` of `count` tiles is among these.
  Value getRowOfTile(Value index, Value count, Value start, Value length);
  /// By the producer, before it loads a tile: says how far tiles are, and waits
  /// until rows are not far behind.
  void advanceTiles(Value row);
  /// How far, in rows, one may be ahead of the other.
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
  /// The end of a segment's rows, between 0 and all rows.
  Value loadEnd(Value segment);
  void storeScale(Value segment, Value column, Value scale);
  /// Whether a tile may have rows of two segments to write.
  bool haveFixUps() const {
    return problem.jagged && problem.outputPadding == 1;
  }

  /// The sign bits of a word of magnitudes, as many as in one of input. Posted
  /// words have them set, empty ones do not.
  int64_t getSignBits() const {
    return getInputBytes() == 4 ? 0x80000000 : 0x80008000;
  }
  /// Combines words over lanes that differ in the bit `mask` and in those
  /// below, one for each halving of the number of words. A lane keeps the one
  /// of n words whose number is in these lane bits, highest first.
  Value createScatteredMax(SmallVector<Value> words, int64_t mask);

private:
  void prefetchEnds();
  void initializeBarriers();
  void initializeRows();
  /// The threads of beginProducer: the producer, and the warps that initialise
  /// what it uses.
  int64_t getProducerThreads() const;
  void zeroEntries(Value numSlots, int64_t firstWarp, int64_t endWarp);
  Value getShared(int64_t offset, Value index, int64_t bytes);
  /// An mbarrier of those with this name.
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

/// The kernel of a problem with columns contiguous in the input and rows in the
/// output. Its parameters are the tensor maps of the input: of whole tiles,
/// with full lines and with two-row ones, of boxes, and of a share of
/// interleaved panels; offsets (jagged only), input, output, scales and
/// scratch; the dynamic sizes in the order of `members`, and the number of
/// partial slots in the scratch; where segments are not jagged, the log2 of the
/// tiles in a span. Where the tile has rows, the pointers go on with quantized
/// rows and their scales.
void buildSinglePassOuterQuantize(Location loc, gpu::GPUModuleOp module,
                                  StringRef name,
                                  const AxisQuantizeProblem &problem,
                                  const SinglePassOuterTile &tile,
                                  const RowOutput &rowOutput,
                                  const TargetInfo &target);

// The roles. `warp` counts within the role.
void buildSinglePassOuterProducer(SinglePassOuterKernel &kernel, Value warp);
void buildSinglePassOuterReduce(SinglePassOuterKernel &kernel, Value warp);
void buildSinglePassOuterScale(SinglePassOuterKernel &kernel, Value warp);
void buildSinglePassOuterConvert(SinglePassOuterKernel &kernel, Value warp);
void buildSinglePassOuterRows(SinglePassOuterKernel &kernel, Value warp);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_SINGLEPASSOUTER_KERNEL_H
