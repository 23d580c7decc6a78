//===- KernelWork.h - Work of a kernel in cost models -----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MODEL_KERNELWORK_H
#define FP8MOE_KERNELS_MODEL_KERNELWORK_H

#include "mlir/Support/TypeID.h"

/// Defines getCLASS(), which returns the instance for a row of Families.def.
#define FP8MOE_DEFINE_ROW(INTERFACE, CLASS)                                    \
  namespace mlir::fp8moe {                                                     \
  const INTERFACE &get##CLASS() {                                              \
    static const CLASS row;                                                    \
    return row;                                                                \
  }                                                                            \
  }

namespace mlir::fp8moe {

/// The work of an operation as cost models see it: sizes, strides, element
/// types. Independent of MLIR operations.
class KernelWork {
public:
  TypeID getTypeID() const { return id; }

protected:
  explicit KernelWork(TypeID id) : id(id) {}

private:
  TypeID id;
};

template <typename Derived> class KernelWorkBase : public KernelWork {
public:
  static bool classof(const KernelWork *work) {
    return work->getTypeID() == TypeID::get<Derived>();
  }

protected:
  KernelWorkBase() : KernelWork(TypeID::get<Derived>()) {}
};

} // namespace mlir::fp8moe

#endif // FP8MOE_KERNELS_MODEL_KERNELWORK_H
