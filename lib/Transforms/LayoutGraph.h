//===- LayoutGraph.h - Roots, uses and views of a function ------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tensors of a function as layout placement sees them
// (docs/design/layouts.md): a root is a tensor whose bytes somebody writes;
// views and relayouts of it carry the same values; a use reads the root through
// views.
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
    /// A kernel or a regrouping, which can read several layouts.
    Kernel,
    /// Must get the layout of its type: return, call, views of fixed kernels.
    Fixed,
    /// Flows into another root: a yield or the initial value of a loop.
    Flow,
    /// Reads sizes only.
    Any,
  };
  Kind kind;
  OpOperand *operand;
  /// The type of the operand in the program as it is.
  RankedTensorType type;
  /// The root that a flow goes into.
  unsigned target = 0;
  /// The value of the root that the operand reads.
  Value source;
  /// The copy that the operand reads in the program as it is, or null.
  Operation *copy = nullptr;
  /// Transposes and reshapes from the root to the operand, outermost last.
  SmallVector<Operation *, 2> views;
};

/// A tensor whose bytes somebody writes.
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
  /// Where the program as it is copies the root.
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
  /// The root whose bytes `value` is, itself and not a view of it; or none.
  std::optional<unsigned> lookupRoot(Value value) const {
    auto it = rootOf.find(value);
    return it == rootOf.end() ? std::nullopt : std::optional(it->second);
  }
  /// The kernels, regroupings among them, and the copies in the order of the
  /// program.
  ArrayRef<Operation *> getKernels() const { return kernels; }
  ArrayRef<Operation *> getRelayouts() const { return relayouts; }

  /// The layout of `layout` seen through views; none when one of them cannot be
  /// expressed.
  static std::optional<StridedLayout> applyViews(ArrayRef<Operation *> views,
                                                 const StridedLayout &layout);

  /// The layout of a root that looks like `layout` through views: the reverse.
  static std::optional<StridedLayout> pullBack(ArrayRef<Operation *> views,
                                               const StridedLayout &layout);

  /// A view of a tensor whose layout can be reasoned about.
  static bool isView(Operation *op);

  /// A copy between strided layouts that keeps every element's index.
  static bool isPlainRelayout(Operation *op);

  /// A copy that changes more than places: it pads or packs jagged groups, or
  /// moves block scales to or from tiles. Like a kernel it reads and writes
  /// strided tensors in any order.
  static bool isRegrouping(Operation *op);

  /// An operation that becomes a kernel other than a plain copy.
  static bool isKernel(Operation *op) {
    return isa<KernelOpInterface>(op) || isRegrouping(op);
  }

  /// How a kernel, or a copy that is one to placement, reads an operand or
  /// writes a result.
  static TensorAccess getAccess(Operation *kernel, Value tensor,
                                const TargetInfo &target);

  /// Whether the operand is a result of the function, whose type says how it
  /// lies in memory.
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
  /// Copies of a view that a use wants in a layout which the root cannot have:
  /// kernels that write roots of their own.
  llvm::SmallPtrSet<Operation *, 4> ownCopies;
  /// The place of each operation in the function.
  llvm::DenseMap<Operation *, unsigned> positions;
  SmallVector<Operation *> kernels;
  SmallVector<Operation *> relayouts;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_LAYOUTGRAPH_H
