//===- Cells.cpp - Cells of tiles as FP8 ----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/SinglePassOuter/Convert.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;
//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

/// Makes values opaque, so that LLVM does not merge the same computation of two
/// branches behind both. It would select the operands by as many copies. Making
/// one of both branches opaque is enough.
static SmallVector<Value> keepApart(KernelBuilder &b, ArrayRef<Value> values) {
  return llvm::map_to_vector(values, [&](Value value) -> Value {
    return kernel::OpaqueOp::create(b, value);
  });
}

int64_t single_pass_outer::getFlippedBits(int64_t row) {
  return row * kLineBytes | row * kChunkBytes;
}

/// Loads the cell's rows, as vector<2xi32>, in the order in which the lane
/// reads them. A row's address is that of the lane's first row with some bits
/// flipped: bits of the line and of the swizzle. In the second half of the rows
/// only the line differs from the first half.
SmallVector<Value> ConvertBuilder::loadCell(Value stage) {
  KernelBuilder::Step step(b, "load_cell");
  Type type = VectorType::get(2, b.getI32Type());
  Value tile = k.getStage(stage);
  SmallVector<Value> rows;
  for (int64_t row : llvm::seq(kCellRows)) {
    int64_t low = row % kSwizzleLines;
    Value offset = b.add(b.bitXor(firstOffset, getFlippedBits(low)),
                         (row - low) * kLineBytes);
    rows.push_back(b.load(type, b.offsetBytes(tile, offset), kCellBytes));
  }
  return rows;
}

/// Returns the elements of lines as f32, line by line.
SmallVector<Value> ConvertBuilder::getValues(ArrayRef<Value> lines) {
  SmallVector<Value> values;
  for (Value line : lines)
    for (int64_t i :
         llvm::seq(cast<VectorType>(line.getType()).getNumElements())) {
      Value word = b.createOrFold<vector::ExtractOp>(line, i);
      for (Value bits : k.math.unpackWord(word))
        values.push_back(b.bitcast(b.getF32Type(), bits));
    }
  return values;
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// Loads a panel's scales (f32) of `columns` columns of a tile from `column`
/// on.
Value ConvertBuilder::loadScales(Value scales, Value column, int64_t columns) {
  return b.load(VectorType::get(columns, b.getF32Type()),
                b.offsetBytes(scales, b.mul(column, sizeof(float))),
                columns * sizeof(float));
}

/// Packs scales, which bf16 represents exactly, into words.
static Value packScales(KernelBuilder &b, Value scales) {
  int64_t columns = cast<VectorType>(scales.getType()).getNumElements();
  Value narrow = arith::TruncFOp::create(
      b, VectorType::get(columns, b.getBF16Type()), scales);
  return vector::BitCastOp::create(
      b, VectorType::get(columns / 2, b.getI32Type()), narrow);
}

/// Returns the products of bf16 elements in vectors of words.
static Value multiply(SinglePassOuterKernel &k, Value words, Value factors) {
  int64_t numWords = cast<VectorType>(words.getType()).getNumElements();
  auto elements = VectorType::get(2 * numWords, k.b.getBF16Type());
  return k.math.createPackedProduct(
      words, vector::BitCastOp::create(k.b, elements, factors));
}

/// Returns an i1: whether a line belongs to the previous segment. Null if no
/// line does.
static Value isBefore(KernelBuilder &b, const FixUp &fixUp, int64_t line) {
  return fixUp.lines ? b.isNonZero(b.bitAnd(fixUp.lines, 1 << line)) : Value();
}

/// Returns lines times the scales of their columns as bf16, which is exact.
SmallVector<Value> ConvertBuilder::scalePacked(ArrayRef<Value> lines,
                                               Value scales,
                                               const FixUp &fixUp) {
  KernelBuilder::Step step(b, "scale_packed");
  Value own = packScales(b, scales), before;
  if (fixUp.lines)
    before = packScales(b, fixUp.scales);
  SmallVector<Value> scaled;
  for (auto [index, line] : llvm::enumerate(lines)) {
    Value condition = isBefore(b, fixUp, index);
    scaled.push_back(
        multiply(k, line, condition ? b.select(condition, before, own) : own));
  }
  return scaled;
}

/// Returns the elements of lines times the scales of their columns as f32
/// products.
SmallVector<Value> ConvertBuilder::scaleValues(ArrayRef<Value> lines,
                                               Value scales,
                                               const FixUp &fixUp) {
  KernelBuilder::Step step(b, "scale_values");
  int64_t columns = cast<VectorType>(scales.getType()).getNumElements();
  SmallVector<Value> values = getValues(lines);
  for (auto [i, value] : llvm::enumerate(values)) {
    auto getScale = [&, i = i](Value vector) {
      return b.createOrFold<vector::ExtractOp>(vector, i % columns);
    };
    Value condition = isBefore(b, fixUp, i / columns);
    Value scale = condition ? b.select(condition, getScale(fixUp.scales),
                                       getScale(scales))
                            : getScale(scales);
    value = arith::MulFOp::create(b, value, scale);
  }
  return values;
}

/// Returns a word whose bit i is set if the lane's i-th line belongs to the
/// previous segment. Line numbers instead would take more registers.
Value ConvertBuilder::createLinesBefore(const TileRecord &record,
                                        Value firstRow) {
  Value rowsBefore = b.clamp(b.sub(getLow(record), firstRow), 0, kCellRows);
  Value lines = b.sub(b.shiftLeft(b.i32(1), rowsBefore), 1);
  // Line i is row i XOR the position.
  constexpr std::pair<int64_t, int64_t> kSwaps[] = {
      {1, 0x5555}, {2, 0x3333}, {4, 0x0f0f}};
  for (auto [distance, lower] : kSwaps) {
    Value swapped = b.bitOr(b.shiftLeft(b.bitAnd(lines, lower), distance),
                            b.bitAnd(b.shiftRight(lines, distance), lower));
    lines = b.select(b.isNonZero(b.bitAnd(position, distance)), swapped, lines);
  }
  return lines;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// Converts two f32 to FP8 in the lower half of a word. The upper half is
/// undefined.
Value ConvertBuilder::createPair(Value low, Value high) {
  Value pair = kernel::PackFP8PairOp::create(b, low, high, k.problem.fp8Type);
  auto halves = VectorType::get(2, b.getI16Type());
  Value any = LLVM::FreezeOp::create(b, LLVM::PoisonOp::create(b, halves));
  return LLVM::BitcastOp::create(
      b, b.getI32Type(), vector::InsertOp::create(b, pair, any, int64_t(0)));
}

/// Packs a cell's scaled values into words of four rows, in ascending order of
/// rows.
CellWords ConvertBuilder::createWords(ArrayRef<Value> values) {
  KernelBuilder::Step step(b, "pack_cell");
  // Byte i of a word comes from byte i XOR the lowest two bits of the position,
  // of two pairs.
  constexpr int64_t kBytesInOrder = 0x3210, kEachSelector = 0x1111,
                    kSecondPair = 0x2222;
  Value selector =
      b.bitXor(b.mul(b.bitAnd(position, 3), kEachSelector), kBytesInOrder);
  selector = b.add(selector, b.bitAnd(selector, kSecondPair));
  Value swapsWords = b.isNonZero(b.bitAnd(position, 4));
  int64_t columns = getCellColumns();
  CellWords words;
  for (int64_t column : llvm::seq(columns)) {
    auto getPair = [&](int64_t line) {
      return createPair(values[line * columns + column],
                        values[(line + 1) * columns + column]);
    };
    SmallVector<Value> read;
    for (int64_t line = 0; line < kCellRows; line += kWordBytes)
      read.push_back(
          b.permuteBytes(getPair(line), getPair(line + 2), selector));
    for (size_t i : llvm::seq(read.size()))
      words.push_back(b.select(swapsWords, read[i ^ 1], read[i]));
  }
  return words;
}

/// Quantizes a cell that begins at row `firstRow` of the tile. Tiles with and
/// without a fix-up share the conversion, as code for both would exceed the
/// instruction cache beside other roles. For f32 products, sharing would keep
/// twice as many registers.
CellWords ConvertBuilder::quantize(ArrayRef<Value> cell,
                                   const TileRecord &record, Value firstRow) {
  auto loadOfCell = [&](Value scales) {
    return loadScales(scales, getColumnInTile(), getCellColumns());
  };
  Value scales = loadOfCell(k.getPanelScales(record.panel));
  auto getFixUp = [&]() -> FixUp {
    Value previous = loadOfCell(k.getFixUpScales(record.panel));
    return {previous, createLinesBefore(record, firstRow)};
  };
  if (k.math.scalesPacked())
    return createWords(getValues(b.createIf(
        needsFixUp(record),
        [&] { return keepApart(b, scalePacked(cell, scales, getFixUp())); },
        [&] { return scalePacked(cell, scales); })));
  return b.createIf(
      needsFixUp(record),
      [&] { return createWords(scaleValues(cell, scales, getFixUp())); },
      [&] { return createWords(scaleValues(cell, scales)); });
}

/// Zeroes the rows from `high` on.
CellWords ConvertBuilder::maskPadding(const CellWords &words, Value firstRow,
                                      Value high) {
  KernelBuilder::Step step(b, "mask_padding");
  Value data = b.sub(high, firstRow);
  return b.createIf(
      b.lessEqual(b.i32(kCellRows), data), [&] { return words; },
      [&] {
        CellWords masked = words;
        for (int64_t i : llvm::seq<int64_t>(4)) {
          Value bytes = b.clamp(b.sub(data, 4 * i), 0, 4);
          Value below =
              b.sub(b.shiftLeft(b.i32(1), b.mul(b.minS(bytes, 3), 8)), 1);
          Value mask = b.select(b.equal(bytes, 4), b.i32(-1), below);
          for (size_t word = i; word < masked.size(); word += kCellWords)
            masked[word] = b.bitAnd(masked[word], mask);
        }
        return masked;
      });
}
