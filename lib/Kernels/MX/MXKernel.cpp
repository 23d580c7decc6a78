//===- MXKernel.cpp - What MX kernels have in common ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/MX/MXKernel.h"

#include "fp8moe/Conversion/F32Bits.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace mlir::fp8moe;

MXKernel::MXKernel(KernelBuilder &b, const MXQuantizeProblem &problem,
                   unsigned firstPointer, unsigned firstSize)
    : b(b), problem(problem),
      math(b, problem.inputType, problem.fp8Type, /*powerOfTwo=*/true),
      fromLines(readsAlongLines(problem)), toLines(writesAlongLines(problem)),
      packsFactors(math.scalesPacked() &&
                   b.getTarget().has(Feature::PackedBF16Products)),
      tiles(createTiles(firstPointer, firstSize)) {}

/// Also sets the members that are parameters.
SegmentTiles MXKernel::createTiles(unsigned firstPointer, unsigned firstSize) {
  unsigned pointer = 0;
  inputPointer = b.getPointer(pointer++, "input");
  if (problem.jagged)
    offsetsPointer = b.getPointer(pointer++, "group_ends");
  pointer += firstPointer;
  outputPointer = b.getPointer(pointer++, "output");
  scalesPointer = b.getPointer(pointer++, "scales");
  sizes = bindSizes(b, problem.sizes, firstSize);
  return SegmentTiles(b, sizes, offsetsPointer);
}

MXTile MXKernel::getTile(const SegmentTile &tile) {
  SegmentBuffer input{
      inputPointer,    math.getInputBytes(), problem.inputAlignment,
      sizes.inSegment, sizes.inRow,          sizes.inColumn};
  SegmentBuffer output{
      outputPointer,    /*elementBytes=*/1, problem.outputAlignment,
      sizes.outSegment, sizes.outRow,       sizes.outColumn};
  // Rows are lines, or the elements of lines.
  bool toRows = toLines != problem.linesAreRows;
  return {tile,
          tile.get(problem.linesAreRows),
          tile.get(!problem.linesAreRows),
          tiles.getTilePlane(tile, input, readsRows()),
          tiles.getTilePlane(tile, output, toRows),
          tiles.getPlane(tile, output, toRows)};
}

void MXKernel::forEachTile(MXKernel *across,
                           function_ref<void(const MXTile &)> quantize) {
  tiles.forEach(readsRows(), [&](const SegmentTile &tile) {
    MXTile mx = getTile(tile);
    auto zero = [&] {
      zeroTile(mx);
      if (across)
        across->zeroTile(across->getTile(tile));
    };
    b.createIf(tile.isRemainder, zero, [&] { quantize(mx); });
  });
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

static constexpr int64_t kNaNByte = 255;

static APFloat getLargest(Type fp8Type) {
  return APFloat::getLargest(cast<FloatType>(fp8Type).getFloatSemantics());
}

/// The addend that rounds the exponent of a magnitude up, added before the
/// mantissa is shifted out: (X10) any mantissa, (X11) one that is nearer to the
/// next power of two than to the type's last number before it. A tie is behind
/// a mantissa of ones, an odd one.
static int64_t getExponentAddend(Type fp8Type, MXMode mode) {
  if (mode == MXMode::Ceil)
    return f32::kMantissaMask;
  if (mode == MXMode::Floor)
    return 0;
  int64_t precision =
      APFloat::semanticsPrecision(cast<FloatType>(fp8Type).getFloatSemantics());
  return int64_t{1} << (f32::kMantissaBits - precision);
}

/// (X2), (X10), (X11): the rounded exponent of amax less that of the type's
/// largest value. The exponent of a subnormal amax is 0, or 1 where it was
/// rounded, which clamps to byte 0 as it should.
static Value createExponentByte(KernelBuilder &b, Value magnitude, Type fp8Type,
                                MXMode mode) {
  if (int64_t addend = getExponentAddend(fp8Type, mode))
    magnitude = b.add(magnitude, addend);
  Value exponent = b.shiftRight(magnitude, f32::kMantissaBits);
  return b.maxS(b.sub(exponent, ilogb(getLargest(fp8Type))), 0);
}

/// (X3): the exponent of amax / FP8_MAX, plus one unless that is a power of
/// two. Byte 0 is 2^-127, a subnormal f32 whose only bit is the upper one of
/// the mantissa.
static Value createRCeilByte(KernelBuilder &b, Value magnitude, Type fp8Type) {
  auto reciprocal =
      static_cast<float>(1.0 / getLargest(fp8Type).convertToDouble());
  Value quotient = arith::MulFOp::create(
      b, b.bitcast(b.getF32Type(), magnitude), b.f32(reciprocal));
  Value bits = b.bitcast(b.getI32Type(), quotient);
  Value exponent = b.shiftRight(bits, f32::kMantissaBits);
  Value mantissa = b.bitAnd(bits, f32::kMantissaMask);
  Value exact =
      b.select(b.equal(exponent, 0), b.i32((f32::kMantissaMask + 1) / 2), 0);
  Value roundsUp = b.less(exact, mantissa);
  return b.add(exponent, b.zeroExtend(b.getI32Type(), roundsUp));
}

/// The scale byte (i32) of a block whose largest magnitude has these f32 bits:
/// (X2) to (X4), (X10) and (X11) of docs/reference/semantics.md.
static Value createScaleByte(KernelBuilder &b, Value magnitude, Type fp8Type,
                             MXMode mode) {
  Value byte = mode == MXMode::RCeil
                   ? createRCeilByte(b, magnitude, fp8Type)
                   : createExponentByte(b, magnitude, fp8Type, mode);
  // Magnitudes have no sign bit.
  return b.select(b.less(magnitude, f32::kInfinity), byte, kNaNByte);
}

/// (X5): the f32 to multiply by instead of dividing by 2^(byte - 127); NaN for
/// a NaN's byte.
static Value createMultiplier(KernelBuilder &b, Value byte) {
  // Bytes of finite blocks are far below 254, as FP8_MAX is at least 240: this
  // is a normal f32.
  Value exponent = b.sub(b.i32(2 * f32::kBias), byte);
  Value power = b.shiftLeft(exponent, f32::kMantissaBits);
  return b.bitcast(b.getF32Type(), b.select(b.equal(byte, kNaNByte),
                                            b.i32(f32::kQuietNaN), power));
}

MXKernel::Scales MXKernel::createScales(ArrayRef<Value> magnitudes) {
  KernelBuilder::Step step(b, "create_scales");
  Scales scales;
  for (Value magnitude : magnitudes) {
    Value byte = createScaleByte(b, magnitude, problem.fp8Type, problem.mode);
    scales.bytes.push_back(byte);
    scales.multipliers.push_back(createMultiplier(b, byte));
  }
  return scales;
}

Value MXKernel::createProduct(Value chunk, ArrayRef<Value> factors) {
  auto elements = VectorType::get(kVectorBytes / 2, b.getBF16Type());
  return math.createPackedProduct(
      chunk, vector::BitCastOp::create(b, elements, b.packWords(factors)));
}

SmallVector<Value> MXKernel::createFP8(ArrayRef<Value> values,
                                       ArrayRef<Value> factors) {
  return packsFactors ? math.createFP8(values)
                      : math.createQuantize(values, factors);
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

Value MXKernel::getScaleTile(const MXTile &tile) {
  return createScaleTile(b, scalesPointer, tiles, tile.tile,
                         problem.linesAreRows);
}

Value MXKernel::isBlock(const MXTile &tile, Value lineInTile,
                        Value blockInTile) {
  Value line = b.add(tile.lines.first, lineInTile);
  Value element = b.add(tile.elements.first, b.mul(blockInTile, kMXBlock));
  return b.bitAnd(tile.lines.contains(b, line),
                  tile.elements.contains(b, element));
}

void MXKernel::putScale(const MXTile &tile, Value memory, Value lineInTile,
                        Value blockInTile, Value byte) {
  Value offset = createOffsetInScaleTile(b, lineInTile, blockInTile);
  b.store(b.select(isBlock(tile, lineInTile, blockInTile),
                   b.truncate(b.getI8Type(), byte), 0),
          b.offsetBytes(memory, offset), /*alignment=*/1);
}

void MXKernel::storeScale(const MXTile &tile, Value lineInTile,
                          Value blockInTile, Value byte) {
  KernelBuilder::Step step(b, "store_scale");
  if (problem.tiledScales)
    return putScale(tile, getScaleTile(tile), lineInTile, blockInTile, byte);
  b.createIf(isBlock(tile, lineInTile, blockInTile), [&] {
    Value line = b.add(tile.lines.first, lineInTile);
    Value element = b.add(tile.elements.first, b.mul(blockInTile, kMXBlock));
    Value offset = b.add(b.mul(tile.tile.batch, sizes.scaleSegment),
                         b.mul(line, sizes.scaleLine));
    b.store(
        b.truncate(b.getI8Type(), byte),
        b.offsetBytes(scalesPointer, b.add(offset, b.divU(element, kMXBlock))),
        /*alignment=*/1);
  });
}

void MXKernel::storeScales(const MXTile &tile, Value memory) {
  if (problem.tiledScales)
    storeScaleTile(tile, memory);
  else
    storeScaleLines(tile, memory);
}

/// The blocks of a line lie side by side, and so do the threads that store
/// them: fewer sectors than those that quantize them would touch at once.
void MXKernel::storeScaleLines(const MXTile &tile, Value memory) {
  b.createFor(b.getThread(), b.i64(kScaleTileBytes), b.getNumThreads(),
              [&](Value index) {
                Value line = b.divU(index, kScaleTileBlocks);
                Value block = b.remU(index, kScaleTileBlocks);
                Value offset = createOffsetInScaleTile(b, line, block);
                storeScale(tile, line, block,
                           b.load(b.getI8Type(), b.offsetBytes(memory, offset),
                                  /*alignment=*/1));
              });
}

void MXKernel::storeScaleTile(const MXTile &tile, Value memory) {
  Value target = getScaleTile(tile);
  auto copy = [&](Type type, int64_t bytes) {
    b.createFor(b.mul(b.getThread(), bytes), b.i64(kScaleTileBytes),
                b.mul(b.i64(b.getNumThreads()), bytes), [&](Value offset) {
                  b.store(b.load(type, b.offsetBytes(memory, offset), bytes),
                          b.offsetBytes(target, offset), bytes);
                });
  };
  Value address = LLVM::PtrToIntOp::create(b, b.getI64Type(), scalesPointer);
  b.createIf(
      b.equal(b.bitAnd(address, kVectorBytes - 1), 0),
      [&] { copy(b.getWordsType(), kVectorBytes); },
      [&] { copy(b.getI8Type(), 1); });
}

void MXKernel::forEachChunk(
    const TileExtent &along, const TileExtent &across,
    function_ref<void(Value inTile, Value chunk, Value first, Value other)>
        body) {
  constexpr int64_t kChunks = kSegmentTile / kVectorBytes;
  b.createFor(b.getThread(), b.i64(kSegmentTile * kChunks), b.getNumThreads(),
              [&](Value index) {
                Value inTile = b.divU(index, kChunks),
                      chunk = b.remU(index, kChunks);
                Value other = b.add(across.first, inTile);
                b.createIf(across.contains(b, other), [&] {
                  body(inTile, chunk,
                       b.add(along.first, b.mul(chunk, kVectorBytes)), other);
                });
              });
}

void MXKernel::zeroTile(const MXTile &tile) {
  const TileExtent &along = toLines ? tile.elements : tile.lines;
  forEachChunk(along, toLines ? tile.lines : tile.elements,
               [&](Value, Value, Value first, Value other) {
                 zeroChunk(b, tile.output, first, other, along.range);
               });
  Value zero = arith::ConstantIntOp::create(b, b.getI8Type(), 0);
  Value scales = getScaleTile(tile);
  b.createFor(b.getThread(), b.i64(kScaleTileBytes), b.getNumThreads(),
              [&](Value index) {
                b.store(zero, b.offsetBytes(scales, index), /*alignment=*/1);
              });
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

/// Whether lines are accessed along their elements, by the strides of a matrix.
static bool isAlongLines(const MXQuantizeProblem &problem, int64_t row,
                         int64_t column) {
  auto [line, element] =
      problem.linesAreRows ? std::pair(row, column) : std::pair(column, row);
  return element == 1 || line != 1;
}

bool fp8moe::readsAlongLines(const MXQuantizeProblem &problem) {
  return isAlongLines(problem, problem.sizes.inRow, problem.sizes.inColumn);
}

bool fp8moe::writesAlongLines(const MXQuantizeProblem &problem) {
  return isAlongLines(problem, problem.sizes.outRow, problem.sizes.outColumn);
}

void fp8moe::buildMXQuantize(KernelBuilder &b,
                             ArrayRef<MXQuantizeProblem> problems) {
  const MXQuantizeProblem &first = problems.front();
  MXKernel kernel(b, first);
  std::optional<MXKernel> across;
  if (problems.size() > 1)
    across.emplace(b, problems.back(), /*firstPointer=*/2,
                   countDynamic(first.sizes));
  if (readsAlongLines(first))
    buildMXInner(kernel);
  else
    buildMXOuter(kernel, across ? &*across : nullptr);
}
