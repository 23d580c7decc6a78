//===- ResolveFp8Types.cpp - Give FP8 types the target's flavour ----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Transforms/Passes.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_RESOLVEFP8TYPES
#include "fp8moe/Transforms/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {
struct ResolveFp8Types
    : public fp8moe::impl::ResolveFp8TypesBase<ResolveFp8Types> {
  void runOnOperation() override;
};
} // namespace

/// Returns the first FP8 type of another flavour among an operation's types, or
/// null.
static Type findForeignType(Operation *op, Fp8Flavour flavour) {
  Type foreign;
  AttrTypeWalker walker;
  walker.addWalk([&](FloatType type) {
    std::optional<Fp8Flavour> found = getFp8Flavour(type);
    if (!found || *found == flavour)
      return WalkResult::advance();
    foreign = type;
    return WalkResult::interrupt();
  });
  auto visit = [&](auto typeOrAttr) {
    return walker.walk(typeOrAttr).wasInterrupted();
  };
  if (llvm::any_of(op->getOperandTypes(), visit) ||
      llvm::any_of(op->getResultTypes(), visit) ||
      visit(Attribute(op->getAttrDictionary())))
    return foreign;
  return {};
}

/// Reports the first operation with an FP8 flavour that the hardware lacks.
static LogicalResult verifyFlavours(ModuleOp module, const TargetInfo &target) {
  if (!target.isGPU())
    return success();
  WalkResult result = module.walk([&](Operation *op) {
    Type foreign = findForeignType(op, target.fp8);
    if (!foreign)
      return WalkResult::advance();
    Fp8Format format = getFp8Format(foreign);
    StringRef neutral =
        format == Fp8Format::E4M3 ? "!fp8moe.e4m3" : "!fp8moe.e5m2";
    op->emitError() << "needs " << foreign << ", which the hardware of "
                    << target.chip << " lacks; use " << neutral
                    << " to let the target choose, or "
                    << getBuiltinFp8Type(op->getContext(), format, target.fp8);
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

void ResolveFp8Types::runOnOperation() {
  FailureOr<TargetAttr> target = requireTargetAttr(getOperation());
  if (failed(target))
    return signalPassFailure();
  const TargetInfo &info = target->getInfo();
  if (failed(verifyFlavours(getOperation(), info)))
    return signalPassFailure();

  AttrTypeReplacer replacer;
  replacer.addReplacement([&](Type type) -> std::optional<Type> {
    if (!isNeutralFp8Type(type))
      return std::nullopt;
    return getBuiltinFp8Type(&getContext(), getFp8Format(type), info.fp8);
  });
  replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}
