//===- Kernel.h - Roles of the grouped matmul -------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_HOPPER_KERNEL_H
#define FP8MOE_LIB_KERNELS_MATMUL_HOPPER_KERNEL_H

#include "Kernels/Emit/NVIDIA/StageRing.h"
#include "Kernels/Matmul/GroupedMatmul.h"
#include "Kernels/Matmul/Hopper/HopperTiles.h"
#include "Kernels/Matmul/Hopper/Wgmma.h"

namespace mlir::fp8moe {

/// Elements of the contraction that the tensor cores add up by themselves.
/// Their sums of FP8 products keep fewer bits than f32, so that the relative
/// error grows with the root of the length: 2.9e-5 per root of an element were
/// measured with normally distributed operands up to 131072 elements, beside
/// the 1.7e-3 of a bf16 result. So many elements make 6.6e-3 of the 8e-3 that
/// (G5) grants; what is longer is added up in f32 from parts.
constexpr int64_t kFastSumElements = 49152;

/// Whether a contraction may be too long for one sum of the tensor cores.
bool hasPartialSums(const GroupedMatmulProblem &problem);

/// Whether the problem's consumers are told their tiles, and its kernel's
/// shared memory.
bool sendsTileMessages(const GroupedMatmulProblem &problem,
                       const HopperMatmulConfig &config);
HopperMatmulMemory getMatmulMemory(const GroupedMatmulProblem &problem,
                                   const HopperMatmulConfig &config);

/// Whether f32 sums are added to the result in memory as they are stored, by a
/// TMA reduction in the L2 cache, so that no thread loads the addend; the
/// result then has to begin as the addend (AddendCopy.h). bf16 sums are rounded
/// once, after the addition in f32, so their addend is loaded.
inline bool addsInMemory(const GroupedMatmulProblem &problem) {
  return problem.accumulates && problem.resultType.isF32();
}
inline bool loadsAddend(const GroupedMatmulProblem &problem) {
  return problem.accumulates && !addsInMemory(problem);
}

/// Columns and bytes per row of the boxes that results are stored in. A box has
/// the rows that one warp holds of a matrix instruction's result.
struct ResultBox {
  int64_t columns, rowBytes;
  static constexpr int64_t kRows = 16;

  /// The widest box that divides the columns of a tile.
  static ResultBox get(int64_t tileColumns, int64_t resultBytes);
};

/// Bytes in memory that a block needs for partial sums.
int64_t getPartialSumsBytes(const HopperMatmulConfig &config);

/// The kernel of a problem. Its parameters: tensor maps of a (contraction,
/// rows), of b (contraction and columns, or columns and contraction, and, with
/// experts, groups) and of the result (columns, rows and, in the weight
/// gradient, groups); then the pointers offsets (unless dense), both scales if
/// there are any, result (M-grouped), what is accumulated into, if it is
/// loaded, and room for partial sums, if there may be any (getPartialSumsBytes
/// for each block); then the dynamic sizes.
void buildHopperGroupedMatmul(KernelBuilder &b,
                              const GroupedMatmulProblem &problem,
                              const HopperMatmulConfig &config);

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

/// The state that all roles share. Values are i32 unless they are pointers; the
/// stride of the addend's groups is i64.
struct GroupedMatmulKernel {
  GroupedMatmulKernel(KernelBuilder &b, const GroupedMatmulProblem &problem,
                      const HopperMatmulConfig &config);

  KernelBuilder &b;
  const GroupedMatmulProblem &problem;
  const HopperMatmulConfig &config;
  const HopperMatmulMemory memory;

  Value mapA, mapB, mapResult;
  Value offsets, scaleA, scaleB, result, addend, partialSums;
  GroupedMatmulSizes<Value> sizes;
  /// Shared memory; warp and lane of this thread; block and number of blocks.
  Value shared, warp, lane, block, numBlocks;

  /// The end of a group that there is, neither before that of the one before
  /// nor behind `extent`.
  Value loadGroupEnd(Value group, Value previous, Value extent);

  /// The ring with this number.
  StageRing getRing(Value index);
  /// `bytes` from the beginning of shared memory.
  Value getShared(Value bytes) { return b.offsetBytes(shared, bytes); }

  /// Bytes from the beginning of shared memory to an operand in a stage, `slot`
  /// counting those of all rings.
  Value getOffset(bool isA, Value slot) const {
    return b.add(b.mul(slot, config.getStageBytes(isA)),
                 isA ? memory.a : memory.b);
  }
  /// Elements of the contraction in a stage.
  int64_t getStageElements() const {
    return kSwizzleRowBytes / problem.getElementBytes();
  }
  /// An MN-major operand comes in boxes, each a row of 128 bytes for every
  /// position of the contraction in a stage: rows of A or columns of B in it,
  /// and bytes.
  int64_t getBoxExtent() const { return getStageElements(); }
  int64_t getBoxBytes() const { return getStageElements() * kSwizzleRowBytes; }
  bool isMNMajor(bool isA) const {
    return isA ? problem.mnMajorA : problem.mnMajorB;
  }
  /// From one instruction's part of a stage of an operand to the next one's.
  int64_t getStepBytes(bool isA) const {
    return isMNMajor(isA)
               ? kWgmmaBytes / problem.getElementBytes() * kSwizzleRowBytes
               : kWgmmaBytes;
  }
  /// The bits besides the address of an operand's descriptors.
  uint64_t getDescriptorBits(bool isA) const {
    return isMNMajor(isA) ? getMNMajorDescriptorBits(getBoxBytes())
                          : getWgmmaDescriptorBits();
  }
  /// Groups of the contraction begin at multiples of so many bytes.
  int64_t getGroupAlignment() const {
    return problem.padding * problem.getElementBytes();
  }
  /// The last stage of a group is multiplied only as far as there is data, in
  /// steps of one instruction. (With promoted accumulation the loop that this
  /// takes would need more registers than there are.)
  bool endsInsideStages() const {
    return !problem.isMGrouped() && !problem.promoted;
  }
  /// The first stage of a group may begin with elements of the group before,
  /// and its last one may end with those of the next.
  /// (Loads of MN-major operands begin with any position of the contraction.)
  bool needsHeadMask() const {
    return !problem.isMGrouped() && !(problem.mnMajorA && problem.mnMajorB) &&
           getGroupAlignment() % kSwizzleChunkBytes;
  }
  bool needsTailMask() const {
    return !problem.isMGrouped() &&
           getGroupAlignment() %
               (endsInsideStages() ? kWgmmaBytes : kSwizzleRowBytes);
  }
};

//===----------------------------------------------------------------------===//
// Scheduler
//===----------------------------------------------------------------------===//

/// A tile's number, counted through all groups, and the group that it lies in.
struct TileState {
  /// The tile, and from there to the next one of the walk.
  Value tile, step;
  /// The group, as a number in the order in which groups are taken, and its
  /// first tile.
  Value group, firstTile;
  /// The group's rows, or its range of the contraction without padding (from 0
  /// on where groups are taken by length); and where that range begins with the
  /// padding of the data.
  Value begin, end, paddedBegin;

  SmallVector<Value> pack() const {
    return {tile, step, group, firstTile, begin, end, paddedBegin};
  }
  static TileState unpack(ValueRange values) {
    return {values[0], values[1], values[2], values[3],
            values[4], values[5], values[6]};
  }
  /// As `unpack`, of what a loop carries, which printed kernels call by the
  /// names of the fields.
  static TileState unpackNamed(KernelBuilder &b, ValueRange values);
};

/// The tile of a role, all i32 but for isZero.
struct Tile {
  /// Counted through all groups, in the order in which they are taken.
  Value number;
  /// The group whose b, scales and result these are.
  Value group;
  /// First row and column.
  Value row, column;
  /// i1: nothing is multiplied, in the remainder rows or an empty group. The
  /// product is zero whatever the scales are.
  Value isZero;
  /// M-grouped and not split: where the group's rows end.
  Value rowEnd;
  /// The part of a split contraction.
  Value split;
  /// First element of the contraction, and the number of its stages.
  Value contraction, numStages;
  /// K-grouped: bytes before the group in what is loaded first, and bytes up
  /// to its end in the last stage: at most 0 in an empty group.
  Value headBytes, lastBytes;
  /// Index of the first scale of the tile's rows or group, with padding.
  Value scaleBegin;
};

/// Which tiles a warp or warpgroup walks over, one of every `step`: number w is
/// w * step + first; where groups are taken by length and w is odd, it is
/// w * step + step - 1 - first. With `alternate` (i1) set, two walks share
/// these: this one takes the second tile of every two if it is true, else the
/// first.
struct TileWalk {
  Value first, step;
  Value alternate;
};

/// The number of the tile behind a walk's last one, and the number of stages
/// that all its tiles took.
struct TileWalkEnd {
  Value number, stageCount;
};

/// The groups of a contraction by length, longest first; of two that are alike,
/// the first one first. Each block makes a table of them behind what else it
/// has in shared memory.
class GroupOrder {
public:
  /// Whether there are several groups, a number that is known, and their table
  /// has room behind the tile.
  static bool isWorthwhile(const GroupedMatmulProblem &problem,
                           const HopperMatmulConfig &config);
  /// Bytes of shared memory, besides those of the tile.
  static int64_t getBytes(const GroupedMatmulProblem &problem,
                          const HopperMatmulConfig &config);

  explicit GroupOrder(GroupedMatmulKernel &kernel);

  /// By all threads of the block, which then wait for each other.
  void create();

  /// Loads the index of the group of rank `rank` (i32), longest groups first.
  /// Ranks past the last group give arbitrary values, here and below.
  Value loadGroup(Value rank);
  /// Loads that group's length, and its start with padding.
  std::pair<Value, Value> loadRange(Value rank);

private:
  Value getPointer(Value rank, int64_t word);

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  int64_t groups;
};

class TileScheduler {
public:
  explicit TileScheduler(GroupedMatmulKernel &kernel);

  /// Runs `body` for each tile of the walk. `stageCount` is the number of
  /// stages that earlier tiles took, those of the other walk included. Then the
  /// next tile is found, and after that comes `finish`: what `body` left under
  /// way hides the search.
  TileWalkEnd
  forEachTile(const TileWalk &walk,
              function_ref<void(const Tile &tile, Value stageCount)> body,
              function_ref<void()> finish = nullptr);

  /// Stages of a tile; where the contraction is grouped, on average.
  Value getMeanStages();

private:
  TileState getFirst(const TileWalk &walk);
  TileState advance(TileState state, const TileWalk &walk);
  TileState seek(TileState state);
  /// Makes `state` that of its group, which begins where `before` ends.
  void enterGroup(TileState &state, const TileState &before);
  Value getGroupTiles(const TileState &state);
  Value countTilesAlongRows(const TileState &state);
  Value countTiles(const TileState &state);
  Value getSplit(const TileState &state);
  Value getFirstStage(Value split);
  Value isValid(const TileState &state);
  Value loadEnd(Value group, Value previous);
  Value getHeadBytes(const TileState &state);
  Value getNumStages(const TileState &state);
  Value getContractionPastEnd();
  std::pair<Value, Value> getPlace(Value inGroup, Value alongRows);
  Tile getTile(const TileState &state);

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  /// The order of groups by length, if they are taken so.
  std::optional<GroupOrder> order;
  /// Groups and remainder rows; the extent that ends are clamped to; tiles
  /// along the columns, and along the rows where K is grouped; stages of a
  /// whole contraction.
  Value numGroups, extent, tilesAlongColumns, tilesAlongRows, numStages;
};

/// Cooperative consumers multiply nothing while they look for their next tile.
/// So the producer, who is ahead of them, says which one it is: in shared
/// memory, a message for each stage of the ring, of which those of the first
/// stages of tiles are used. The stage's barriers tell when a message may be
/// read, and when it may be written again.
class TileMessages {
public:
  TileMessages(GroupedMatmulKernel &kernel, const StageRing &ring);

  /// By the producer's thread, before it loads the tile's first stage.
  void send(const Tile &tile, RingPosition first);
  /// Instead of a stage behind the last tile's.
  void sendEnd(RingPosition position);

  /// By a consumer: as TileScheduler::forEachTile, but that the next tile is
  /// received after `finish`. Tiles say nothing of their number, or where in
  /// the contraction they begin.
  void forEachTile(function_ref<void(const Tile &tile, Value stageCount)> body,
                   function_ref<void()> finish);

private:
  SmallVector<Value Tile::*> getMembers() const;
  void store(ArrayRef<Value> words, Value stage);
  SmallVector<Value> load(Value stage);
  Value getPointer(Value stage, int64_t word);

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  StageRing ring;
};

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// One warp for each ring loads the operands of all tiles.
void buildMatmulProducer(GroupedMatmulKernel &kernel);

/// A warpgroup multiplies; `index` (i32) is 0 or 1.
void buildMatmulConsumer(GroupedMatmulKernel &kernel, Value index);

/// Sums of a consumer's tile whose contraction is too long for the tensor cores
/// (kFastSumElements): all but the last part are added up in memory that stays
/// in the L2 cache, as there are no registers for two tiles.
class PartialSums {
public:
  PartialSums(GroupedMatmulKernel &kernel, Value consumer);

  /// Stages of a part that goes to memory.
  int64_t getNumStages() const {
    return kFastSumElements / kernel.getStageElements();
  }
  /// How many parts of a tile with so many stages go to memory.
  Value countParts(Value numStages);
  /// Takes a part, one struct for each 64 rows; isFirst is an i1.
  void add(ArrayRef<Value> accumulators, Value isFirst);
  /// Adds what was taken, if numParts is not 0.
  void addTo(MutableArrayRef<Value> accumulators, Value numParts);

private:
  Value getPlace(size_t rowBlock, int64_t number);
  Value addStored(Value accumulators, size_t rowBlock);

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  /// The thread's first sums.
  Value base;
};

/// The last part of a consumer's work on a tile.
class MatmulEpilogue {
public:
  MatmulEpilogue(GroupedMatmulKernel &kernel, Value consumer);

  /// Begins to load the thread's part of the tile's scales.
  SmallVector<Value> loadScales(const Tile &tile);
  /// Puts them into shared memory. Between the two there should be enough to do
  /// for memory to answer.
  void keepScales(const Tile &tile, ArrayRef<Value> scales);
  /// Writes the tile: 64 rows of accumulators after the other.
  void storeTile(const Tile &tile, ArrayRef<Value> accumulators);
  /// Waits until shared memory may go away.
  void finish();

private:
  /// Accumulators of 64 rows, and what depends on them.
  struct RowBlock {
    Value accumulators;
    /// The first of the warp's rows, and how many rows from there on are the
    /// group's (M-grouped).
    Value row, rowsLeft;
    /// Scales of the thread's two rows.
    Value scales[2];
  };
  void stageBox(const Tile &tile, const RowBlock &rows, int64_t firstColumn,
                Value box);
  SmallVector<Value> scalePair(const Tile &tile, const RowBlock &rows,
                               int64_t eight, int64_t half);
  SmallVector<Value> loadAddends(const Tile &tile, const RowBlock &rows,
                                 int64_t eight, int64_t half);
  void storeBox(const Tile &tile, const RowBlock &rows, int64_t firstColumn,
                Value box);
  void storeRows(const Tile &tile, const RowBlock &rows, int64_t firstColumn,
                 Value box);
  Value getStaged(Value bytes);
  void createWarpgroupBarrier();
  void createWaitForBuffer(int64_t stores);
  /// Where each of the thread's scales lies within those of the tile.
  SmallVector<int64_t> getScaleSteps(int64_t count);

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  Value consumer;
  /// Thread and warp of the warpgroup; i1: it issues its warp's copies.
  Value thread, warp, isLeader;
  ResultBox box;
  Swizzle swizzle;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_KERNEL_H
