//===- Launch.cpp - Launches the single-pass outer quantize kernel --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Launch.h"
#include "FP8MoEToGPU/NVIDIA/GridBarrier.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Divisors.h"
#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Kernel.h"
#include "FP8MoEToGPU/Quantize/QuantizeLaunch.h"
#include "fp8moe/Target/NVIDIA.h"
#include "fp8moe/Tuning/Quantize/NVIDIA/SinglePassModels.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Bytes that the second-level cache fetches at a time: a whole line, of which
/// a two-row tile first reads one half.
static constexpr int64_t kPromotion = 128;
/// Alignment of the scratch in bytes: a line of posted magnitudes.
static constexpr int64_t kScratchAlignment = 256;
/// Blocks of the kernels beside one that divides at most; any number computes
/// the same.
static constexpr int64_t kMostDivisorBlocks = 1024;

namespace {
/// The quantization along rows that the same launch makes, and where its
/// results are.
struct RowQuantization {
  RowOutput output;
  Value quantized, scales;
  /// The divisors of groups, only where columns have some of rows.
  Value divisors;
  int64_t outputAlignment;
};

class SinglePassOuterLaunch : QuantizeLaunch {
public:
  using QuantizeLaunch::QuantizeLaunch;

  /// Without `rows`, columns only.
  Value launch(const SinglePassOuterTile &tile, Value when,
               const RowQuantization *rows);

  /// The same where elements are divided. There is no other kernel, so what
  /// this one does not take is reported, or refused when it runs.
  FailureOr<Value> launchDivided(const SinglePassOuterTile &tile,
                                 const RowQuantization *rows, Operation *op);

private:
  int64_t getTileColumns() const { return kLineBytes / getInputBytes(); }
  /// Segments that lie behind each other are one dimension of rows.
  bool hasSegmentDim() const { return isSegmentDim(problem); }

  Value createRowCondition(const RowQuantization &rows, Value when);
  void require(const SizeDemand<OpFoldResult> &demand) {
    condition = both(condition, holds(demand));
  }
  Value createCondition(OpFoldResult partialSlots);
  LogicalResult requireAlignment(Operation *op, StringRef tensor,
                                 int64_t promised, int64_t needed);
  void requireSizes();
  void launchWithoutRows();
  SmallVector<Value> launchFactors(const RowQuantization *rows);
  Value createWorkspace(OpFoldResult words);
  void launchNumbers(SymbolRefAttr kernel, ArrayRef<Value> buffers,
                     ArrayRef<OpFoldResult> arguments, OpFoldResult numbers,
                     Value when);
  OpFoldResult countPartialSlots();
  Value getMostBlocks();
  OpFoldResult countTiles();
  HostSize countPanels();
  Value haveLongSpans(Value mostBlocks);
  Value countBlocks(Value mostBlocks, Value areLong);
  Value select(Value condition, int64_t ifTrue, int64_t ifFalse) {
    return arith::SelectOp::create(b, condition, index(ifTrue), index(ifFalse));
  }
  Value createMap(int64_t columns, int64_t rows, int64_t swizzle);
  Value createSwizzledMap(int64_t columns, int64_t rows);
  Value createScratch(OpFoldResult partialSlots);

  /// That demands so far hold.
  Value condition;
  /// Of a kernel that divides.
  SmallVector<Value> factors;
};
} // namespace

Value SinglePassOuterLaunch::createCondition(OpFoldResult partialSlots) {
  condition = plan::AlignedOp::create(b, buffers.input,
                                      nvidia::kTensorMapAddressAlignment);
  for (const auto &demand :
       getSizeDemands(sizes, getInputBytes(), hasSegmentDim()))
    require(demand);
  using Demand = SizeDemand<OpFoldResult>;
  require({partialSlots, Demand::LessThan, kMaxCount});
  if (problem.outputPadding > 1)
    require({sizes.extent, Demand::LessThan, kMaxCount});
  return condition;
}

/// One for each number of a tile.
OpFoldResult SinglePassOuterLaunch::countPartialSlots() {
  constexpr int64_t kPanelsAtOnce = 4;
  OpFoldResult panels =
      size.mul(size.ceilDiv(sizes.parallel, kPanelsAtOnce * getTileColumns()),
               size.constant(kPanelsAtOnce));
  OpFoldResult rows =
      problem.outputPadding > 1 ? sizes.extent : sizes.reduction;
  if (!problem.jagged)
    rows = size.mul(rows, sizes.segments);
  HostSize numbers = single_pass_outer::countNumbers(
      HostSize(b, rows), HostSize(b, sizes.segments), problem.jagged);
  return size.mul(panels, numbers.getSize(b));
}

Value SinglePassOuterLaunch::getMostBlocks() {
  return arith::MinSIOp::create(
      b,
      plan::DeviceAttrOp::create(b, builder.getIndexType(),
                                 plan::DeviceAttribute::Multiprocessors),
      index(kMaxBarrierBlocks));
}

/// The tiles of a panel.
OpFoldResult SinglePassOuterLaunch::countTiles() {
  return size.ceilDiv(sizes.reduction, kLines);
}

HostSize SinglePassOuterLaunch::countPanels() {
  return single_pass_outer::countPanels(HostSize(b, sizes.parallel),
                                        HostSize(b, sizes.segments),
                                        getInputBytes());
}

/// Whether there are many tiles, and panels are whole long spans of them.
Value SinglePassOuterLaunch::haveLongSpans(Value mostBlocks) {
  Value all = (countPanels() * HostSize(b, countTiles())).getValue(b);
  Value areMany = arith::CmpIOp::create(
      b, arith::CmpIPredicate::sge, all,
      arith::MulIOp::create(b, mostBlocks, index(kLongSpanTilesPerBlock)));
  Value areWhole =
      compare(arith::CmpIPredicate::eq,
              size.rem(countTiles(), int64_t(1) << kLongSpanLog), 0);
  return both(areMany, areWhole);
}

/// At most `mostBlocks`, or as many fewer as leave the most spans of a block
/// what they are: 20 spans of two tiles in 132 blocks, of which some have 19,
/// were slower than 20 in 128 (5120x8192: 86% -> 88% of a copy).
Value SinglePassOuterLaunch::countBlocks(Value mostBlocks, Value areLong) {
  auto divide = [&](Value lhs, Value rhs) -> Value {
    Value positive = b.createOrFold<arith::MaxSIOp>(rhs, index(1));
    return arith::CeilDivSIOp::create(b, lhs, positive);
  };
  Value spanTiles =
      select(areLong, int64_t(1) << kLongSpanLog, int64_t(1) << kSpanLog);
  Value spansOfPanel =
      arith::CeilDivSIOp::create(b, index(countTiles()), spanTiles);
  Value spans =
      arith::MulIOp::create(b, countPanels().getValue(b), spansOfPanel);
  Value blocks = divide(spans, divide(spans, mostBlocks));
  // Interleaved panels share a multiple of so many.
  Value sets = divide(blocks, index(kInterleavedPanels));
  Value rounded = arith::MulIOp::create(b, sets, index(kInterleavedPanels));
  return arith::MinSIOp::create(b, rounded, mostBlocks);
}

Value SinglePassOuterLaunch::createMap(int64_t columns, int64_t rows,
                                       int64_t swizzle) {
  SmallVector<Value> dims{index(sizes.parallel), index(sizes.reduction)};
  SmallVector<Value> strides{index(sizes.inReduction)};
  SmallVector<int64_t> box{columns, rows};
  if (hasSegmentDim()) {
    dims.push_back(index(sizes.segments));
    strides.push_back(index(sizes.inSegment));
    box.push_back(1);
  }
  return plan::TensorMapOp::create(b, buffers.input, /*offset=*/Value(), dims,
                                   strides, box, swizzle, kPromotion);
}

/// The rows of a box are swizzled alone.
Value SinglePassOuterLaunch::createSwizzledMap(int64_t columns, int64_t rows) {
  return createMap(columns, rows, /*swizzle=*/columns * getInputBytes());
}

Value SinglePassOuterLaunch::createScratch(OpFoldResult partialSlots) {
  return createWorkspace(size.add(
      size.mul(partialSlots, size.constant(kLineBytes / sizeof(int32_t))),
      size.constant(kGridBarrierBytes / sizeof(int32_t))));
}

Value SinglePassOuterLaunch::createWorkspace(OpFoldResult words) {
  SmallVector<Value> dynamicSizes;
  if (ShapedType::isDynamic(getStaticSize(words)))
    dynamicSizes.push_back(index(words));
  auto type = MemRefType::get(getStaticSize(words), builder.getI32Type());
  return plan::WorkspaceOp::create(b, type, dynamicSizes, ValueRange(),
                                   kScratchAlignment)
      .getBuffer();
}

/// What warps of rows need besides, where `when` holds.
Value SinglePassOuterLaunch::createRowCondition(const RowQuantization &rows,
                                                Value when) {
  // A chunk's bytes of output are stored at once.
  int64_t storeBytes = kChunkBytes / getInputBytes();
  return both(plan::AlignedOp::create(b, rows.quantized, storeBytes), when);
}

Value SinglePassOuterLaunch::launch(const SinglePassOuterTile &tile, Value when,
                                    const RowQuantization *rows) {
  RowOutput rowOutput = rows ? rows->output : RowOutput();
  SmallVector<int64_t> numbers{problem.powerOfTwo,      problem.jagged,
                               problem.outputPadding,   problem.inputAlignment,
                               problem.outputAlignment, tile.stages};
  if (rows)
    numbers.append({tile.rowBytes, tile.rowStages, rowOutput.pitch,
                    rowOutput.scaleStride});
  if (problem.divided)
    numbers.push_back(problem.divided);
  SmallVector<OpFoldResult> args = addSizes(numbers);
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      rows ? "quantize_single_pass_both_axes" : "quantize_single_pass_outer",
      {TypeAttr::get(problem.inputType), TypeAttr::get(problem.fp8Type),
       builder.getDenseI64ArrayAttr(numbers)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        buildSinglePassOuterQuantize(b.getLoc(), module, name, problem, tile,
                                     rowOutput, hooks);
      });

  OpFoldResult partialSlots = countPartialSlots();
  Value applies = createCondition(partialSlots);
  applies = both(applies, rows ? createRowCondition(*rows, when) : when);
  // A whole tile whose lines have one row or two, a box, and what is fetched to
  // the second-level cache for several panels at once.
  SmallVector<Value> operands{
      createSwizzledMap(getTileColumns(), kLines),
      createSwizzledMap(getTileColumns() / 2, 2 * kLines),
      createSwizzledMap(getTileColumns(), kBoxLines),
      createMap(kInterleavedPanels * getTileColumns(), kShareRows,
                /*swizzle=*/0)};
  if (problem.jagged)
    operands.push_back(buffers.offsets);
  operands.append({buffers.input, buffers.output, buffers.scales,
                   createScratch(partialSlots)});
  if (rows)
    operands.append({rows->quantized, rows->scales});
  operands.append(factors);
  for (OpFoldResult arg : args)
    operands.push_back(index(arg));
  operands.push_back(index(partialSlots));
  // Of jagged segments only the device knows the spans.
  Value blocks = getMostBlocks();
  if (!problem.jagged) {
    assert(!rows && "with rows, teams do not hold what long runs need");
    Value areLong = haveLongSpans(blocks);
    operands.push_back(select(areLong, kLongSpanLog, kSpanLog));
    blocks = countBlocks(blocks, areLong);
  }
  int64_t threads = tile.getThreads(lowering.getTarget().warpSize);
  plan::LaunchOp::create(b, kernel, ValueRange{blocks, index(1), index(1)},
                         {threads, 1, 1}, SharedMemory(tile).end, operands,
                         both(applies, isNeeded), /*cluster=*/{},
                         /*cooperative=*/true, /*programmatic=*/true);
  return applies;
}

//===----------------------------------------------------------------------===//
// With divisors
//===----------------------------------------------------------------------===//

LogicalResult SinglePassOuterLaunch::requireAlignment(Operation *op,
                                                      StringRef tensor,
                                                      int64_t promised,
                                                      int64_t needed) {
  if (promised % needed == 0)
    return success();
  return op->emitError("'")
         << op->getName() << "' with divisors expects " << tensor
         << " at a multiple of " << needed << " bytes on target "
         << lowering.getTarget().chip
         << ", found one that is only known to be at a multiple of " << promised
         << "; promise it by 'align = " << needed
         << "' in its layout, or compile the function for 'cpu'";
}

/// What types do not say of sizes. Without rows another kernel does the work,
/// and without columns there is none.
void SinglePassOuterLaunch::requireSizes() {
  using Demand = SizeDemand<OpFoldResult>;
  Value holdAll = holds({sizes.segments, Demand::MoreThan, 0});
  for (const Demand &demand :
       getSizeDemands(sizes, getInputBytes(), hasSegmentDim()))
    if (demand.kind != Demand::MoreThan)
      holdAll = both(holdAll, holds(demand));
  holdAll =
      both(holdAll, holds({countPartialSlots(), Demand::LessThan, kMaxCount}));
  if (problem.outputPadding > 1)
    holdAll = both(holdAll, holds({sizes.extent, Demand::LessThan, kMaxCount}));
  plan::RequireOp::create(
      b, holdAll,
      builder.getStringAttr("a quantization with divisors needs rows at "
                            "multiples of 16 bytes, of "
                            "a multiple of 8 bytes, at least one group, and "
                            "fewer than 2^30 rows, "
                            "columns, and groups times columns"));
}

/// A launch of a kernel whose threads take so many numbers, if there are any.
void SinglePassOuterLaunch::launchNumbers(SymbolRefAttr kernel,
                                          ArrayRef<Value> buffers,
                                          ArrayRef<OpFoldResult> arguments,
                                          OpFoldResult numbers, Value when) {
  Value blocks =
      arith::MinSIOp::create(b, index(size.ceilDiv(numbers, kDivisorThreads)),
                             index(kMostDivisorBlocks));
  SmallVector<Value> operands(buffers);
  for (OpFoldResult argument : arguments)
    operands.push_back(index(argument));
  operands.push_back(blocks);
  plan::LaunchOp::create(b, kernel, ValueRange{blocks, index(1), index(1)},
                         {kDivisorThreads, 1, 1}, /*sharedBytes=*/0, operands,
                         both(isNeeded, when));
}

/// Of no rows, groups have scales and padding.
void SinglePassOuterLaunch::launchWithoutRows() {
  if (!ShapedType::isDynamic(problem.sizes.reduction))
    return;
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      "quantize_no_rows",
      {TypeAttr::get(problem.fp8Type), builder.getBoolAttr(problem.powerOfTwo)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        buildEmptyQuantize(b.getLoc(), module, name, problem, hooks);
      });
  OpFoldResult lines = size.add(sizes.extent, sizes.segments);
  launchNumbers(kernel, {buffers.output, buffers.scales},
                {sizes.parallel, sizes.extent, sizes.outParallel,
                 sizes.segments, sizes.scaleSegment, sizes.scaleParallel},
                size.mul(lines, sizes.parallel),
                compare(arith::CmpIPredicate::eq, sizes.reduction, 0));
}

/// The buffers that the kernel multiplies with.
SmallVector<Value>
SinglePassOuterLaunch::launchFactors(const RowQuantization *rows) {
  bool hasGroups = rows != nullptr;
  SymbolRefAttr kernel = lowering.getKernels().getOrBuild(
      "divisor_factors",
      {TypeAttr::get(problem.inputType), builder.getBoolAttr(hasGroups)},
      [&](gpu::GPUModuleOp module, StringRef name, const TargetHooks &hooks) {
        buildDivisorFactors(b.getLoc(), module, name, problem.inputType,
                            hasGroups, hooks);
      });
  Value rowFactors = createWorkspace(size.add(
      sizes.reduction, size.constant(kFactorsBefore + kFactorsBehind)));
  SmallVector<Value> results{rowFactors};
  SmallVector<Value> pointers{buffers.divisors, rowFactors};
  SmallVector<OpFoldResult> arguments{sizes.reduction};
  OpFoldResult numbers = sizes.reduction;
  if (hasGroups) {
    // A group of ones is behind the last.
    OpFoldResult elements =
        size.mul(size.add(sizes.segments, size.constant(1)), sizes.parallel);
    Value groupFactors = createWorkspace(
        size.ceilDiv(elements, int64_t(sizeof(int32_t)) / getInputBytes()));
    Value groupsOfRows = createWorkspace(sizes.reduction);
    results.append({groupFactors, groupsOfRows});
    pointers.append(
        {rows->divisors, groupFactors, buffers.offsets, groupsOfRows});
    arguments.append({sizes.segments, sizes.parallel});
    numbers = size.add(numbers, elements);
  }
  launchNumbers(kernel, pointers, arguments, numbers, /*when=*/Value());
  return results;
}

FailureOr<Value>
SinglePassOuterLaunch::launchDivided(const SinglePassOuterTile &tile,
                                     const RowQuantization *rows,
                                     Operation *op) {
  if (failed(requireAlignment(op, "its input", problem.inputAlignment,
                              nvidia::kTensorMapAddressAlignment)) ||
      (rows &&
       failed(requireAlignment(op, "the data along rows", rows->outputAlignment,
                               kChunkBytes / getInputBytes()))))
    return failure();
  requireSizes();
  launchWithoutRows();
  factors = launchFactors(rows);
  launch(tile, /*when=*/Value(), rows);
  return Value(arith::ConstantIntOp::create(b, builder.getI1Type(), 1));
}

/// Along rows beside `columns`.
static RowQuantization getRowQuantization(const QuantizeOperands &rows) {
  const QuantizeSizes<int64_t> &sizes = rows.problem.sizes;
  return {{sizes.outParallel, sizes.scaleParallel},
          rows.buffers.output,
          rows.buffers.scales,
          rows.buffers.divisors,
          rows.problem.outputAlignment};
}

static SinglePassOuterTile getSinglePassOuterTile(const QuantizeConfig &config,
                                                  bool divided) {
  SinglePassOuterTile tile;
  tile.stages = config.stages;
  if (config.method == QuantizeMethod::SinglePassBothAxes) {
    tile.setRows(config.rowBytes, divided);
    tile.rowStages = config.rowStages;
  }
  return tile;
}

namespace {
class SinglePassOuterLowering : public TileLowering<SinglePassOuterTileAttr> {
public:
  FailureOr<Value> launch(const KernelInstance &instance, Value when,
                          ProgramLowering &lowering) const override {
    const auto &quantize = cast<QuantizeInstance>(instance);
    SinglePassOuterLaunch launcher(quantize, quantize.operands, lowering);
    const bool divided = quantize.operands.problem.divided;
    SinglePassOuterTile tile = getSinglePassOuterTile(quantize.config, divided);
    if (divided)
      return launcher.launchDivided(tile, /*rows=*/nullptr, quantize.op);
    return launcher.launch(tile, when, /*rows=*/nullptr);
  }
};

class SinglePassBothAxesLowering
    : public TileLowering<SinglePassBothAxesTileAttr> {
public:
  FailureOr<Value> launch(const KernelInstance &instance, Value when,
                          ProgramLowering &lowering) const override {
    const auto &both = cast<BothAxesInstance>(instance);
    RowQuantization rows = getRowQuantization(both.rows);
    SinglePassOuterLaunch launcher(both, both.columns, lowering);
    const bool divided = both.columns.problem.divided;
    SinglePassOuterTile tile = getSinglePassOuterTile(both.config, divided);
    if (divided)
      return launcher.launchDivided(tile, &rows, both.op);
    return launcher.launch(tile, when, &rows);
  }
};
} // namespace

const KernelLowering &fp8moe::getSinglePassOuterLowering() {
  static const SinglePassOuterLowering lowering;
  return lowering;
}

const KernelLowering &fp8moe::getSinglePassBothAxesLowering() {
  static const SinglePassBothAxesLowering lowering;
  return lowering;
}
