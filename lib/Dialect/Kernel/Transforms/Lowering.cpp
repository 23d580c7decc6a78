//===- Lowering.cpp - Common parts of kernel lowerings --------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Kernel/Transforms/Lowering.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8moe;
using namespace mlir::fp8moe::kernel;

//===----------------------------------------------------------------------===//
// Patterns of all vendors
//===----------------------------------------------------------------------===//

// fp8moe_kernel.shared_part memory "name" at %x --> %x
static Value lowerSharedPart(SharedPartOp op, ImplicitLocOpBuilder &b) {
  return op.getAddress();
}

namespace {
// fp8moe_kernel.opaque %word : i32 --> llvm.inline_asm "", "=r,0"
//
// Words of a vector pass one by one. No operation of LLVM has this effect on
// its optimizer.
struct LowerOpaque : OpRewritePattern<OpaqueOp> {
  LowerOpaque(MLIRContext *context, const Vendor &vendor)
      : OpRewritePattern(context), vendor(vendor) {}

  LogicalResult matchAndRewrite(OpaqueOp op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    StringRef constraints =
        op.getUniform() ? vendor.subgroupRegister : vendor.laneRegister;
    auto pass = [&](Value word) {
      return createAssembly(b, word.getType(), word, "", constraints)
          .getResult(0);
    };
    auto type = dyn_cast<VectorType>(op.getType());
    if (!type) {
      rewriter.replaceOp(op, pass(op.getValue()));
      return success();
    }
    SmallVector<Value> words;
    for (int64_t i : llvm::seq(type.getNumElements()))
      words.push_back(b.createOrFold<vector::ExtractOp>(op.getValue(), i));
    rewriter.replaceOpWithNewOp<vector::FromElementsOp>(
        op, type, llvm::map_to_vector(words, pass));
    return success();
  }

  const Vendor &vendor;
};
} // namespace

//===----------------------------------------------------------------------===//
// Requirements
//===----------------------------------------------------------------------===//

static LogicalResult requireLanes(Operation *op, const Vendor &vendor) {
  int64_t lanes = vendor.subgroupLanes;
  if (auto ballot = dyn_cast<BallotOp>(op);
      ballot && !ballot.getType().isInteger(lanes))
    return ballot.emitOpError("has a result of ")
           << ballot.getType() << "; subgroups of " << vendor.name
           << "'s GPUs have " << lanes << " lanes, so it is an i" << lanes;
  if (auto exchange = dyn_cast<ExchangeOp>(op);
      exchange && exchange.getMask() >= lanes)
    return exchange.emitOpError("has the mask ")
           << exchange.getMask() << "; subgroups of " << vendor.name
           << "'s GPUs have " << lanes << " lanes, so it is less";
  return success();
}

/// The types of packed numbers are attributes.
static LogicalResult requireFP8(Operation *op, Fp8Flavour flavour) {
  for (NamedAttribute attribute : op->getAttrDictionary()) {
    auto type = dyn_cast<TypeAttr>(attribute.getValue());
    std::optional<Fp8Flavour> found =
        type ? getFp8Flavour(type.getValue()) : std::nullopt;
    if (!found || *found == flavour)
      continue;
    Type expected = getBuiltinFp8Type(op->getContext(),
                                      getFp8Format(type.getValue()), flavour);
    return op->emitOpError("has numbers of ")
           << type.getValue() << ", but the target's instructions are for "
           << expected << "; use that type";
  }
  return success();
}

static LogicalResult requireReduction(gpu::SubgroupReduceOp op) {
  if (op.getOp() == gpu::AllReduceOperation::MAXUI &&
      op.getType().isInteger(32) && !op.getClusterSize())
    return success();
  return op.emitOpError("is a reduction without a lowering; kernels have "
                        "'maxui' of an i32 in the whole subgroup");
}

static LogicalResult requireLowerings(Operation *root, const Vendor &vendor,
                                      RewritePatternSet &patterns) {
  DenseSet<OperationName> lowered;
  for (const auto &pattern : patterns.getNativePatterns())
    if (std::optional<OperationName> name = pattern->getRootKind())
      lowered.insert(*name);
  LogicalResult result = success();
  root->walk([&](Operation *op) {
    if (auto reduction = dyn_cast<gpu::SubgroupReduceOp>(op);
        reduction && failed(requireReduction(reduction)))
      result = failure();
    if (!isa_and_present<KernelDialect>(op->getDialect()))
      return;
    if (!lowered.contains(op->getName()))
      result = op->emitOpError("is an instruction that ")
               << vendor.name << "'s GPUs lack; write the kernel without it";
    else if (failed(requireLanes(op, vendor)) ||
             failed(requireFP8(op, vendor.fp8)))
      result = failure();
  });
  return result;
}

LogicalResult kernel::lowerKernel(gpu::GPUFuncOp kernel, const Vendor &vendor,
                                  ConversionTarget &target,
                                  RewritePatternSet &&patterns) {
  addLowerings(patterns, lowerSharedPart);
  patterns.add<LowerOpaque>(kernel.getContext(), vendor);
  if (failed(requireLowerings(kernel, vendor, patterns)))
    return failure();
  target.addIllegalDialect<KernelDialect>();
  target.addIllegalOp<gpu::SubgroupReduceOp>();
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  return applyPartialConversion(kernel, target, std::move(patterns));
}
