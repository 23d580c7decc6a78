//===- RowSource.cpp - Rows that kernels compute --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Rows/RowSource.h"

#include "fp8moe/Conversion/SwiGLU.h"

using namespace mlir;
using namespace mlir::fp8moe;

SmallVector<int64_t> RowSourceProblem::getNumbers() const {
  SmallVector<int64_t> numbers{static_cast<int64_t>(kind), inputAlignment,
                               gradientAlignment};
  for (auto member : RowSizes<int64_t>::members())
    numbers.push_back(sizes.*member);
  return numbers;
}

/// The operand besides the input.
static StringRef getSecondName(RowKind kind) {
  switch (kind) {
  case RowKind::Gather:
    return "row_numbers";
  case RowKind::WeightedSwiGLU:
    return "weights";
  case RowKind::SwiGLUGradient:
    return "gradient";
  case RowKind::SwiGLU:
    break;
  }
  llvm_unreachable("SwiGLU reads its input only");
}

RowSource::RowSource(KernelBuilder &b, const RowSourceProblem &problem,
                     unsigned firstPointer, unsigned firstSize, int64_t chunk)
    : b(b), problem(problem), sizes(bindSizes(b, problem.sizes, firstSize)),
      chunk(chunk) {
  inputPointer = b.getPointer(firstPointer, "input");
  if (problem.countPointers() > 1)
    secondPointer = b.getPointer(firstPointer + 1, getSecondName(problem.kind));
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Plane RowSource::createPlane(Value pointer, int64_t alignment, Value pitch) {
  Plane plane{pointer, getBytes(), b.i64(1), pitch, Value()};
  plane.savesRegisters = true;
  if (b.getTarget().has(Feature::UnalignedVectors)) {
    plane.vectorAlignment = plane.elementBytes;
    plane.vectorizable = b.i1(true);
    return plane;
  }
  plane.vectorizable = createVectorizable(
      b, pointer, alignment, plane.elementBytes, plane.vectorStride, {pitch});
  return plane;
}

SmallVector<Value> RowSource::loadWords(const Plane &plane, Value row,
                                        Value column, Value end) {
  return loadChunks(b, plane, column, chunk / plane.getChunk(), row,
                    {b.i64(0), end});
}

SmallVector<Value> RowSource::unpack(ValueRange words) {
  KernelBuilder::Step step(b, "unpack");
  SmallVector<Value> values;
  for (Value chunk : words)
    llvm::append_range(
        values, b.unpackFloats(b.unpackWords(chunk), problem.elementType));
  return values;
}

SmallVector<Value> RowSource::pack(ArrayRef<Value> values) {
  KernelBuilder::Step step(b, "pack");
  SmallVector<Value> words = b.packFloats(values, problem.elementType);
  SmallVector<Value> chunks;
  constexpr size_t kWords = kVectorBytes / kWordBytes;
  for (size_t i = 0; i < words.size(); i += kWords)
    chunks.push_back(b.packWords(ArrayRef(words).slice(i, kWords)));
  return chunks;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

SmallVector<Value> RowSource::find(Value row) {
  KernelBuilder::Step step(b, "find_row");
  auto load = [&](Type type) {
    return b.load(type, b.offsetBytes(secondPointer, b.mul(row, kWordBytes)),
                  kWordBytes, /*readOnly=*/true);
  };
  if (problem.kind == RowKind::Gather)
    return {load(b.getI32Type())};
  if (problem.kind == RowKind::WeightedSwiGLU)
    return {row, load(b.getF32Type())};
  return {row};
}

SmallVector<Value> RowSource::load(ValueRange found, Value column) {
  KernelBuilder::Step step(b, "load_row");
  if (problem.kind == RowKind::Gather)
    return gather(found.front(), column);
  Plane input =
      createPlane(inputPointer, problem.inputAlignment, sizes.inputPitch);
  // The gradient of SwiGLU reads the incoming gradient, too.
  bool isGradient = problem.kind == RowKind::SwiGLUGradient;
  Value half = isGradient ? getPartColumns() : sizes.columns;
  Value row = found.front(), end = b.mul(half, 2);
  SmallVector<Value> loaded = loadWords(input, row, column, end);
  llvm::append_range(loaded, loadWords(input, row, b.add(column, half), end));
  if (isGradient)
    llvm::append_range(
        loaded, loadWords(createPlane(secondPointer, problem.gradientAlignment,
                                      sizes.gradientPitch),
                          row, column, half));
  return loaded;
}

/// (A1). All lanes that compute a row take the same branch.
SmallVector<Value> RowSource::gather(Value number, Value column) {
  Plane plane =
      createPlane(inputPointer, problem.inputAlignment, sizes.inputPitch);
  // Negative numbers are large ones, too.
  Value row = arith::ExtSIOp::create(b, b.getI64Type(), number);
  Value exists = b.compare(arith::CmpIPredicate::ult, row, sizes.inputRows);
  return b.createIf(
      exists, [&] { return loadWords(plane, row, column, sizes.columns); },
      [&] {
        return SmallVector<Value>(chunk / plane.getChunk(), b.zeroWords());
      });
}

/// (A2) by the approximations that GPUs have instructions for.
static Value createSigmoid(KernelBuilder &b, Value x) {
  constexpr auto kApproximate = LLVM::FastmathFlags::afn;
  constexpr float kMinusLog2E = -1.44269504f;
  Value power = LLVM::CallIntrinsicOp::create(
                    b, b.getF32Type(), b.getStringAttr("llvm.exp2"),
                    ValueRange{arith::MulFOp::create(b, x, b.f32(kMinusLog2E))},
                    LLVM::FastmathFlagsAttr::get(b.getContext(), kApproximate))
                    .getResult(0);
  return LLVM::FDivOp::create(b, b.f32(1.0f),
                              arith::AddFOp::create(b, power, b.f32(1.0f)),
                              kApproximate);
}

SmallVector<Value> RowSource::compute(ValueRange found, ValueRange loaded) {
  KernelBuilder::Step step(b, "compute_row");
  if (problem.kind == RowKind::Gather)
    return loaded;
  const size_t words = chunk * getBytes() / kVectorBytes;
  SmallVector<Value> gates = unpack(loaded.take_front(words));
  SmallVector<Value> ups = unpack(loaded.slice(words, words));
  if (problem.kind != RowKind::SwiGLUGradient) {
    Value weight =
        problem.kind == RowKind::WeightedSwiGLU ? found.back() : Value();
    SmallVector<Value> values;
    for (auto [gate, up] : llvm::zip_equal(gates, ups)) {
      KernelBuilder::Step step(b, "swiglu");
      values.push_back(
          createSwiGLU(b, gate, up, createSigmoid(b, gate), weight));
    }
    return pack(values);
  }
  SmallVector<Value> ofGates, ofUps;
  for (auto [incoming, gate, up] :
       llvm::zip_equal(unpack(loaded.drop_front(2 * words)), gates, ups)) {
    KernelBuilder::Step step(b, "swiglu_gradient");
    auto [ofGate, ofUp] =
        createSwiGLUGradient(b, incoming, gate, up, createSigmoid(b, gate));
    ofGates.push_back(ofGate);
    ofUps.push_back(ofUp);
  }
  SmallVector<Value> chunks = pack(ofGates);
  llvm::append_range(chunks, pack(ofUps));
  return chunks;
}
