//===- KernelWork.h - What a kernel is asked to do --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_KERNELS_MODEL_KERNELWORK_H
#define FP8MOE_KERNELS_MODEL_KERNELWORK_H

#include "mlir/Support/TypeID.h"

/// Defines the function of a row of Families.def: getCLASS().
#define FP8MOE_DEFINE_ROW(INTERFACE, CLASS)                                    \
  namespace mlir::fp8moe {                                                     \
  const INTERFACE &get##CLASS() {                                              \
    static const CLASS row;                                                    \
    return row;                                                                \
  }                                                                            \
  }

namespace mlir::fp8moe {

/// An operation as models see it: sizes, strides, element types. Knows no
/// operation.
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
