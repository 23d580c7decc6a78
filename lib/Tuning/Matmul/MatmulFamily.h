//===- MatmulFamily.h - Families of matmul kernels --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TUNING_MATMUL_MATMULFAMILY_H
#define FP8MOE_LIB_TUNING_MATMUL_MATMULFAMILY_H

#include "fp8moe/Tuning/KernelFamily.h"
#include "fp8moe/Tuning/Matmul/MatmulWork.h"

namespace mlir::fp8moe {

/// A family whose kernels do grouped matmuls.
class MatmulFamily : public KernelFamily {
public:
  static bool classof(const KernelFamily *family) {
    return family->getWorkID() == TypeID::get<MatmulWork>();
  }
  TypeID getWorkID() const final { return TypeID::get<MatmulWork>(); }

  /// The cost of a tile that somebody wrote, impossible where it is not legal;
  /// of the best one for no tile.
  virtual Cost predict(const MatmulWork &work, TileAttrInterface tile,
                       const TargetInfo &target) const = 0;
  /// Why a matmul has its tile, or for none, which ones it will have.
  virtual std::string explain(const MatmulWork &work, TileAttrInterface tile,
                              const TargetInfo &target) const = 0;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TUNING_MATMUL_MATMULFAMILY_H
