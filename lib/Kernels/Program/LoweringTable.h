//===- LoweringTable.h - What operations become -----------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_PROGRAM_LOWERINGTABLE_H
#define FP8MOE_LIB_KERNELS_PROGRAM_LOWERINGTABLE_H

#include "fp8moe/Conversion/PlanSignature.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"

/// Defines the function of a row of FP8MOE_OPS or FP8MOE_VIEWS in Families.def.
/// The arguments after the name are the members of an OpLowering.
#define FP8MOE_DEFINE_OP_LOWERING(NAME, ...)                                   \
  namespace mlir::fp8moe {                                                     \
  const OpLowering &get##NAME##OpLowering() {                                  \
    static const OpLowering row{__VA_ARGS__};                                  \
    return row;                                                                \
  }                                                                            \
  }

namespace mlir::fp8moe {
class KernelFamily;
class ProgramLowering;

/// Lowers one kind of operations to launches or to a view. An operation matches
/// at most one OpLowering of the table.
struct OpLowering {
  /// The operations that it matches, in the plural, as diagnostics list them.
  StringRef name;
  bool (*matches)(Operation *op);
  LogicalResult (*lower)(Operation *op, ProgramLowering &lowering);
  /// Whether operands and results may be block scales in the tiled layout,
  /// which has no strides.
  bool takesTiledScales = false;
  /// Whether launches write the results to buffers of their own. Otherwise
  /// results are views.
  bool writesResults = true;
};

/// Whether `op` is of one of these classes, as an OpLowering::matches.
template <typename... Ops> bool isAnyOf(Operation *op) {
  return isa<Ops...>(op);
}

/// An operation with the tile chosen for it. Derived classes add the problem:
/// the buffers, and the sizes and strides as values of the host plan.
class KernelInstance {
public:
  TypeID getTypeID() const { return id; }

  /// The operation that the kernel computes.
  Operation *op;
  /// The tile. Where a family launches all alternatives itself, the first
  /// one's.
  TileAttrInterface tile;

protected:
  KernelInstance(TypeID id, Operation *op, TileAttrInterface tile)
      : op(op), tile(tile), id(id) {}

private:
  TypeID id;
};

template <typename Derived> class KernelInstanceBase : public KernelInstance {
public:
  static bool classof(const KernelInstance *instance) {
    return instance->getTypeID() == TypeID::get<Derived>();
  }

protected:
  KernelInstanceBase(Operation *op, TileAttrInterface tile)
      : KernelInstance(TypeID::get<Derived>(), op, tile) {}
};

/// How a family of kernels with tiles is launched. Its KernelFamily has the
/// cost model.
struct KernelLowering {
  const KernelFamily *family;
  /// Launches the kernel where `when` (an i1, null for always) holds, and
  /// addresses, pitches and sizes meet its requirements. Builds it if the cache
  /// lacks it. Returns an i1: whether it did all of the work. Null: wherever
  /// `when` holds.
  FailureOr<Value> (*launch)(const KernelInstance &instance, Value when,
                             ProgramLowering &lowering);
};

/// When a tensor is copied.
struct CopyCondition {
  /// An i1, null for always.
  Value when;
  /// Whether both tensors may lie in the same memory. The kernel then ends at
  /// once where they do.
  bool mayBeSame = false;
};

/// The rows of Families.def. The pass creates the table and passes it on, so
/// that program lowering depends on no family of kernels.
struct LoweringTable {
  /// Copies a tensor of this type between any two layouts. Reports at `op` if
  /// it cannot.
  using CopyFn = LogicalResult (*)(Operation *op, RankedTensorType type,
                                   const BufferView &from, const BufferView &to,
                                   ProgramLowering &lowering,
                                   const CopyCondition &condition);

  SmallVector<const OpLowering *> ops;
  SmallVector<KernelLowering> kernels;
  CopyFn copyTensor = nullptr;

  /// Returns the lowering that matches an operation, or null.
  const OpLowering *findOpLowering(Operation *op) const;
  /// Whether launches write the operation's results to buffers that it is
  /// given.
  bool writesResults(Operation *op) const;
  /// Returns the supported operations, as "views, copies and grouped matmuls".
  std::string listOps() const;
  /// Returns the lowering of the family that owns the tile, or null.
  const KernelLowering *findKernelLowering(TileAttrInterface tile) const;
};

/// The rows of Families.def.
LoweringTable createLoweringTable();

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_LOWERINGTABLE_H
