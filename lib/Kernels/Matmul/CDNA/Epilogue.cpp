//===- Epilogue.cpp - Scales and results ----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/Kernel.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Neighbouring columns that a lane holds.
static constexpr int64_t kRun = 8;

CDNAEpilogue::CDNAEpilogue(CDNAMatmulKernel &kernel, const CDNATile &tile)
    : kernel(kernel), b(kernel.b), tile(tile) {
  const auto &problem = kernel.problem;
  result = getRange(kernel.result,
                    problem.isMGrouped() ? kernel.sizes.resultRow
                                         : kernel.strides.resultRow,
                    kernel.strides.resultGroup);
  if (problem.accumulates)
    addend = getRange(kernel.addend, kernel.sizes.addendRow,
                      kernel.sizes.addendGroup);
}

/// The tile's part of a tensor like the result.
BufferRange CDNAEpilogue::getRange(Value base, Value pitch, Value groupStride) {
  Value first = b.add(b.mul(b.widen(tile.row), pitch), b.widen(tile.column));
  if (!kernel.problem.isMGrouped())
    first = b.add(first, b.mul(b.widen(tile.group), groupStride));
  int64_t bytes = kernel.problem.getResultBytes();
  Value before = b.widen(b.sub(b.minS(tile.rowsLeft, kernel.config.rows), 1));
  Value columns = b.widen(tile.columnsLeft);
  return BufferRange(b, b.offsetBytes(base, b.mul(first, bytes)),
                     b.mul(b.add(b.mul(before, pitch), columns), bytes));
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// Scales of a tile: of its rows, and behind them of its columns if these have
/// any.
static int64_t countScales(const CDNAMatmulKernel &kernel) {
  return kernel.config.rows +
         (kernel.problem.hasScalesB ? kernel.config.columns : 0);
}

void CDNAEpilogue::loadScales() {
  KernelBuilder::Step step(b, "load_scales");
  if (!kernel.problem.hasScalesA)
    return;
  const CDNAMatmulConfig &config = kernel.config;
  Value group = b.widen(tile.group);
  Value row = b.widen(tile.row);
  if (!kernel.problem.isMGrouped())
    row = b.add(row, b.mul(group, kernel.sizes.rows));
  Value column =
      b.add(b.mul(group, kernel.sizes.columns), b.widen(tile.column));
  auto getRange = [&](Value base, Value first, Value count) {
    constexpr int64_t bytes = sizeof(float);
    return BufferRange(b, b.offsetBytes(base, b.mul(first, bytes)),
                       b.mul(b.widen(count), bytes));
  };
  BufferRange rows = getRange(kernel.scaleA, row, tile.rowsLeft);
  std::optional<BufferRange> columns;
  if (kernel.problem.hasScalesB)
    columns = getRange(kernel.scaleB, column, tile.columnsLeft);
  int64_t count = countScales(kernel);
  for (int64_t first = 0; first < count; first += config.getThreads()) {
    // One of the two is outside of its range, and zero.
    Value index = b.add(kernel.thread, first);
    Value isRow = b.less(index, config.rows);
    Value rowOffset =
        b.select(isRow, b.mul(index, kWordBytes), BufferRange::kOutside);
    Value columnOffset;
    if (columns)
      columnOffset = b.select(isRow, b.i32(BufferRange::kOutside),
                              b.mul(b.sub(index, config.rows), kWordBytes));
    Value word = rows.load(b, b.getI32Type(), rowOffset);
    if (columns)
      word = b.bitOr(word, columns->load(b, b.getI32Type(), columnOffset));
    scales.push_back(b.bitcast(b.getF32Type(), word));
  }
}

void CDNAEpilogue::shareScales() {
  KernelBuilder::Step step(b, "share_scales");
  const CDNAMatmulConfig &config = kernel.config;
  int64_t count = countScales(kernel);
  for (auto [round, loaded] : llvm::enumerate(scales)) {
    int64_t first = round * config.getThreads();
    Value scale = loaded;
    if (kernel.problem.reciprocalScales)
      scale = arith::DivFOp::create(b, b.f32(1), scale);
    // Scales may be anything where there is no product.
    scale = b.select(tile.isZero, b.f32(0), scale);
    Value index = b.add(kernel.thread, first);
    auto store = [&] {
      b.store(scale, b.offsetBytes(kernel.shared, b.mul(index, kWordBytes)),
              kWordBytes);
    };
    if (first + config.getThreads() <= count)
      store();
    else
      b.createIf(b.less(index, count), store);
  }
  b.createBarrier();
}

void CDNAEpilogue::scale(Run &run) {
  KernelBuilder::Step step(b, "scale_run");
  if (!kernel.problem.hasScalesA)
    return;
  auto getShared = [&](Value index) {
    return b.offsetBytes(kernel.shared, b.mul(index, kWordBytes));
  };
  // Products of pairs are one instruction.
  auto pair = VectorType::get(2, b.getF32Type());
  Value rowScale = b.load(b.getF32Type(), getShared(run.row), kWordBytes);
  Value rowScales = vector::BroadcastOp::create(b, pair, rowScale);
  Value columns = b.add(run.column, kernel.config.rows);
  for (int64_t first = 0; first < kRun; first += 2) {
    Value columnScales;
    if (kernel.problem.hasScalesB)
      columnScales =
          b.load(pair, getShared(b.add(columns, first)), 2 * kWordBytes);
    Value values = vector::FromElementsOp::create(
        b, pair, ValueRange{run.values[first], run.values[first + 1]});
    values = arith::MulFOp::create(b, values, rowScales);
    if (columnScales)
      values = arith::MulFOp::create(b, values, columnScales);
    for (int64_t i : {0, 1})
      run.values[first + i] = vector::ExtractOp::create(b, values, i);
  }
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Value CDNAEpilogue::getOffset(const Run &run, int64_t element, Value pitch) {
  Value column = b.add(run.column, element);
  Value isInside = b.bitAnd(b.less(run.row, tile.rowsLeft),
                            b.less(column, tile.columnsLeft));
  Value place = b.add(b.mul(run.row, b.narrow(pitch)), column);
  return b.select(isInside, b.mul(place, kernel.problem.getResultBytes()),
                  BufferRange::kOutside);
}

/// Adds what was there, as f32.
void CDNAEpilogue::accumulate(Run &run, bool isRagged) {
  KernelBuilder::Step step(b, "accumulate_run");
  if (!kernel.problem.accumulates)
    return;
  Value pitch = kernel.sizes.addendRow;
  Type type = kernel.problem.resultType;
  SmallVector<Value> terms;
  if (isRagged) {
    auto bits = b.getIntegerType(type.getIntOrFloatBitWidth());
    for (int64_t i : llvm::seq(kRun)) {
      Value element = addend.load(b, bits, getOffset(run, i, pitch));
      Value word = b.zeroExtend(b.getI32Type(), element);
      terms.push_back(b.unpackFloats(word, type).front());
    }
  } else {
    for (int64_t first = 0; first < kRun;
         first += kVectorBytes / kernel.problem.getResultBytes()) {
      Value words =
          addend.load(b, b.getWordsType(), getOffset(run, first, pitch));
      llvm::append_range(terms, b.unpackFloats(b.unpackWords(words), type));
    }
  }
  for (auto [value, term] : llvm::zip_equal(run.values, terms))
    value = arith::AddFOp::create(b, value, term);
}

void CDNAEpilogue::store(const Run &run, bool isRagged) {
  KernelBuilder::Step step(b, "store_run");
  Value pitch = kernel.problem.isMGrouped() ? kernel.sizes.resultRow
                                            : kernel.strides.resultRow;
  bool isBF16 = kernel.problem.getResultBytes() == 2;
  SmallVector<Value> words =
      b.packFloats(run.values, kernel.problem.resultType);
  if (!isRagged) {
    for (size_t first = 0; first < words.size(); first += 4)
      result.store(b, b.packWords(ArrayRef(words).slice(first, 4)),
                   getOffset(run, first, pitch));
    return;
  }
  for (int64_t i : llvm::seq(kRun)) {
    Value element = words[i * words.size() / kRun];
    if (isBF16)
      element = b.truncate(b.getI16Type(), b.shiftRight(element, i % 2 * 16));
    result.store(b, element, getOffset(run, i, pitch));
  }
}

void CDNAEpilogue::storeRuns(ArrayRef<Value> accumulators, bool isRagged) {
  const CDNAMatmulConfig &config = kernel.config;
  int64_t rowTiles = config.getInstructions(/*areRows=*/true);
  int64_t columnTiles = config.getInstructions(/*areRows=*/false);
  int64_t results = kernel.mfma.getResults();
  // Results of the instructions beside each other that make a run.
  int64_t runs = columnTiles * results / kRun;
  Value firstRow =
      b.add(b.mul(kernel.waveRow, config.getWaveRows()), kernel.laneRow);
  Value firstColumn =
      b.add(b.mul(kernel.waveColumn, CDNAMatmulConfig::kWaveColumns),
            b.mul(kernel.laneChunk, kRun));
  for (int64_t rowHalf : {0, 1})
    for (int64_t i : llvm::seq(rowTiles))
      for (int64_t columnHalf : {0, 1})
        for (int64_t number : llvm::seq(runs)) {
          int64_t lanesApart = CDNAMatmulConfig::kWaveColumns / runs;
          Run run;
          run.row = b.add(firstRow, rowHalf * config.getHalf(/*areRows=*/true) +
                                        i * config.edge);
          run.column = b.add(firstColumn,
                             columnHalf * config.getHalf(/*areRows=*/false) +
                                 number * lanesApart);
          int64_t quadrant = rowHalf * 2 + columnHalf;
          for (int64_t k : llvm::seq(kRun)) {
            int64_t place = number * kRun + k;
            Value sums = accumulators[(quadrant * rowTiles + i) * columnTiles +
                                      place / results];
            run.values.push_back(
                vector::ExtractOp::create(b, sums, place % results));
          }
          scale(run);
          accumulate(run, isRagged);
          store(run, isRagged);
        }
}

void CDNAEpilogue::storeTile(ArrayRef<Value> accumulators) {
  if (kernel.problem.hasScalesA)
    shareScales();
  int64_t columns = kernel.problem.sizes.columns;
  bool mayBeRagged = ShapedType::isDynamic(columns) || columns % kRun;
  if (!mayBeRagged) {
    storeRuns(accumulators, /*isRagged=*/false);
    return;
  }
  Value isPart = b.isNonZero(b.bitAnd(tile.columnsLeft, kRun - 1));
  Value isRagged =
      b.bitAnd(isPart, b.less(tile.columnsLeft, kernel.config.columns));
  b.createIf(
      isRagged, [&] { storeRuns(accumulators, /*isRagged=*/true); },
      [&] { storeRuns(accumulators, /*isRagged=*/false); });
}
