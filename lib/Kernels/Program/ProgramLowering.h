//===- ProgramLowering.h - One function becomes a program -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_PROGRAM_PROGRAMLOWERING_H
#define FP8MOE_LIB_KERNELS_PROGRAM_PROGRAMLOWERING_H

#include "Kernels/Program/KernelCache.h"
#include "Kernels/Program/LoweringTable.h"

#include "fp8moe/Dialect/FP8MoE/IR/SizeBuilder.h"
#include "fp8moe/Target/TargetInfo.h"

namespace mlir::fp8moe {
class KernelBuilder;

/// A kernel and its launch. The kernel's parameters are the buffers, then the
/// dynamic sizes, then the number of blocks.
struct KernelLaunch {
  StringRef name;
  /// The cache key of the kernel, besides its name and its constant sizes.
  SmallVector<Attribute> key;
  SmallVector<int64_t> numbers;
  /// Threads of a block.
  int64_t threads;
  /// Tensor maps come first.
  SmallVector<Value> buffers;
  SmallVector<OpFoldResult> sizes;
  unsigned tensorMaps = 0;
  /// Whether the number of blocks is a parameter.
  bool hasBlockCount = true;
  /// Dynamic shared memory of a block.
  int64_t sharedBytes = 0;
  /// Whether all blocks run at once, so that they may wait for each other. Such
  /// a kernel may also begin before those before it have ended.
  bool isCooperative = false;
};

/// Lowers the operations of one function to launches. Each tensor becomes a
/// BufferView; views copy nothing.
class ProgramLowering {
public:
  ProgramLowering(PlanSignature &signature, const TargetInfo &target,
                  KernelCache &kernels, const LoweringTable &table)
      : signature(signature), target(target), kernels(kernels), table(table) {}

  LogicalResult lower(func::FuncOp func);

  const TargetInfo &getTarget() const { return target; }
  KernelCache &getKernels() { return kernels; }
  const LoweringTable &getTable() const { return table; }
  /// Creates operations at the end of the program.
  OpBuilder getBuilder() { return signature.getBuilder(); }

  /// Returns the buffer view of an argument, or of a tensor that was lowered
  /// already.
  BufferView getView(Value tensor) const { return views.at(tensor); }
  void setView(Value tensor, BufferView view) {
    views[tensor] = std::move(view);
  }
  /// Returns the buffer that an operation must write its result to: an output
  /// of the program, or new workspace.
  FailureOr<BufferView> createResult(OpResult result);

  /// Launches a kernel on at most `workTiles` blocks, which loop over work
  /// tiles. Builds the kernel if the cache lacks it. Skips the launch where
  /// `condition` (i1) is false.
  void launchKernel(Location loc, const KernelLaunch &launch,
                    OpFoldResult workTiles,
                    function_ref<void(KernelBuilder &)> build,
                    Value condition = {});
  /// Launches a kernel, as above, on exactly `blocks` blocks.
  void launchBlocks(Location loc, const KernelLaunch &launch,
                    OpFoldResult blocks,
                    function_ref<void(KernelBuilder &)> build, Value condition);

  /// Reports that an operation has no lowering, and a workaround.
  LogicalResult reportUnsupported(Operation *op, const Twine &what);

  /// Reports an FP8 type whose flavour (FN or FNUZ) the hardware lacks. The
  /// message begins "'op' to 'f8E4M3FN'" for the relation "to".
  LogicalResult requireFP8(Operation *op, StringRef relation, Type fp8Type);

private:
  void assignOutputs(func::FuncOp func);
  LogicalResult lowerOperation(Operation *op);
  LogicalResult reportNoKernel(Operation *op);

  /// Reports tensors of `op` that no kernel can take: without a strided layout,
  /// unless they may be block scales in tiles, or of a type that is not
  /// resolved.
  LogicalResult checkTensors(Operation *op, TypeRange types,
                             bool takesTiledScales);
  LogicalResult copyOutputs(func::FuncOp func);

  PlanSignature &signature;
  const TargetInfo &target;
  KernelCache &kernels;
  const LoweringTable &table;
  llvm::DenseMap<Value, BufferView> views;
  /// Tensors that are written directly to an output of the program.
  llvm::DenseMap<Value, BufferView> destinations;
  /// Indices of outputs that are copies of another tensor.
  SmallVector<unsigned> copiedOutputs;
};

/// Returns the alignment in bytes that is guaranteed for a buffer's base.
int64_t getBufferAlignment(const BufferView &view);

/// Returns a size or stride if it is constant, else ShapedType::kDynamic.
int64_t getStaticSize(OpFoldResult size);

/// Returns a record of sizes with ShapedType::kDynamic for all that are not
/// constant.
template <template <typename> class Sizes>
Sizes<int64_t> getKnownSizes(const Sizes<OpFoldResult> &sizes) {
  Sizes<int64_t> known;
  for (auto [from, to] : llvm::zip_equal(Sizes<OpFoldResult>::members(),
                                         Sizes<int64_t>::members()))
    known.*to = getStaticSize(sizes.*from);
  return known;
}

/// Returns the sizes of a record in the order of its members.
template <template <typename> class Sizes>
SmallVector<OpFoldResult> listSizes(const Sizes<OpFoldResult> &sizes) {
  return llvm::map_to_vector(Sizes<OpFoldResult>::members(),
                             [&](auto member) { return sizes.*member; });
}

// Conditions are i1; null stands for one that always holds.

Value createBoth(OpBuilder &builder, Location loc, Value lhs, Value rhs);
/// Negates a condition that is not null.
Value createNot(OpBuilder &builder, Location loc, Value condition);
/// Whether a condition is the constant false.
bool isNever(Value condition);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_PROGRAMLOWERING_H
