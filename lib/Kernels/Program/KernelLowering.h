//===- KernelLowering.h - How a family launches its kernels -----*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_PROGRAM_KERNELLOWERING_H
#define FP8MOE_LIB_KERNELS_PROGRAM_KERNELLOWERING_H

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEAttributes.h"
#include "mlir/IR/Value.h"

namespace mlir::fp8moe {
class KernelFamily;
class ProgramLowering;

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

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_PROGRAM_KERNELLOWERING_H
