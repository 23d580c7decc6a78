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

/// Longest contraction that is summed by the tensor cores alone. Their sums of
/// FP8 products keep fewer bits than f32, so the relative error grows with the
/// root of the length. It is 2.9e-5 per root of an element, measured with
/// normally distributed operands up to 131072 elements; rounding to bf16 adds
/// 1.7e-3. This length gives 6.6e-3 of the 8e-3 that (G5) of semantics.md
/// grants. Longer contractions are summed in f32 from parts.
constexpr int64_t kFastSumElements = 49152;

/// Whether a contraction may be too long for one sum of the tensor cores.
bool hasPartialSums(const GroupedMatmulProblem &problem);

/// Whether f32 sums are added to the result in memory by TMA reductions, so
/// that no thread loads the addend. The addend is then copied to the result
/// first. bf16 sums are rounded once, after the addition in f32, so their
/// addend is loaded (loadsAddend).
inline bool addsInMemory(const GroupedMatmulProblem &problem) {
  return problem.accumulates && problem.resultType.isF32();
}
inline bool loadsAddend(const GroupedMatmulProblem &problem) {
  return problem.accumulates && !addsInMemory(problem);
}

/// Columns, and bytes of a row, of a TMA store box. Its rows are those that one
/// warp holds of a wgmma result.
struct ResultBox {
  int64_t columns, rowBytes;
  static constexpr int64_t kRows = 16;

  /// Returns the widest box whose columns divide those of a tile.
  static ResultBox get(int64_t tileColumns, int64_t resultBytes);
};

/// Returns the bytes of global memory that a block needs for partial sums.
int64_t getPartialSumsBytes(const HopperMatmulConfig &config);

/// Builds the kernel of a problem. Its parameters are: tensor maps of a
/// (contraction, rows), of b (contraction and columns, or columns and
/// contraction, and, with experts, groups) and of the result (columns, rows
/// and, K-grouped, groups); then the pointers offsets (unless dense), existing
/// scales, result (M-grouped), addend, if it is loaded, and partial sums, if
/// there may be any (getPartialSumsBytes a block); then the dynamic sizes.
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

  /// Loads the end of an existing group, clamped to [previous, extent].
  Value loadGroupEnd(Value group, Value previous, Value extent);

  /// Returns the ring of the operands' stages.
  StageRing getRing();
  /// Returns the address at `bytes` from the beginning of shared memory.
  Value getShared(Value bytes) { return b.offsetBytes(shared, bytes); }

  /// Returns the shared memory offset of an operand in a stage.
  Value getOffset(bool isA, Value stage) const {
    return b.add(b.mul(stage, config.getStageBytes(isA)),
                 isA ? memory.a : memory.b);
  }
  /// Returns the elements of the contraction in a stage.
  int64_t getStageElements() const {
    return kSwizzleRowBytes / problem.getElementBytes();
  }
  /// Rows of A or columns of B in a box of an MN-major operand, and the bytes
  /// of a box. Such operands are loaded in boxes with a row of 128 bytes for
  /// each position of the contraction in a stage.
  int64_t getBoxExtent() const { return getStageElements(); }
  int64_t getBoxBytes() const { return getStageElements() * kSwizzleRowBytes; }
  bool isMNMajor(bool isA) const {
    return isA ? problem.mnMajorA : problem.mnMajorB;
  }
  /// Returns the bytes from one wgmma's part of an operand's stage to the next
  /// one's.
  int64_t getStepBytes(bool isA) const {
    return isMNMajor(isA)
               ? kWgmmaBytes / problem.getElementBytes() * kSwizzleRowBytes
               : kWgmmaBytes;
  }
  /// Returns the bits of an operand's descriptors other than the address.
  uint64_t getDescriptorBits(bool isA) const {
    return isMNMajor(isA) ? getMNMajorDescriptorBits(getBoxBytes())
                          : getWgmmaDescriptorBits();
  }
  /// Returns the multiple in bytes that groups of the contraction begin at.
  int64_t getGroupAlignment() const {
    return problem.padding * problem.getElementBytes();
  }
  /// Whether a group's last stage is multiplied only as far as it has data, in
  /// steps of one wgmma. (With promoted accumulation the loop for this would
  /// need more registers than there are.)
  bool endsInsideStages() const {
    return !problem.isMGrouped() && !problem.promoted;
  }
  /// Whether a group's first stage may begin with elements of the previous
  /// group, and its last one end with those of the next. (Loads of MN-major
  /// operands begin at any position of the contraction.)
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

/// The state of a walk over tiles: a tile, counted through all groups, and its
/// group.
struct TileState {
  /// Number of the tile, and distance to the walk's next tile.
  Value tile, step;
  /// Index of the group in the order that groups are processed in, and the
  /// number of its first tile.
  Value group, firstTile;
  /// The group's rows, or K-grouped its range of the contraction without
  /// padding (from 0 on with GroupOrder). And the begin of that range in padded
  /// data.
  Value begin, end, paddedBegin;

  SmallVector<Value> pack() const {
    return {tile, step, group, firstTile, begin, end, paddedBegin};
  }
  static TileState unpack(ValueRange values) {
    return {values[0], values[1], values[2], values[3],
            values[4], values[5], values[6]};
  }
  /// Unpacks loop-carried values, and names them by the fields in printed
  /// kernels.
  static TileState unpackNamed(KernelBuilder &b, ValueRange values);
};

/// The tile that a role works on, all i32 but for isZero.
struct Tile {
  /// Number of the tile, counted through all groups in the order they are
  /// processed.
  Value number;
  /// Index of the group, for b, scales and the result.
  Value group;
  /// First row and column.
  Value row, column;
  /// i1: the product is zero whatever the scales are, as for remainder rows or
  /// an empty group.
  Value isZero;
  /// M-grouped and not split: the end of the group's rows.
  Value rowEnd;
  /// Index of the split, with split-K.
  Value split;
  /// First element of the contraction, and its number of stages.
  Value contraction, numStages;
  /// K-grouped: bytes of the previous group in the first stage, and bytes up to
  /// the group's end in the last stage (at most 0 in an empty group).
  Value headBytes, lastBytes;
  /// Index of the first scale of the tile's rows or group, with padding.
  Value scaleBegin;
};

/// K-grouped: a table of the groups by length, longest first; of equal ones the
/// first index first. Each block builds it in shared memory after the rest of
/// its data.
class GroupOrder {
public:
  /// Whether the number of groups is static and at least two, and their table
  /// fits into shared memory besides the tile.
  static bool isWorthwhile(const GroupedMatmulProblem &problem,
                           const HopperMatmulConfig &config);
  /// Returns the bytes of shared memory for the table.
  static int64_t getBytes(const GroupedMatmulProblem &problem,
                          const HopperMatmulConfig &config);

  explicit GroupOrder(GroupedMatmulKernel &kernel);

  /// Builds the table. All threads of the block take part, and need a barrier
  /// afterwards.
  void create();

  /// Loads the index of the group of rank `rank` (i32), longest groups first.
  /// Ranks past the last group give arbitrary values, here and below.
  Value loadGroup(Value rank);
  /// Loads the length of the group of rank `rank`, and its start with padding.
  std::pair<Value, Value> loadRange(Value rank);

private:
  Value getPointer(Value rank, int64_t word);

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  int64_t groups;
};

/// Walks over the tiles of a block, one of every `blocks`: number w is w *
/// blocks + block. With GroupOrder an odd w takes w * blocks + blocks - 1 -
/// block instead.
class TileScheduler {
public:
  /// If `takesSecond` (i1) is set, two walks share the block's tiles. This walk
  /// takes the second of every two if it is true, else the first.
  explicit TileScheduler(GroupedMatmulKernel &kernel, Value takesSecond = {});

  /// Runs `body` for each tile of the walk. `stageCount` is the number of
  /// stages of all earlier tiles, including those of the other walk. The search
  /// for the next tile follows `body`, and `finish` follows the search:
  /// asynchronous work of `body` hides it. Returns the tile number after the
  /// walk's last tile.
  Value forEachTile(function_ref<void(const Tile &tile, Value stageCount)> body,
                    function_ref<void()> finish = nullptr);

  /// Returns the stages of a tile, the mean where K is grouped.
  Value getMeanStages();

private:
  TileState getFirst();
  TileState advance(TileState state);
  TileState seek(TileState state);
  /// Sets the range of `state` for its group, which begins where `before` ends.
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
  Value takesSecond;
  /// The order of groups, if they are processed by length.
  std::optional<GroupOrder> order;
  /// Number of groups, with remainder rows as one more. Extent that group ends
  /// are clamped to. Tiles along the columns, and K-grouped along the rows.
  /// Stages of a whole contraction.
  Value numGroups, extent, tilesAlongColumns, tilesAlongRows, numStages;
};

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// Builds the producer: one warp loads the operands of all tiles.
void buildMatmulProducer(GroupedMatmulKernel &kernel);

/// Builds a consumer, a warpgroup that multiplies. `index` (i32) is 0 or 1.
void buildMatmulConsumer(GroupedMatmulKernel &kernel, Value index);

/// Sums of a consumer's tile with a contraction longer than kFastSumElements.
/// All parts but the last are added in global memory (cached in L2), as
/// registers have no room for two tiles.
class PartialSums {
public:
  PartialSums(GroupedMatmulKernel &kernel, Value consumer);

  /// Returns the stages of a part that goes to memory.
  int64_t getNumStages() const {
    return kFastSumElements / kernel.getStageElements();
  }
  /// Returns how many parts of a tile with `numStages` stages go to memory.
  Value countParts(Value numStages);
  /// Adds a part to memory, or stores it where `isFirst` (i1). `accumulators`
  /// has a struct for each 64 rows.
  void add(ArrayRef<Value> accumulators, Value isFirst);
  /// Adds the sums in memory to `accumulators`, if `numParts` is not 0.
  void addTo(MutableArrayRef<Value> accumulators, Value numParts);

private:
  Value getPlace(size_t rowBlock, int64_t number);
  Value addStored(Value accumulators, size_t rowBlock);

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  /// Address of the thread's first sums in memory.
  Value base;
};

/// The epilogue of a consumer: scales, adds and stores a tile.
class MatmulEpilogue {
public:
  MatmulEpilogue(GroupedMatmulKernel &kernel, Value consumer);

  /// Starts the loads of the thread's part of the tile's scales.
  SmallVector<Value> loadScales(const Tile &tile);
  /// Stores the loaded scales to shared memory. Other work between both calls
  /// hides the latency of the loads.
  void keepScales(const Tile &tile, ArrayRef<Value> scales);
  /// Stores the tile, one block of 64 rows after another.
  void storeTile(const Tile &tile, ArrayRef<Value> accumulators);
  /// Waits until TMA stores have read shared memory, so that the block may
  /// exit.
  void finish();

private:
  /// Accumulators of 64 rows, and values that depend on these rows.
  struct RowBlock {
    Value accumulators;
    /// The first of the warp's rows, and how many rows from it on are in the
    /// group (M-grouped).
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
  /// Returns the offsets of the thread's scales from its first, of `count` in
  /// all.
  SmallVector<int64_t> getScaleSteps(int64_t count);

  GroupedMatmulKernel &kernel;
  KernelBuilder &b;
  Value consumer;
  /// Thread and warp index in the warpgroup; i1: the thread issues its warp's
  /// TMA stores.
  Value thread, warp, isLeader;
  ResultBox box;
  Swizzle swizzle;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_HOPPER_KERNEL_H
