//===- LayoutGraph.h - Roots, uses and views of a function ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tensors of a function as layout placement sees them
// (docs/design/layouts.md). A root is a tensor that an operation writes or a
// function receives. Views and plain copies of a root have the same values. A
// use reads a root through views.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_LAYOUTGRAPH_H
#define FP8MOE_LIB_TRANSFORMS_LAYOUTGRAPH_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOps.h"
#include "fp8moe/Dialect/FP8MoE/IR/LayoutAlgebra.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::fp8moe {

/// An operand that reads a root.
struct LayoutUse {
  enum class Kind {
    /// A kernel or a regrouping. May support several layouts.
    Kernel,
    /// Needs the layout of its type: return, call, views of fixed kernels.
    Fixed,
    /// Flows into another root: yields, and initial values of loops.
    Flow,
    /// Reads sizes only.
    Any,
  };
  Kind kind;
  OpOperand *operand;
  /// The operand's type in the current program.
  RankedTensorType type;
  /// The root that a Flow use goes into.
  unsigned target = 0;
  /// The value of the root that the operand reads.
  Value source;
  /// The copy that the operand reads in the current program, or null.
  Operation *copy = nullptr;
  /// Transposes and reshapes from the root to the operand, outermost last.
  SmallVector<Operation *, 2> views;
};

/// A tensor that an operation writes or a function receives.
struct LayoutRoot {
  enum class Kind {
    /// Has the layout of its type.
    Fixed,
    /// The result of a kernel or a regrouping.
    Kernel,
    /// A result or iteration argument of control flow.
    Region,
  };
  Kind kind;
  /// The values with this layout: one, or a loop's argument and result.
  SmallVector<Value, 2> values;
  SmallVector<LayoutUse> uses;
  /// Locations of copies of the root in the current program.
  SmallVector<Location, 2> copyLocs;

  RankedTensorType getType() const {
    return cast<RankedTensorType>(values.front().getType());
  }
};

class LayoutGraph {
public:
  /// Collects the roots of a function in the order of their definition.
  explicit LayoutGraph(FunctionOpInterface function);

  ArrayRef<LayoutRoot> getRoots() const { return roots; }
  /// Returns the root that `value` is, if it is one and not a view of one.
  std::optional<unsigned> lookupRoot(Value value) const {
    auto it = rootOf.find(value);
    return it == rootOf.end() ? std::nullopt : std::optional(it->second);
  }
  /// Returns all kernels (regroupings included), or all plain copies, in
  /// program order.
  ArrayRef<Operation *> getKernels() const { return kernels; }
  ArrayRef<Operation *> getRelayouts() const { return relayouts; }

  /// Returns `layout` seen through views; std::nullopt if a view cannot be
  /// expressed without a copy.
  static std::optional<StridedLayout> applyViews(ArrayRef<Operation *> views,
                                                 const StridedLayout &layout);

  /// Returns the layout of a root that looks like `layout` through views: the
  /// inverse of applyViews.
  static std::optional<StridedLayout> pullBack(ArrayRef<Operation *> views,
                                               const StridedLayout &layout);

  /// Whether `op` is a transpose or reshape whose result has a strided layout.
  static bool isView(Operation *op);

  /// Whether `op` is a copy between strided layouts that keeps every element's
  /// index.
  static bool isPlainRelayout(Operation *op);

  /// Whether `op` is a copy that pads or packs jagged groups, or moves block
  /// scales to or from tiles. Like a kernel it reads and writes strided tensors
  /// in any order.
  static bool isRegrouping(Operation *op);

  /// Whether `op` becomes a kernel other than a plain copy.
  static bool isKernel(Operation *op) {
    return isa<KernelOpInterface>(op) || isRegrouping(op);
  }

  /// Returns how a kernel, or a copy that placement treats as one, accesses an
  /// operand or result.
  static TensorAccess getAccess(Operation *kernel, Value tensor,
                                const TargetInfo &target);

  /// Whether the operand is returned by the function, whose type fixes its
  /// layout.
  static bool isReturnedByFunction(const OpOperand &use);

private:
  void build(FunctionOpInterface function);
  bool findCopiesOfTheirOwn();
  bool isCopy(Operation *op) const {
    return isPlainRelayout(op) && !ownCopies.contains(op);
  }
  void addRoot(LayoutRoot::Kind kind, ValueRange values);
  void addRoots(Operation *op);
  void collectUses(unsigned root);
  void sortUses(SmallVectorImpl<LayoutUse> &uses) const;
  LayoutUse classify(OpOperand &operand);

  SmallVector<LayoutRoot> roots;
  llvm::DenseMap<Value, unsigned> rootOf;
  /// Copies that make a view's layout which the root cannot have. They count as
  /// kernels whose results are roots.
  llvm::SmallPtrSet<Operation *, 4> ownCopies;
  /// The position of each operation in the function.
  llvm::DenseMap<Operation *, unsigned> positions;
  SmallVector<Operation *> kernels;
  SmallVector<Operation *> relayouts;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_LAYOUTGRAPH_H
