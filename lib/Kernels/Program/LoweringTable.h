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

/// Defines the function of a row of FP8MOE_OPS or FP8MOE_VIEWS in Families.def;
/// behind the name come the members of an OpLowering.
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

/// How operations of one kind become launches, or a view. At most one matches
/// an operation.
struct OpLowering {
  /// The operations that it matches, in the plural, as diagnostics list them.
  StringRef name;
  bool (*matches)(Operation *op);
  LogicalResult (*lower)(Operation *op, ProgramLowering &lowering);
  /// Whether operands and results may be block scales in tiles, which have no
  /// strides.
  bool takesTiledScales = false;
  /// Whether results get a buffer of their own, which launches write. Others
  /// are views.
  bool writesResults = true;
};

/// OpLowering::matches for operations of these classes.
template <typename... Ops> bool isAnyOf(Operation *op) {
  return isa<Ops...>(op);
}

/// One piece of work and the tile that does it: where its tensors are, with
/// sizes and strides as the host plan has them. Each problem has its own.
class KernelInstance {
public:
  TypeID getTypeID() const { return id; }

  /// The operation that the kernel does.
  Operation *op;
  /// Its tile; where a family launches all alternatives, that of the first one.
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

/// The lowering half of a family of kernels with tiles.
struct KernelLowering {
  const KernelFamily *family;
  /// Builds the kernel, or finds it, and launches it where `when` (an i1; null:
  /// always) holds, and everything is aligned and counted as the kernel needs
  /// it. The result is the condition (an i1) under
  /// which it did what there was to do; null: wherever `when` holds.
  FailureOr<Value> (*launch)(const KernelInstance &instance, Value when,
                             ProgramLowering &lowering);
};

/// The rows of Families.def. The pass makes it, so that programs know no
/// family of kernels.
struct LoweringTable {
  /// Copies a tensor of this type whose elements may lie anywhere on both
  /// sides. `op` is where it reports that it cannot.
  using CopyFn = LogicalResult (*)(Operation *op, RankedTensorType type,
                                   const BufferView &from, const BufferView &to,
                                   ProgramLowering &lowering);

  SmallVector<const OpLowering *> ops;
  SmallVector<KernelLowering> kernels;
  CopyFn copyTensor = nullptr;

  /// Null for an operation that nothing is known of.
  const OpLowering *findOpLowering(Operation *op) const;
  /// Whether an operation writes its results to memory that it is given.
  bool writesResults(Operation *op) const;
  /// "views, copies and grouped matmuls".
  std::string listOps() const;
  /// The family that has the tile; null for a tile of no family.
  const KernelLowering *findKernelLowering(TileAttrInterface tile) const;
};

/// The rows of Families.def.
LoweringTable createLoweringTable();

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_LOWERINGTABLE_H
