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

/// Strides in elements that no tensor map holds: of the rows of a and the
/// columns of b, or of the contraction where an operand is MN-major; of b's
/// groups (M-grouped) and of the result's rows and groups (K-grouped).
template <typename T> struct CDNAMatmulStrides {
  T pitchA, pitchB, bGroup, resultRow, resultGroup;

  static constexpr auto members() {
    using S = CDNAMatmulStrides;
    return std::array{&S::pitchA, &S::pitchB, &S::bGroup, &S::resultRow,
                      &S::resultGroup};
  }
};

/// Bytes of a pitch: a tile's rows must lie in what a buffer descriptor spans.
constexpr int64_t kMaxPitchBytes = (int64_t(1) << 23) - 256;

/// The kernel of a problem. Its parameters: the pointers offsets, both scales
/// if there are any, a, b, result and what is accumulated into, if anything;
/// then the dynamic sizes of the problem, then the dynamic strides, then the
/// number of blocks. Blocks are dies x row blocks of a die x column tiles.
void buildCDNAGroupedMatmul(KernelBuilder &b,
                            const GroupedMatmulProblem &problem,
                            const CDNAMatmulStrides<int64_t> &strides,
                            const CDNAMatmulConfig &config);

//===----------------------------------------------------------------------===//
// Matrix instructions
//===----------------------------------------------------------------------===//

/// The part of a stage of one row (or column) that a lane holds: two chunks of
/// 16 bytes of the contraction, as vector<4xi32>. Which ones does not matter to
/// the sum, as long as both operands agree.
struct MfmaFragment {
  Value chunks[2];
  /// The e8m0 byte (i32) of the row's block that has the number of the lane's
  /// quarter, where there are scales of blocks: v_mfma_scale_f32_16x16x128
  /// takes elements as without, 16 of each half of the stage, and scales by
  /// blocks.
  Value scale;
};

/// Products of `edge` rows and as many columns over a stage of the contraction.
/// The instruction's first operand is the columns' one: so the lane has one row
/// of the result, and neighbouring columns.
///
///   edge 32: four v_mfma_f32_32x32x16 of FP8, or v_mfma_f32_32x32x8 of bf16
///   edge 16: one v_mfma_f32_16x16x128, or two v_mfma_f32_16x16x32 of bf16
class Mfma {
public:
  Mfma(int64_t edge, Type column, Type row)
      : edge(edge), column(column), row(row) {}

  /// f32 results of a lane.
  int64_t getResults() const { return edge * edge / 64; }
  VectorType getAccumulatorType(KernelBuilder &b) const {
    return VectorType::get(getResults(), b.getF32Type());
  }
  /// Instructions of a stage, which follow each other in `part`: what depends
  /// on each other should not be neighbours.
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
  /// Shared memory; this thread, its wave (a number of the wave) and its lane.
  Value shared, thread, wave, lane;
  /// Where the wave stands among those along the rows and the columns.
  Value waveRow, waveColumn;
  /// Row (or column) of the lane in an instruction, and which chunks of a stage
  /// it holds: this one, and the one half a stage behind it.
  Value laneRow, laneChunk;

  int64_t getElementBytes() const { return problem.getElementBytes(); }
  Value getBytes(Value elements) { return b.mul(elements, getElementBytes()); }

  /// Whether the contraction of a tile may begin or end inside a chunk of 16
  /// bytes, so that what is beside it must be masked.
  /// Operands that are both MN-major are loaded by whole positions of it.
  bool needsHeadMask() const;
  bool needsTailMask() const;
  /// Whether the contraction of every tile is a multiple of a stage, so that
  /// all lanes are inside of it or none is.
  bool hasWholeStages() const;
  bool isMNMajor(bool isRows) const {
    return isRows ? problem.mnMajorA : problem.mnMajorB;
  }
  /// Bytes from one row of an operand in memory to the next.
  Value getPitch(bool isRows) {
    return getBytes(isRows ? strides.pitchA : strides.pitchB);
  }
};

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// The tile of a workgroup. Values are uniform, i32 unless said otherwise.
struct CDNATile {
  /// The group whose b, scales and result these are.
  Value group;
  /// First row and column of the result (of the group's, in the weight
  /// gradient), and how many there are from there on.
  Value row, column, rowsLeft, columnsLeft;
  Value getFirst(bool isRows) const { return isRows ? row : column; }
  Value getLeft(bool isRows) const { return isRows ? rowsLeft : columnsLeft; }
  /// i1: nothing is multiplied, in the remainder rows or an empty group.
  Value isZero;
  /// With scales of blocks whose tiles begin anew with each group: the tile's
  /// first row as these count rows, and the first tile of scales along a
  /// grouped contraction.
  Value scaleRow, firstScaleTile;
  /// First byte of the contraction, a multiple of 16; how many bytes from there
  /// on are of the group before; and where the group's end.
  Value firstByte, headBytes, endBytes;
  /// Where lines are shifted, the first byte is a multiple of 4. By so many
  /// bytes the group begins later; they are counted by neither of the others.
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

/// The row or column of the tile that the lane has in the fragments of a half,
/// one for each (i32).
SmallVector<Value> createLaneLines(CDNAMatmulKernel &kernel, MatmulHalf half);

/// The range from which lanes load of the stage that is `step` bytes into the
/// contraction, each `inStage` bytes into the stage (both i32). Loads behind
/// the contraction's end are outside: the lane's offset is, which changes
/// `offsets`, or nothing is inside.
BufferRange excludeBehindEnd(const CDNAMatmulKernel &kernel,
                             const CDNATile &tile, const BufferRange &range,
                             Value inStage, Value step,
                             MutableArrayRef<Value> offsets);

/// f(r) of a row, or column, of shared memory.
Value createSwizzle(CDNAMatmulKernel &kernel, bool isRows, Value line);
/// The first byte of an operand that the tile has at the contraction's first.
Value createOperandBase(CDNAMatmulKernel &kernel, const CDNATile &tile,
                        bool isRows);

/// Brings halves of an operand that is MN-major to shared memory, as if it were
/// contiguous along the contraction.
class CDNATransposedLoads {
public:
  CDNATransposedLoads(CDNAMatmulKernel &kernel, const CDNATile &tile,
                      bool isRows);

  /// Positions of the contraction that a lane loads in a round: a word of a
  /// line.
  static constexpr int64_t kPair = 2;

  /// Begins to load the lane's part of half a stage: kPair values a round.
  SmallVector<Value> load(MatmulHalf half, Value step);
  /// Makes words of lines of what was loaded.
  SmallVector<Value> transpose(ArrayRef<Value> loaded);
  /// Where they belong in the first half of a stage that begins at `stage`
  /// (i32, bytes).
  SmallVector<Value> createPlaces(Value stage);

private:
  /// Lines of a lane in a round, and of a wave.
  static constexpr int64_t kLines = 4, kWaveLines = 64;

  int64_t getFirstLine(int64_t round) const;
  BufferRange createRange(Value step);

  CDNAMatmulKernel &kernel;
  KernelBuilder &b;
  const CDNATile &tile;
  bool isRows;
  Value base, pitch;
  /// Selectors of v_perm that make the words of the line that a lane stores
  /// first, and of the second.
  Value selectors[2];
  /// Where the lane loads from in the range of a stage, for each round and
  /// position, and where it stores its first line to, for each round; both
  /// without what getFirstLine() adds.
  SmallVector<Value> offsets, places;
};

/// Scales of blocks (G9), one of which a lane needs for each fragment and
/// stage.
class CDNABlockScales {
public:
  /// Blocks of the contraction in a stage of 128 bytes: a line of a tile of
  /// scales.
  static constexpr int64_t kStageBlocks = 128 / kMXBlock;
  static_assert(kStageBlocks == kScaleTileBlocks);

  CDNABlockScales(CDNAMatmulKernel &kernel, const CDNATile &tile);

  /// Begins to load the bytes (vector<4xi8>, of which they are the first) of
  /// the fragments of a half, for the stage that is `step` (i32) elements into
  /// the contraction. Behind its end they are zero, which is finite.
  SmallVector<Value> load(MatmulHalf half, Value step) const;
  /// The loaded scales as instructions take them (i32). They are words only
  /// there: with such a cast of each, LLVM thinks that a loop is too large to
  /// rotate.
  Value getWord(Value bytes) const;

private:
  /// One operand's: the range that the tile's lie in, how many bytes those of
  /// neighbouring stages are apart, and the lane's offset for each fragment of
  /// each half.
  struct Scales {
    BufferRange range;
    int64_t stageBytes;
    SmallVector<Value> offsets[2];
  };
  Scales createScales(bool isOfA);
  /// Bytes from a line of scales, or of tiles of scales, to the next.
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

  /// Whether half a stage goes to shared memory without registers.
  bool isDirect(MatmulHalf half) const;
  bool hasDirect() const { return isDirect(kRows0) || isDirect(kColumns0); }
  bool hasStaged() const { return !isDirect(kRows0) || !isDirect(kColumns0); }
  /// Loads to half a stage: how many a wave has under way.
  int64_t countLoads(MatmulHalf half) const;

  /// Begins to load half a stage, `step` (i32) bytes into the contraction, to
  /// shared memory at `stage` (i32, bytes). Needs direct loads.
  void loadToShared(MatmulHalf half, Value stage, Value step);
  /// Loads countStaged() values to registers, from which combine() makes
  /// chunks, or words where an operand is MN-major.
  int64_t countStaged(MatmulHalf half) const;
  SmallVector<Value> load(MatmulHalf half, Value step);
  SmallVector<Value> combine(MatmulHalf half, ArrayRef<Value> staged);
  /// From there to shared memory.
  void storeToShared(MatmulHalf half, Value stage, ArrayRef<Value> chunks);

  /// The wave's fragments of half a stage.
  SmallVector<MfmaFragment> read(MatmulHalf half, Value stage);

  /// i1: the stage that is `step` bytes into the contraction has bytes to mask;
  /// null where none has.
  Value createHasMask(Value step);
  /// Makes zeros of what is not the tile's, of fragments or of chunks that were
  /// loaded.
  void mask(Value step, MutableArrayRef<MfmaFragment> fragments);
  void mask(MatmulHalf half, Value step, MutableArrayRef<Value> chunks);

private:
  /// How a lane names what is `step` bytes into the contraction: the range, the
  /// lane's offset for each round, and what is added in all lanes.
  struct Address {
    BufferRange range;
    SmallVector<Value> offsets;
    Value uniform;
  };
  /// What is of one operand.
  struct Side {
    std::optional<CDNATransposedLoads> transposed;
    /// Else the range, the byte in a stage that the lane loads, and its offset
    /// in the range for each half and round.
    BufferRange range;
    Value chunk;
    SmallVector<Value> offsets[2];
    /// By how many bits what it loads is shifted, if lines are.
    Value shift;
    /// Where the lane reads its two chunks of the first fragment of a half.
    Value read[2];
  };
  Side &getSide(bool isRows) { return isRows ? rows : columns; }
  Address getAddress(MatmulHalf half, Value step);
  void createAddresses(bool isRows);
  Value createMask(Value begin);
  void storeWord(Value value, Value pointer);
  int64_t getHalfOffset(MatmulHalf half) const;

  CDNAMatmulKernel &kernel;
  KernelBuilder &b;
  const CDNATile &tile;
  Side rows, columns;
  /// Where loads and reads of shared memory differ, so that compilers do not
  /// wait for loads of another stage before they read.
  ArrayAttr loadScope, readScope;
};

//===----------------------------------------------------------------------===//
// Main loop, epilogue
//===----------------------------------------------------------------------===//

/// The wave's sums, for each half of the rows and of the columns: first along
/// the rows, then along the columns.
using CDNAAccumulators = SmallVector<Value>;

CDNAAccumulators createCDNAMainLoop(CDNAMatmulKernel &kernel,
                                    const CDNATile &tile);

/// Scales, adds to what is there, and writes the tile.
class CDNAEpilogue {
public:
  CDNAEpilogue(CDNAMatmulKernel &kernel, const CDNATile &tile);

  /// Begins to load the thread's part of the tile's scales: before the main
  /// loop, which hides it.
  void loadScales();
  /// Shared memory is free by now.
  void storeTile(ArrayRef<Value> accumulators);

private:
  /// Eight neighbouring columns of a row, in the tile.
  struct Run {
    Value row, column;
    SmallVector<Value> values;
  };
  /// The scales go through shared memory, and are divided into one only once.
  void shareScales();
  /// `isRagged`: the result's last columns do not fill a run.
  void storeRuns(ArrayRef<Value> accumulators, bool isRagged);
  void scale(Run &run);
  void accumulate(Run &run, bool isRagged);
  void store(const Run &run, bool isRagged);
  BufferRange getRange(Value base, Value pitch, Value groupStride);
  /// Where an element of a run lies in a range with this pitch, or outside.
  Value getOffset(const Run &run, int64_t element, Value pitch);

  CDNAMatmulKernel &kernel;
  KernelBuilder &b;
  const CDNATile &tile;
  BufferRange result, addend;
  /// f32, or zero where there is no product. Thread t has those of t, t +
  /// threads and so on, where those of the columns follow those of the rows.
  SmallVector<Value, 2> scales;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_CDNA_KERNEL_H
