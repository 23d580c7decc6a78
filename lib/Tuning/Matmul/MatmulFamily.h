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

  /// The tiles of least predicted time.
  virtual KernelChoiceAttr choose(MLIRContext *context, const MatmulWork &work,
                                  const TargetInfo &target) const;
  /// The cost of a tile, impossible where it is not legal.
  virtual Cost predict(const MatmulWork &work, TileAttrInterface tile,
                       const TargetInfo &target) const = 0;
  /// Why a matmul has its tiles.
  virtual std::string explain(const MatmulWork &work, KernelChoiceAttr choice,
                              const TargetInfo &target) const = 0;

protected:
  /// Why a matmul has one tile: what decides its time, and the tile that the
  /// model prefers, as `describe` has it.
  std::string
  explainTile(const MatmulWork &work, TileAttrInterface tile,
              const TargetInfo &target,
              function_ref<std::string(TileAttrInterface)> describe) const;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TUNING_MATMUL_MATMULFAMILY_H
