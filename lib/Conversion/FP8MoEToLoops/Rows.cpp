//===- Rows.cpp - Row operations between matmuls --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpLowering.h"
#include "Scaling.h"

#include "fp8moe/Conversion/F32Bits.h"
#include "fp8moe/Conversion/SwiGLU.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// (A2) by sums and products: a library of functions would have to be linked.
static Value createSigmoid(LoopBuilder &b, Value x) {
  auto f32 = [&](float value) { return b.constantF32(value); };
  auto add = [&](Value lhs, Value rhs) -> Value {
    return arith::AddFOp::create(b, lhs, rhs);
  };
  auto mul = [&](Value lhs, Value rhs) -> Value {
    return arith::MulFOp::create(b, lhs, rhs);
  };
  auto toBits = [&](Value value) -> Value {
    return arith::BitcastOp::create(b, b.getI32Type(), value);
  };
  // exp(-x) = 2^z. Further limits change no sum with 1 but that it is infinite.
  Value z = mul(x, f32(-1.44269504f));
  auto limit = [&](arith::CmpFPredicate predicate, float to) {
    Value isInside = arith::CmpFOp::create(b, predicate, z, f32(to));
    z = b.select(isInside, z, f32(to));
  };
  limit(arith::CmpFPredicate::OGT, -126.0f);
  limit(arith::CmpFPredicate::OLT, 128.0f);
  // The lowest bit of the sum counts ones: it is z rounded to an integer.
  constexpr float kOnes = 12582912.0f;
  Value rounded = add(z, f32(kOnes));
  Value fraction = arith::SubFOp::create(
      b, z, arith::SubFOp::create(b, rounded, f32(kOnes)));
  // 2^fraction, within 1e-7.
  Value power = f32(0.0013264671f);
  for (float coefficient :
       {0.009671513f, 0.05550734f, 0.24022242f, 0.693147f, 1.0f})
    power = add(mul(power, fraction), f32(coefficient));
  Value exponent = arith::ShLIOp::create(b, toBits(rounded),
                                         b.constantI32(f32::kMantissaBits));
  Value exponential = arith::BitcastOp::create(
      b, b.getF32Type(), arith::AddIOp::create(b, toBits(power), exponent));
  return arith::DivFOp::create(b, f32(1.0f), add(exponential, f32(1.0f)));
}

static void lowerGatherRows(GatherRowsOp op, OpLowering &l) {
  LoopBuilder &b = l.b;
  const TensorBuffer &input = l.getBuffer(op.getInput()),
                     &rows = l.getBuffer(op.getRows()),
                     &result = l.getBuffer(op.getResult());
  b.forEach(b.index(0), result.sizes[0], [&](Value m) {
    Value row =
        arith::IndexCastOp::create(b, b.getIndexType(), rows.load(b, {m}));
    // Negative numbers are large ones, too.
    Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row,
                                         input.sizes[0]);
    auto copyRow = [&](OpBuilder &, Location) {
      b.forEach(b.index(0), result.sizes[1], [&](Value k) {
        result.store(b, input.load(b, {row, k}), {m, k});
      });
      scf::YieldOp::create(b);
    };
    auto zeroRow = [&](OpBuilder &, Location) {
      result.fillZero(b, 0, m, b.add(m, b.index(1)));
      scf::YieldOp::create(b);
    };
    scf::IfOp::create(b, exists, copyRow, zeroRow);
  });
}

static void lowerSwiGLU(SwiGLUOp op, OpLowering &l) {
  LoopBuilder &b = l.b;
  const TensorBuffer &input = l.getBuffer(op.getInput()),
                     &result = l.getBuffer(op.getResult());
  const TensorBuffer *weights =
      op.getWeights() ? &l.getBuffer(op.getWeights()) : nullptr;
  result.forEachElement(b, [&](ArrayRef<Value> at) {
    Value gate = toF32(b, input.load(b, at));
    Value up = toF32(b, input.load(b, {at[0], b.add(at[1], result.sizes[1])}));
    Value weight = weights ? weights->load(b, {at[0]}) : Value();
    Value value = createSwiGLU(b, gate, up, createSigmoid(b, gate), weight);
    result.store(b, fromF32(b, value, result.getElementType()), at);
  });
}

static void lowerSwiGLUGradient(SwiGLUGradientOp op, OpLowering &l) {
  LoopBuilder &b = l.b;
  const TensorBuffer &gradient = l.getBuffer(op.getGradient()),
                     &input = l.getBuffer(op.getInput()),
                     &result = l.getBuffer(op.getResult());
  gradient.forEachElement(b, [&](ArrayRef<Value> at) {
    SmallVector<Value> atUp{at[0], b.add(at[1], gradient.sizes[1])};
    Value gate = toF32(b, input.load(b, at));
    auto [ofGate, ofUp] = createSwiGLUGradient(
        b, toF32(b, gradient.load(b, at)), gate, toF32(b, input.load(b, atUp)),
        createSigmoid(b, gate));
    result.store(b, fromF32(b, ofGate, result.getElementType()), at);
    result.store(b, fromF32(b, ofUp, result.getElementType()), atUp);
  });
}

void mlir::fp8moe::populateRowPatterns(const TypeConverter &converter,
                                       RewritePatternSet &patterns) {
  addLowerings(converter, patterns, lowerGatherRows, lowerSwiGLU,
               lowerSwiGLUGradient);
}
