//===- Kernel.h - Parts of the grouped matmul -------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_CDNA_KERNEL_H
#define FP8MOE_LIB_KERNELS_MATMUL_CDNA_KERNEL_H

#include "Kernels/Emit/AMD/BufferRange.h"
#include "Kernels/Emit/MemoryAccess.h"
#include "Kernels/Emit/ScaleTiles.h"
#include "Kernels/Matmul/CDNA/CDNATiles.h"
#include "Kernels/Matmul/GroupedMatmul.h"

namespace mlir::fp8moe {

/// Strides in elements, which CDNA has no tensor maps for. The pitch of a is
/// that of its rows, the pitch of b that of its columns; of an MN-major
/// operand, that of the contraction. Further b's groups (M-grouped), and the
/// result's rows and groups (K-grouped).
template <typename T> struct CDNAMatmulStrides {
  T pitchA, pitchB, bGroup, resultRow, resultGroup;

  static constexpr auto members() {
    using S = CDNAMatmulStrides;
    return std::array{&S::pitchA, &S::pitchB, &S::bGroup, &S::resultRow,
                      &S::resultGroup};
  }
};

/// Most bytes of a pitch, so that a buffer descriptor spans a tile's rows.
constexpr int64_t kMaxPitchBytes = (int64_t(1) << 23) - 256;

/// Builds the kernel of a problem. Its parameters are the pointers offsets,
/// existing scales, a, b, result and addend, if there is one; then the dynamic
/// sizes of the problem, the dynamic strides, and the number of blocks. Blocks
/// are dies x row blocks of a die x column tiles.
void buildCDNAGroupedMatmul(KernelBuilder &b,
                            const GroupedMatmulProblem &problem,
                            const CDNAMatmulStrides<int64_t> &strides,
                            const CDNAMatmulConfig &config);

//===----------------------------------------------------------------------===//
// Matrix instructions
//===----------------------------------------------------------------------===//

/// A lane's operand of a matrix instruction: two 16-byte chunks (vector<4xi32>)
/// of one row (or column) in a stage. Any two chunks of the contraction give
/// the same sum, as long as both operands agree.
struct MfmaFragment {
  Value chunks[2];
  /// With block scales, an e8m0 byte (i32): of the row's block whose index is
  /// the lane's quarter. v_mfma_scale_f32_16x16x128 takes elements in the order
  /// of the unscaled instruction, 16 of each half of the stage, but scales by
  /// blocks.
  Value scale;
};

/// Creates the products of `edge` rows and `edge` columns over a stage of the
/// contraction. Columns are the instruction's first operand, so that a lane
/// holds neighbouring columns of one row of the result.
///
///     edge 32: four v_mfma_f32_32x32x16 of FP8, or v_mfma_f32_32x32x8 of bf16
///     edge 16: one v_mfma_f32_16x16x128, or two v_mfma_f32_16x16x32 of bf16
class Mfma {
public:
  Mfma(int64_t edge, Type column, Type row)
      : edge(edge), column(column), row(row) {}

  /// Returns the f32 results of a lane.
  int64_t getResults() const { return edge * edge / 64; }
  VectorType getAccumulatorType(KernelBuilder &b) const {
    return VectorType::get(getResults(), b.getF32Type());
  }
  /// Returns the instructions of a stage, each with its own `part` of create.
  /// Instructions that depend on each other should not be neighbours.
  int64_t getParts() const;
  Value create(KernelBuilder &b, const MfmaFragment &columns,
               const MfmaFragment &rows, Value accumulator, int64_t part) const;

private:
  Value getPart(KernelBuilder &b, const MfmaFragment &fragment,
                int64_t part) const;

  int64_t edge;
  Type column, row;
};

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

/// The state that all parts of the kernel share. Values are i32 unless they are
/// pointers; sizes and strides are i64.
struct CDNAMatmulKernel {
  CDNAMatmulKernel(KernelBuilder &b, const GroupedMatmulProblem &problem,
                   const CDNAMatmulStrides<int64_t> &strides,
                   const CDNAMatmulConfig &config);

  KernelBuilder &b;
  const GroupedMatmulProblem &problem;
  const CDNAMatmulConfig &config;
  Mfma mfma;

  Value offsets, scaleA, scaleB, operandA, operandB, result, addend;
  GroupedMatmulSizes<Value> sizes;
  CDNAMatmulStrides<Value> strides;
  /// Shared memory; this thread's index, its wave (uniform), and its lane.
  Value shared, thread, wave, lane;
  /// The wave's index along the rows and along the columns.
  Value waveRow, waveColumn;
  /// Row (or column) of the lane in an instruction, and the first chunk of a
  /// stage that the lane holds. Its second chunk is half a stage further.
  Value laneRow, laneChunk;

  int64_t getElementBytes() const { return problem.getElementBytes(); }
  Value getBytes(Value elements) { return b.mul(elements, getElementBytes()); }

  /// Whether a tile's contraction may begin, or end, inside a 16-byte chunk,
  /// whose other bytes must be masked. (If both operands are MN-major, loads
  /// begin at any position of the contraction.)
  bool needsHeadMask() const;
  bool needsTailMask() const;
  /// Whether the contraction of every tile is a multiple of a stage. Then
  /// either all lanes of a load are inside of it, or none.
  bool hasWholeStages() const;
  bool isMNMajor(bool isRows) const {
    return isRows ? problem.mnMajorA : problem.mnMajorB;
  }
  /// Returns the bytes from one row of an operand in memory to the next.
  Value getPitch(bool isRows) {
    return getBytes(isRows ? strides.pitchA : strides.pitchB);
  }
};

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// The tile of a workgroup. Values are uniform, i32 unless said otherwise.
struct CDNATile {
  /// Index of the group, for b, scales and the result.
  Value group;
  /// First row and column of the result (K-grouped, of the group's), and how
  /// many rows and columns there are from these on.
  Value row, column, rowsLeft, columnsLeft;
  Value getFirst(bool isRows) const { return isRows ? row : column; }
  Value getLeft(bool isRows) const { return isRows ? rowsLeft : columnsLeft; }
  /// i1: the product is zero, for remainder rows or an empty group.
  Value isZero;
  /// With scale tiles that begin anew with each group (X7): the tile's first
  /// row in these tiles, and the first scale tile along a grouped contraction.
  Value scaleRow, firstScaleTile;
  /// First byte of the contraction, a multiple of 16. How many bytes from it on
  /// belong to the previous group, and where the group ends.
  Value firstByte, headBytes, endBytes;
  /// With shiftsLines, firstByte is a multiple of 4, and the group begins
  /// shiftBytes after it. headBytes and endBytes do not include them.
  Value shiftBytes;
};

/// Runs `body` for the workgroup's tile, if it has one.
void createCDNATile(CDNAMatmulKernel &kernel,
                    function_ref<void(const CDNATile &tile)> body);

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// One half of the rows, or of the columns, of a tile.
struct MatmulHalf {
  bool isRows, isSecond;

  bool operator==(MatmulHalf other) const {
    return isRows == other.isRows && isSecond == other.isSecond;
  }
};
inline constexpr MatmulHalf kRows0{true, false}, kRows1{true, true},
    kColumns0{false, false}, kColumns1{false, true};

/// Returns the row or column (i32) in the tile of each of the lane's fragments
/// of a half.
SmallVector<Value> createLaneLines(CDNAMatmulKernel &kernel, MatmulHalf half);

/// Returns the range for loads at `inStage` bytes into the stage that is `step`
/// bytes into the contraction (both i32). Makes loads past the contraction's
/// end return zero: it moves `offsets` outside of the range, or returns an
/// empty range.
BufferRange excludeBehindEnd(const CDNAMatmulKernel &kernel,
                             const CDNATile &tile, const BufferRange &range,
                             Value inStage, Value step,
                             MutableArrayRef<Value> offsets);

/// Returns f(r), the swizzle of a row or column of shared memory
/// (CDNAOperands).
Value createSwizzle(CDNAMatmulKernel &kernel, bool isRows, Value line);
/// Returns the address of the tile's first byte of an operand.
Value createOperandBase(CDNAMatmulKernel &kernel, const CDNATile &tile,
                        bool isRows);

/// Loads halves of an MN-major operand and transposes them in registers for
/// shared memory, which is K-major.
class CDNATransposedLoads {
public:
  CDNATransposedLoads(CDNAMatmulKernel &kernel, const CDNATile &tile,
                      bool isRows);

  /// Positions of the contraction that a lane loads in a round. Their elements
  /// of one row or column make a word.
  static constexpr int64_t kPair = 2;

  /// Starts the loads of the lane's part of half a stage: kPair values a round.
  SmallVector<Value> load(MatmulHalf half, Value step);
  /// Transposes loaded values to words along the contraction.
  SmallVector<Value> transpose(ArrayRef<Value> loaded);
  /// Returns the shared memory offsets of these words, for the first half of
  /// the stage at `stage` (i32, bytes).
  SmallVector<Value> createPlaces(Value stage);

private:
  /// Lines (rows or columns of the operand) of a lane and of a wave in a round.
  static constexpr int64_t kLines = 4, kWaveLines = 64;

  int64_t getFirstLine(int64_t round) const;
  BufferRange createRange(Value step);

  CDNAMatmulKernel &kernel;
  KernelBuilder &b;
  const CDNATile &tile;
  bool isRows;
  Value base, pitch;
  /// v_perm selectors for the word of the line that a lane stores first, and of
  /// the second.
  Value selectors[2];
  /// Offsets of the lane's loads in a stage's range, for each round and
  /// position. Offsets of its first line in shared memory, for each round. Both
  /// exclude getFirstLine().
  SmallVector<Value> offsets, places;
};

/// Loads block scales, (G9) of semantics.md. A lane needs one scale for each
/// fragment and stage.
class CDNABlockScales {
public:
  /// MX blocks along K in a stage, which has 128 one-byte elements of K. A
  /// scale tile (X6) has as many for a row of A or a column of B.
  static constexpr int64_t kStageBlocks = 128 / kMXBlock;
  static_assert(kStageBlocks == kScaleTileBlocks);

  CDNABlockScales(CDNAMatmulKernel &kernel, const CDNATile &tile);

  /// Starts the loads of the scales of a half's fragments, for the stage `step`
  /// (i32) elements into the contraction. Each is the first byte of a
  /// vector<4xi8>. Scales past the contraction's end are zero, which stands for
  /// a finite number.
  SmallVector<Value> load(MatmulHalf half, Value step) const;
  /// Returns loaded scales as the i32 that instructions take. The cast is
  /// delayed until there: with a cast for each load, LLVM finds a loop too
  /// large to rotate.
  Value getWord(Value bytes) const;

private:
  /// Scales of one operand: the range of the tile's scales, the bytes between
  /// those of neighbouring stages, and the lane's offset for each fragment of
  /// each half.
  struct Scales {
    BufferRange range;
    int64_t stageBytes;
    SmallVector<Value> offsets[2];
  };
  Scales createScales(bool isOfA);
  /// Returns the bytes from a line of scales, or of scale tiles, to the next.
  Value createLineBytes(BlockScales layout);

  CDNAMatmulKernel &kernel;
  KernelBuilder &b;
  const CDNATile &tile;
  Scales scalesA, scalesB;
};

/// Brings stages of both operands from memory to shared memory, and from there
/// to registers.
///
/// A row of shared memory holds a stage of one row (or column) of an operand.
/// Chunk c of row r lies at chunk c ^ f(r), so that lanes that read the same
/// chunk of neighbouring rows hit all banks. Direct loads to shared memory
/// write lane after lane, so that each lane loads the chunk that belongs there.
/// An operand that is MN-major goes through registers, which transpose it.
class CDNAOperands {
public:
  CDNAOperands(CDNAMatmulKernel &kernel, const CDNATile &tile);

  /// Whether half a stage is loaded to shared memory directly, without
  /// registers.
  bool isDirect(MatmulHalf half) const;
  bool hasDirect() const { return isDirect(kRows0) || isDirect(kColumns0); }
  bool hasStaged() const { return !isDirect(kRows0) || !isDirect(kColumns0); }
  /// Returns the number of loads that a wave issues for half a stage, direct or
  /// through registers.
  int64_t countLoads(MatmulHalf half) const;

  /// Starts direct loads of half a stage, `step` (i32) bytes into the
  /// contraction, to shared memory at `stage` (i32, bytes). Requires isDirect.
  void loadToShared(MatmulHalf half, Value stage, Value step);
  /// The path through registers: `load` returns countStaged() values. `combine`
  /// makes chunks of them, or words where an operand is MN-major.
  int64_t countStaged(MatmulHalf half) const;
  SmallVector<Value> load(MatmulHalf half, Value step);
  SmallVector<Value> combine(MatmulHalf half, ArrayRef<Value> staged);
  /// Stores what `combine` returned to shared memory.
  void storeToShared(MatmulHalf half, Value stage, ArrayRef<Value> chunks);

  /// Loads the wave's fragments of half a stage from shared memory.
  SmallVector<MfmaFragment> read(MatmulHalf half, Value stage);

  /// Returns an i1: whether the stage `step` bytes into the contraction has
  /// bytes to mask. Null if no stage has.
  Value createHasMask(Value step);
  /// Zeroes bytes outside of the tile's contraction, in fragments or in loaded
  /// chunks.
  void mask(Value step, MutableArrayRef<MfmaFragment> fragments);
  void mask(MatmulHalf half, Value step, MutableArrayRef<Value> chunks);

private:
  /// How a lane addresses memory `step` bytes into the contraction: the range,
  /// its offset for each round, and an offset that all lanes add.
  struct Address {
    BufferRange range;
    SmallVector<Value> offsets;
    Value uniform;
  };
  /// State of one operand.
  struct Side {
    std::optional<CDNATransposedLoads> transposed;
    /// If it is not transposed: the range, the byte of a stage that the lane
    /// loads, and its offset in the range for each half and round.
    BufferRange range;
    Value chunk;
    SmallVector<Value> offsets[2];
    /// With shiftsLines, the shift in bits of the lane's loads.
    Value shift;
    /// Offsets in shared memory of the lane's two chunks of the first fragment
    /// of a half.
    Value read[2];
  };
  Side &getSide(bool isRows) { return isRows ? rows : columns; }
  Address getAddress(MatmulHalf half, Value step);
  void createAddresses(bool isRows);
  Value createMask(Value begin);
  /// Says that an access of shared memory touches nothing of direct loads.
  void separateFromLoads(LLVM::AliasAnalysisOpInterface op) {
    if (!kernel.config.loadsToShared)
      return;
    op.setAliasScopes(readScope);
    op.setNoAliasScopes(loadScope);
  }
  int64_t getHalfOffset(MatmulHalf half) const;

  CDNAMatmulKernel &kernel;
  KernelBuilder &b;
  const CDNATile &tile;
  Side rows, columns;
  /// Alias scopes of direct loads and of reads of shared memory. With them,
  /// compilers do not wait for loads of another stage before they read.
  ArrayAttr loadScope, readScope;
};

//===----------------------------------------------------------------------===//
// Main loop, epilogue
//===----------------------------------------------------------------------===//

/// The wave's accumulators, for each half of the rows and of the columns: first
/// along the rows, then along the columns.
using CDNAAccumulators = SmallVector<Value>;

CDNAAccumulators createCDNAMainLoop(CDNAMatmulKernel &kernel,
                                    const CDNATile &tile);

/// The epilogue: scales the accumulators, adds the addend, and stores the tile.
class CDNAEpilogue {
public:
  CDNAEpilogue(CDNAMatmulKernel &kernel, const CDNATile &tile);

  /// Starts the loads of the thread's part of the tile's scales. Called before
  /// the main loop, which hides their latency.
  void loadScales();
  /// Stores the tile. Reuses the shared memory of the main loop.
  void storeTile(ArrayRef<Value> accumulators);

private:
  /// Eight neighbouring columns of a row. Row and column are relative to the
  /// tile.
  struct Run {
    Value row, column;
    SmallVector<Value> values;
  };
  /// Exchanges the scales through shared memory. Reciprocals are computed once.
  void shareScales();
  /// Stores all runs. `isRagged`: the result's last columns do not fill a run.
  void storeRuns(ArrayRef<Value> accumulators, bool isRagged);
  void scale(Run &run);
  void accumulate(Run &run, bool isRagged);
  void store(const Run &run, bool isRagged);
  BufferRange getRange(Value base, Value pitch, Value groupStride);
  /// Returns the offset of an element of a run in a range with this pitch, or
  /// kOutside.
  Value getOffset(const Run &run, int64_t element, Value pitch);

  CDNAMatmulKernel &kernel;
  KernelBuilder &b;
  const CDNATile &tile;
  BufferRange result, addend;
  /// f32 scales, zero where there is no product. Thread t has scales t, t +
  /// threads and so on; those of columns follow those of rows.
  SmallVector<Value, 2> scales;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_CDNA_KERNEL_H
