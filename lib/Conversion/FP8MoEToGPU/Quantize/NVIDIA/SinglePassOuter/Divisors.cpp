//===- Divisors.cpp - What is beside a quantization with divisors ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FP8MoEToGPU/Quantize/NVIDIA/SinglePassOuter/Divisors.h"
#include "FP8MoEToGPU/Quantize/QuantizeMath.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::single_pass_outer;

/// Calls `body` with each number below `count`, one a thread.
static void forEachNumber(KernelBuilder &b, Value count,
                          function_ref<void(Value)> body) {
  b.forEachWorkTile(b.ceilDiv(count, kDivisorThreads), [&](Value workTile) {
    Value number = b.add(b.mul(workTile, kDivisorThreads), b.getThread());
    b.createIf(b.less(number, count), [&] { body(number); });
  });
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

namespace {
class FactorsBuilder {
public:
  FactorsBuilder(KernelBuilder &b, Type inputType)
      : b(b), inputType(inputType) {}

  void storeRowFactors(Value rows);
  void storeGroupFactors(Value groups, Value columns);
  void storeGroupsOfRows(Value rows, Value groups);

private:
  Value getWord(Value pointer, Value index) {
    return b.offsetBytes(pointer, b.mul(index, kWordBytes));
  }
  Value createFactor(Value divisor);

  KernelBuilder &b;
  Type inputType;
};
} // namespace

/// (Q11): the word that a number is multiplied with instead of dividing it.
Value FactorsBuilder::createFactor(Value divisor) {
  Value factor = arith::DivFOp::create(b, b.f32(1.0f), divisor);
  return inputType.isF32() ? b.bitcast(b.getI32Type(), factor)
                           : b.packBF16(factor, factor);
}

void FactorsBuilder::storeRowFactors(Value rows) {
  forEachNumber(b, rows, [&](Value row) {
    Value divisor =
        b.load(b.getF32Type(), getWord(b.getPointer(0), row), kWordBytes);
    b.store(createFactor(divisor),
            getWord(b.getPointer(1), b.add(row, kFactorsBefore)), kWordBytes);
  });
}

void FactorsBuilder::storeGroupFactors(Value groups, Value columns) {
  int64_t bytes = inputType.getIntOrFloatBitWidth() / 8;
  Value ofGroups = b.mul(groups, columns);
  forEachNumber(b, b.add(ofGroups, columns), [&](Value number) {
    Value divisor = b.createIf(
                         b.less(number, ofGroups), b.getF32Type(),
                         [&] {
                           return SmallVector<Value>{b.load(
                               b.getF32Type(), getWord(b.getPointer(2), number),
                               kWordBytes)};
                         },
                         [&] { return SmallVector<Value>{b.f32(1.0f)}; })
                        .front();
    Value factor =
        b.truncate(b.getIntegerType(8 * bytes), createFactor(divisor));
    b.store(factor, b.offsetBytes(b.getPointer(3), b.mul(number, bytes)),
            bytes);
  });
}

/// (J2): a row is of the first group that ends behind it, whatever the order of
/// the ends.
void FactorsBuilder::storeGroupsOfRows(Value rows, Value groups) {
  forEachNumber(b, rows, [&](Value row) {
    Value none = b.truncate(b.getI32Type(), groups);
    Value group =
        b.createFor(b.i64(0), groups, 1, none,
                    [&](Value index, ValueRange carried) {
                      Value end =
                          b.load(b.getI32Type(),
                                 getWord(b.getPointer(4), index), kWordBytes);
                      Value number =
                          b.select(b.less(b.truncate(b.getI32Type(), row), end),
                                   b.truncate(b.getI32Type(), index), none);
                      return SmallVector<Value>{b.minS(carried[0], number)};
                    })
            .front();
    b.store(group, getWord(b.getPointer(5), row), kWordBytes);
  });
}

void single_pass_outer::buildDivisorFactors(Location loc,
                                            gpu::GPUModuleOp module,
                                            StringRef name, Type inputType,
                                            bool hasGroups,
                                            const TargetHooks &hooks) {
  KernelSignature signature;
  signature.pointers = hasGroups ? 6 : 2;
  signature.sizes = hasGroups ? 3 : 1;
  signature.threads = kDivisorThreads;
  KernelBuilder b(loc, module, name, signature, hooks);
  FactorsBuilder factors(b, inputType);
  factors.storeRowFactors(b.getSize(0));
  if (!hasGroups)
    return;
  factors.storeGroupFactors(b.getSize(1), b.getSize(2));
  factors.storeGroupsOfRows(b.getSize(0), b.getSize(1));
}

//===----------------------------------------------------------------------===//
// Without rows
//===----------------------------------------------------------------------===//

void single_pass_outer::buildEmptyQuantize(Location loc,
                                           gpu::GPUModuleOp module,
                                           StringRef name,
                                           const AxisQuantizeProblem &problem,
                                           const TargetHooks &hooks) {
  KernelSignature signature;
  signature.pointers = 2;
  signature.sizes = 6;
  signature.threads = kDivisorThreads;
  KernelBuilder b(loc, module, name, signature, hooks);
  Value columns = b.getSize(0), extent = b.getSize(1), pitch = b.getSize(2);
  Value segments = b.getSize(3);
  QuantizeMath math(b, problem.inputType, problem.fp8Type, problem.powerOfTwo);
  Value scale = math.createScale(b.i32(0));
  forEachNumber(b, b.mul(segments, columns), [&](Value number) {
    Value element = b.add(b.mul(b.divU(number, columns), b.getSize(4)),
                          b.mul(b.remU(number, columns), b.getSize(5)));
    b.store(scale,
            b.offsetBytes(b.getPointer(1), b.mul(element, sizeof(float))),
            sizeof(float));
  });
  Value zero = arith::ConstantOp::create(b, b.getI8IntegerAttr(0));
  forEachNumber(b, b.mul(extent, columns), [&](Value number) {
    Value element =
        b.add(b.mul(b.divU(number, extent), pitch), b.remU(number, extent));
    b.store(zero, b.offsetBytes(b.getPointer(0), element), /*alignment=*/1);
  });
}
