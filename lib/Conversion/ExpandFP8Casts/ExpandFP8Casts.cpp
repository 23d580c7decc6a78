//===- ExpandFP8Casts.cpp - Casts to integer arithmetic -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Every expansion works on the bits of an f32 as i32. The formats differ only
// in the figures of FormatInfo, so each direction is written once.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/F32Bits.h"
#include "fp8moe/Conversion/Passes.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

#include "llvm/ADT/APFloat.h"
#include <cmath>

namespace mlir::fp8moe {
#define GEN_PASS_DEF_EXPANDFP8CASTS
#include "fp8moe/Conversion/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// The encoding of an 8-bit format: sign, exponent, mantissa from the high bit
/// to the low one.
struct FormatInfo {
  unsigned mantissaBits;
  int bias;
  /// Code of the largest finite magnitude.
  uint8_t largest;
  /// The code that a magnitude above `largest` becomes, without its sign.
  uint8_t overflow;
  uint8_t nan;
  /// The format has no negative zero; its code is the NaN.
  bool unsignedZero;
  bool hasInfinity;
};

/// Returns the format of an 8-bit floating-point type that has a mantissa, or
/// nothing for any other type.
std::optional<FormatInfo> getFormatInfo(Type type) {
  if (!isa<Float8E4M3FNType, Float8E5M2Type, Float8E4M3FNUZType,
           Float8E5M2FNUZType>(type))
    return std::nullopt;
  const llvm::fltSemantics &semantics =
      cast<FloatType>(type).getFloatSemantics();
  FormatInfo info;
  info.mantissaBits = APFloat::semanticsPrecision(semantics) - 1;
  info.bias = 1 - APFloat::semanticsMinExponent(semantics);
  info.largest = static_cast<uint8_t>(
      APFloat::getLargest(semantics).bitcastToAPInt().getZExtValue());
  info.unsignedZero = isa<Float8E4M3FNUZType, Float8E5M2FNUZType>(type);
  info.hasInfinity = APFloat::semanticsHasInf(semantics);
  info.nan = info.unsignedZero ? 0x80 : 0x7F;
  info.overflow =
      info.hasInfinity
          ? static_cast<uint8_t>(
                APFloat::getInf(semantics).bitcastToAPInt().getZExtValue())
          : info.nan;
  return info;
}

/// Replaces the element type of a scalar or shaped type.
Type withElementType(Type like, Type element) {
  if (auto shaped = dyn_cast<ShapedType>(like))
    return shaped.clone(element);
  return element;
}

/// Builds i32 and f32 arithmetic on values shaped like the cast's operand.
class CastBuilder {
public:
  CastBuilder(PatternRewriter &rewriter, Location loc, Type like)
      : builder(loc, rewriter), like(like) {}

  Type i8() { return withElementType(like, builder.getI8Type()); }
  Type i16() { return withElementType(like, builder.getI16Type()); }
  Type i32() { return withElementType(like, builder.getI32Type()); }
  Type f32() { return withElementType(like, builder.getF32Type()); }

  Value constant(uint32_t value) {
    TypedAttr attr = builder.getI32IntegerAttr(static_cast<int32_t>(value));
    return splat(attr, i32());
  }
  Value constantF32(float value) {
    return splat(builder.getF32FloatAttr(value), f32());
  }

  Value bitcast(Type type, Value value) {
    return builder.createOrFold<arith::BitcastOp>(type, value);
  }
  Value extend(Value value) { return create<arith::ExtUIOp>(i32(), value); }
  Value truncate(Type type, Value value) {
    return create<arith::TruncIOp>(type, value);
  }
  Value add(Value lhs, Value rhs) { return create<arith::AddIOp>(lhs, rhs); }
  Value sub(Value lhs, Value rhs) { return create<arith::SubIOp>(lhs, rhs); }
  Value mask(Value value, uint32_t bits) {
    return create<arith::AndIOp>(value, constant(bits));
  }
  Value either(Value lhs, Value rhs) { return create<arith::OrIOp>(lhs, rhs); }
  Value shiftLeft(Value value, unsigned amount) {
    return create<arith::ShLIOp>(value, constant(amount));
  }
  Value shiftRight(Value value, unsigned amount) {
    return create<arith::ShRUIOp>(value, constant(amount));
  }
  Value compare(arith::CmpIPredicate predicate, Value lhs, uint32_t rhs) {
    return create<arith::CmpIOp>(predicate, lhs, constant(rhs));
  }
  Value select(Value condition, Value then, Value otherwise) {
    return create<arith::SelectOp>(condition, then, otherwise);
  }
  Value addF(Value lhs, Value rhs) { return create<arith::AddFOp>(lhs, rhs); }
  Value mulF(Value lhs, Value rhs) { return create<arith::MulFOp>(lhs, rhs); }
  Value toF32(Value integer) { return create<arith::UIToFPOp>(f32(), integer); }

private:
  template <typename OpTy, typename... Args> Value create(Args &&...args) {
    return OpTy::create(builder, std::forward<Args>(args)...);
  }
  Value splat(TypedAttr attr, Type type) {
    if (auto shaped = dyn_cast<ShapedType>(type))
      attr = DenseElementsAttr::get(shaped, Attribute(attr));
    return create<arith::ConstantOp>(attr);
  }

  ImplicitLocOpBuilder builder;
  Type like;
};

/// Rounds the bits of an f32 magnitude that keep `dropped` fewer mantissa bits,
/// to nearest, ties to even, and drops them.
Value roundMagnitude(CastBuilder &b, Value magnitude, unsigned dropped) {
  Value lowestKept = b.mask(b.shiftRight(magnitude, dropped), 1);
  Value half = b.constant((1u << (dropped - 1)) - 1);
  return b.shiftRight(b.add(b.add(magnitude, half), lowestKept), dropped);
}

/// Returns the code (as i32) of the 8-bit format nearest to an f32.
Value encodeFP8(CastBuilder &b, const FormatInfo &format, Value f32) {
  using Predicate = arith::CmpIPredicate;
  const unsigned dropped = f32::kMantissaBits - format.mantissaBits;
  Value bits = b.bitcast(b.i32(), f32);
  Value magnitude = b.mask(bits, f32::kMagnitudeMask);

  // Normal results: round the mantissa, then move the exponent to the bias of
  // the format. A carry out of the mantissa increments the exponent, as it
  // must. Magnitudes below the normal range wrap around; they are replaced.
  Value normal =
      b.sub(roundMagnitude(b, magnitude, dropped),
            b.constant((f32::kBias - format.bias) << format.mantissaBits));

  // Subnormal results: adding a power of two whose last mantissa bit weighs
  // as much as the format's smallest subnormal lets the addition round, and
  // leaves the code in the low bits. A result that rounds up to the smallest
  // normal has its code too.
  const int smallestExponent = 1 - format.bias - int(format.mantissaBits);
  const float anchor = std::ldexp(1.0f, smallestExponent + f32::kMantissaBits);
  Value anchored = b.addF(b.bitcast(b.f32(), magnitude), b.constantF32(anchor));
  Value subnormal = b.sub(b.bitcast(b.i32(), anchored),
                          b.constant(llvm::bit_cast<uint32_t>(anchor)));
  const uint32_t smallestNormal = uint32_t(f32::kBias + 1 - format.bias)
                                  << f32::kMantissaBits;
  Value code = b.select(b.compare(Predicate::ult, magnitude, smallestNormal),
                        subnormal, normal);

  Value sign = b.mask(b.shiftRight(bits, 24), 0x80);
  Value overflows = b.compare(Predicate::ugt, code, format.largest);
  if (format.hasInfinity)
    code = b.select(overflows, b.constant(format.overflow), code);
  Value signedCode = b.either(code, sign);
  if (format.unsignedZero)
    signedCode = b.select(b.compare(Predicate::eq, code, 0), code, signedCode);

  // The formats without infinity overflow to the same code that NaN has.
  Value isNaN = format.hasInfinity
                    ? b.compare(Predicate::ugt, magnitude, f32::kInfinity)
                    : overflows;
  return b.select(isNaN, b.constant(format.nan), signedCode);
}

/// Returns the f32 that a code (as i32) of the 8-bit format stands for.
Value decodeFP8(CastBuilder &b, const FormatInfo &format, Value code) {
  using Predicate = arith::CmpIPredicate;
  Value magnitude = b.mask(code, 0x7F);
  Value normal = b.add(
      b.shiftLeft(magnitude, f32::kMantissaBits - format.mantissaBits),
      b.constant(uint32_t(f32::kBias - format.bias) << f32::kMantissaBits));
  const int smallestExponent = 1 - format.bias - int(format.mantissaBits);
  Value subnormal = b.bitcast(
      b.i32(), b.mulF(b.toF32(magnitude),
                      b.constantF32(std::ldexp(1.0f, smallestExponent))));
  Value bits =
      b.select(b.compare(Predicate::ult, magnitude, 1u << format.mantissaBits),
               subnormal, normal);
  if (format.hasInfinity)
    bits = b.select(b.compare(Predicate::eq, magnitude, format.overflow),
                    b.constant(f32::kInfinity), bits);
  bits = b.either(bits, b.shiftLeft(b.mask(code, 0x80), 24));

  Value isNaN;
  if (format.unsignedZero)
    isNaN = b.compare(Predicate::eq, code, format.nan);
  else if (format.hasInfinity)
    isNaN = b.compare(Predicate::ugt, magnitude, format.overflow);
  else
    isNaN = b.compare(Predicate::eq, magnitude, format.nan);
  bits = b.select(isNaN, b.constant(f32::kQuietNaN), bits);
  return b.bitcast(b.f32(), bits);
}

/// Returns the bf16 nearest to an f32.
Value encodeBF16(CastBuilder &b, Type bf16, Value f32) {
  constexpr uint32_t kBF16QuietNaN = 0x7FC0;
  Value bits = b.bitcast(b.i32(), f32);
  Value magnitude = b.mask(bits, f32::kMagnitudeMask);
  // The sign stays where it is: the carry of a finite magnitude ends at
  // infinity, below the sign bit.
  Value rounded = roundMagnitude(b, bits, 16);
  Value isNaN = b.compare(arith::CmpIPredicate::ugt, magnitude, f32::kInfinity);
  Value code = b.select(isNaN, b.constant(kBF16QuietNaN), rounded);
  return b.bitcast(bf16, b.truncate(b.i16(), code));
}

/// Returns the f32 that a bf16 stands for: its bits are the upper half.
Value decodeBF16(CastBuilder &b, Value bf16) {
  Value code = b.extend(b.bitcast(b.i16(), bf16));
  return b.bitcast(b.f32(), b.shiftLeft(code, 16));
}

struct ExpandTruncF : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    Type source = getElementTypeOrSelf(op.getIn().getType());
    Type target = getElementTypeOrSelf(op.getType());
    std::optional<FormatInfo> format = getFormatInfo(target);
    if (!format && !(source.isF32() && target.isBF16()))
      return rewriter.notifyMatchFailure(op, "not a cast to fp8 or to bf16");
    if (source.isF64())
      return rewriter.notifyMatchFailure(op, "would have to round twice");

    CastBuilder b(rewriter, op.getLoc(), op.getType());
    Value in = op.getIn();
    if (!format) {
      rewriter.replaceOp(op, encodeBF16(b, op.getType(), in));
      return success();
    }
    if (source.isBF16())
      in = decodeBF16(b, in);
    else if (!source.isF32())
      in = arith::ExtFOp::create(rewriter, op.getLoc(), b.f32(), in);
    Value code = b.truncate(b.i8(), encodeFP8(b, *format, in));
    rewriter.replaceOp(op, b.bitcast(op.getType(), code));
    return success();
  }
};

struct ExpandExtF : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    Type source = getElementTypeOrSelf(op.getIn().getType());
    Type target = getElementTypeOrSelf(op.getType());
    std::optional<FormatInfo> format = getFormatInfo(source);
    if (!format && !source.isBF16())
      return rewriter.notifyMatchFailure(op, "not a cast from fp8 or bf16");

    CastBuilder b(rewriter, op.getLoc(), op.getType());
    Value f32 =
        format ? decodeFP8(b, *format, b.extend(b.bitcast(b.i8(), op.getIn())))
               : decodeBF16(b, op.getIn());
    // Every value of the 8-bit types is one of bf16, f16 and f64 too, so a
    // second cast is exact.
    if (target.isBF16())
      f32 = encodeBF16(b, op.getType(), f32);
    else if (target.isF16())
      f32 = arith::TruncFOp::create(rewriter, op.getLoc(), op.getType(), f32);
    else if (!target.isF32())
      f32 = arith::ExtFOp::create(rewriter, op.getLoc(), op.getType(), f32);
    rewriter.replaceOp(op, f32);
    return success();
  }
};

/// Reports the casts that the patterns cannot expand.
LogicalResult verifyCasts(Operation *root) {
  WalkResult result = root->walk([](arith::TruncFOp op) -> WalkResult {
    Type target = getElementTypeOrSelf(op.getType());
    if (!getFormatInfo(target) && !target.isBF16())
      return WalkResult::advance();
    if (getElementTypeOrSelf(op.getIn().getType()).isF64())
      return op.emitError("cannot expand a cast from ")
             << op.getIn().getType() << " to " << op.getType()
             << ", because it would round twice; write two casts, by way of "
                "f32, if that is what is meant";
    std::optional<arith::RoundingMode> rounding = op.getRoundingmode();
    if (rounding && *rounding != arith::RoundingMode::to_nearest_even)
      return op.emitError("cannot expand a cast with rounding mode '")
             << arith::stringifyRoundingMode(*rounding)
             << "'; expected 'to_nearest_even'";
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

struct ExpandFP8CastsPass
    : public fp8moe::impl::ExpandFP8CastsBase<ExpandFP8CastsPass> {
  void runOnOperation() override {
    if (failed(verifyCasts(getOperation())))
      return signalPassFailure();
    RewritePatternSet patterns(&getContext());
    populateExpandFP8CastsPatterns(patterns);
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};

} // namespace

void mlir::fp8moe::populateExpandFP8CastsPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandExtF, ExpandTruncF>(patterns.getContext());
}
