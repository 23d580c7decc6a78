//===- LaunchOp.cpp - Launches of kernels ---------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Plan/IR/Plan.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::fp8moe::plan;

void LaunchOp::build(OpBuilder &builder, OperationState &state,
                     SymbolRefAttr kernel, ValueRange grid,
                     ArrayRef<int64_t> block, int64_t sharedBytes,
                     ValueRange args, Value condition,
                     ArrayRef<int64_t> cluster, bool cooperative,
                     bool programmatic) {
  assert(grid.size() == 3 && block.size() == 3 && "x, y and z are needed");
  build(builder, state, kernel, grid[0], grid[1], grid[2], block[0], block[1],
        block[2], sharedBytes,
        cluster.empty() ? DenseI64ArrayAttr()
                        : builder.getDenseI64ArrayAttr(cluster),
        cooperative, programmatic, condition, args);
}

/// A grid is made of whole clusters, as far as it is known.
static LogicalResult verifyCluster(LaunchOp op, ArrayRef<int64_t> cluster) {
  if (cluster.size() != 3)
    return op.emitOpError("has a cluster of ")
           << cluster.size() << " extents; expected three";
  int64_t blocks = 1;
  for (auto [axis, extent, grid] : llvm::zip("xyz", cluster, op.getGrid())) {
    if (extent < 1 || extent > kMaxClusterBlocks)
      return op.emitOpError("has cluster size ")
             << extent << " along " << Twine(axis) << "; expected 1 to "
             << kMaxClusterBlocks;
    blocks *= extent;
    APInt known;
    if (matchPattern(grid, m_ConstantInt(&known)) &&
        known.getSExtValue() % extent != 0)
      return op.emitOpError("has a grid of ")
             << known.getSExtValue() << " blocks along " << Twine(axis)
             << ", which is not a multiple of the cluster size " << extent;
  }
  if (blocks > kMaxClusterBlocks)
    return op.emitOpError("has clusters of ")
           << blocks << " blocks; expected at most " << kMaxClusterBlocks;
  return success();
}

LogicalResult LaunchOp::verify() {
  for (auto [axis, extent] : llvm::zip("xyz", getBlock()))
    if (extent <= 0)
      return emitOpError("has block size ")
             << extent << " along " << Twine(axis) << "; expected at least 1";
  if (getSharedBytes() < 0)
    return emitOpError("asks for ")
           << getSharedBytes() << " bytes of shared memory";
  if (std::optional<ArrayRef<int64_t>> cluster = getCluster())
    return verifyCluster(*this, *cluster);
  return success();
}

/// Whether the parameters of a kernel are final: only pointers, memrefs and
/// integers. A function on tensors is not lowered yet.
static bool isFinalSignature(ArrayRef<Type> parameters) {
  return llvm::none_of(parameters,
                       [](Type type) { return isa<TensorType>(type); });
}

/// The parameter that an argument of this type requires.
static StringRef describeParameter(Type argument) {
  if (isa<MemRefType>(argument))
    return "!llvm.ptr";
  if (isa<TensorMapType>(argument))
    return "!llvm.ptr with the attribute fp8moe_plan.tensor_map";
  return "i64";
}

static bool isParameterFor(Type argument, Type parameter, bool isTensorMap) {
  if (isa<TensorMapType>(argument))
    return isTensorMap;
  if (isTensorMap)
    return false;
  if (isa<MemRefType>(argument))
    return isa<LLVM::LLVMPointerType>(parameter) || parameter == argument;
  return parameter.isIndex() || parameter.isInteger(64);
}

static LogicalResult verifyArguments(LaunchOp op, Operation *kernel) {
  auto function = cast<FunctionOpInterface>(kernel);
  ArrayRef<Type> parameters = function.getArgumentTypes();
  if (!isFinalSignature(parameters))
    return success();
  auto fail = [&]() {
    InFlightDiagnostic diag = op.emitOpError();
    diag.attachNote(kernel->getLoc()) << "the kernel is here";
    return diag;
  };
  if (op.getArgs().size() != parameters.size())
    return fail() << "passes " << op.getArgs().size() << " arguments, but '"
                  << op.getKernel() << "' has " << parameters.size()
                  << " parameters";
  for (auto [index, argument, parameter] :
       llvm::enumerate(op.getArgs().getTypes(), parameters)) {
    // Nothing else is ever passed by value.
    bool isTensorMap =
        function.getArgAttr(index, PlanDialect::kTensorMapAttrName) ||
        function.getArgAttr(index, LLVM::LLVMDialect::getByValAttrName());
    if (!isParameterFor(argument, parameter, isTensorMap))
      return fail() << "passes " << argument << " as argument " << index
                    << ", but that parameter of '" << op.getKernel() << "' is "
                    << (isTensorMap ? "a tensor map of type " : "") << parameter
                    << "; expected " << describeParameter(argument);
  }
  return success();
}

/// Compares extents with those that the kernel is compiled for.
static LogicalResult
verifyKnownExtents(LaunchOp op, StringRef what, ArrayRef<int64_t> actual,
                   std::optional<ArrayRef<int32_t>> known) {
  if (!known)
    return success();
  for (auto [axis, expected, extent] : llvm::zip("xyz", *known, actual))
    if (expected != extent)
      return op.emitOpError("has ")
             << what << " size " << extent << " along " << Twine(axis)
             << ", but '" << op.getKernel() << "' is compiled for " << expected;
  return success();
}

/// Checks what is known of the kernel as a launchable function.
static LogicalResult verifyKernel(LaunchOp op, Operation *kernel) {
  auto gpuFunc = dyn_cast<gpu::GPUFuncOp>(kernel);
  if (!gpuFunc)
    return success();
  if (!gpuFunc.isKernel())
    return op.emitOpError("launches '")
           << op.getKernel() << "', which is not a kernel; mark it 'kernel'";
  std::array<int64_t, 3> block = op.getBlock();
  if (failed(
          verifyKnownExtents(op, "block", block, gpuFunc.getKnownBlockSize())))
    return failure();
  constexpr int64_t noCluster[] = {1, 1, 1};
  return verifyKnownExtents(op, "cluster", op.getCluster().value_or(noCluster),
                            gpuFunc.getKnownClusterSize());
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // The program has no symbols of its own, the module around it does.
  Operation *kernel = symbolTable.lookupNearestSymbolFrom(
      (*this)->getParentOp(), getKernelAttr());
  if (!kernel)
    return emitOpError("launches '")
           << getKernel() << "', which is not in the module";
  if (!isa<gpu::GPUFuncOp, LLVM::LLVMFuncOp, func::FuncOp>(kernel))
    return emitOpError("launches '")
           << getKernel() << "', which is no gpu.func, llvm.func or func.func";
  if (failed(verifyKernel(*this, kernel)))
    return failure();
  return verifyArguments(*this, kernel);
}

/// Drops the condition of a launch that always happens, and launches that never
/// happen: a false condition or a grid with an extent of zero.
static LogicalResult simplifyConstantLaunch(LaunchOp op,
                                            PatternRewriter &rewriter) {
  bool never = llvm::any_of(op.getGrid(), [](Value extent) {
    return matchPattern(extent, m_Zero());
  });
  if (op.getCondition() && matchPattern(op.getCondition(), m_Zero()))
    never = true;
  if (never) {
    rewriter.eraseOp(op);
    return success();
  }
  if (!op.getCondition() || !matchPattern(op.getCondition(), m_One()))
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.getConditionMutable().clear(); });
  return success();
}

void LaunchOp::getCanonicalizationPatterns(RewritePatternSet &results,
                                           MLIRContext *) {
  results.add(simplifyConstantLaunch);
}
