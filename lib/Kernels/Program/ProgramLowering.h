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

/// A kernel and its launch. Its parameters are the buffers, then those of the
/// sizes that are not constant, then the number of blocks.
struct KernelLaunch {
  StringRef name;
  /// Attributes and numbers that tell it from others of the name, besides the
  /// sizes that are constant.
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
};

/// Turns the operations of one function into launches. Each tensor is a
/// BufferView; views move no bytes.
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

  /// The place of a tensor that was given or computed before.
  BufferView getView(Value tensor) const { return views.at(tensor); }
  void setView(Value tensor, BufferView view) {
    views[tensor] = std::move(view);
  }
  /// Where an operation must write its result: an output of the program, or new
  /// workspace.
  FailureOr<BufferView> createResult(OpResult result);

  /// Builds a kernel, or finds it, and launches it on at most as many blocks as
  /// there are `workTiles`, which take them in turn. A condition (i1) may skip
  /// it.
  void launchKernel(Location loc, const KernelLaunch &launch,
                    OpFoldResult workTiles,
                    function_ref<void(KernelBuilder &)> build,
                    Value condition = {});
  /// The same on just so many blocks.
  void launchBlocks(Location loc, const KernelLaunch &launch,
                    OpFoldResult blocks,
                    function_ref<void(KernelBuilder &)> build, Value condition);

  /// Reports that an operation has no lowering, and the way out.
  LogicalResult reportUnsupported(Operation *op, const Twine &what);

  /// Reports an FP8 type of the flavour that the hardware lacks, as "'op' to
  /// 'f8E4M3FN' ..." for the relation "to".
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
  /// Tensors that are computed directly in an output.
  llvm::DenseMap<Value, BufferView> destinations;
  /// Outputs that are the copy of a tensor.
  SmallVector<unsigned> copiedOutputs;
};

/// The promised alignment of a buffer's base, in bytes.
int64_t getBufferAlignment(const BufferView &view);

/// A size or stride if it is constant, else ShapedType::kDynamic.
int64_t getStaticSize(OpFoldResult size);

/// A record of sizes, as the compiler knows them.
template <template <typename> class Sizes>
Sizes<int64_t> getKnownSizes(const Sizes<OpFoldResult> &sizes) {
  Sizes<int64_t> known;
  for (auto [from, to] : llvm::zip_equal(Sizes<OpFoldResult>::members(),
                                         Sizes<int64_t>::members()))
    known.*to = getStaticSize(sizes.*from);
  return known;
}

/// Its sizes in their order.
template <template <typename> class Sizes>
SmallVector<OpFoldResult> listSizes(const Sizes<OpFoldResult> &sizes) {
  return llvm::map_to_vector(Sizes<OpFoldResult>::members(),
                             [&](auto member) { return sizes.*member; });
}

// Conditions are i1; null stands for one that always holds.

Value createBoth(OpBuilder &builder, Location loc, Value lhs, Value rhs);
/// Negates a condition that is not null.
Value createNot(OpBuilder &builder, Location loc, Value condition);
/// Whether it is known never to hold.
bool isNever(Value condition);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_PROGRAMLOWERING_H
