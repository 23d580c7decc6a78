//===- MatmulFamily.h - Families of matmul kernels --------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_MATMUL_MATMULFAMILY_H
#define FP8MOE_LIB_KERNELS_MATMUL_MATMULFAMILY_H

#include "fp8moe/Kernels/Matmul/MatmulWork.h"
#include "fp8moe/Kernels/Model/KernelFamily.h"

namespace mlir::fp8moe {

/// A family whose kernels compute grouped matmuls.
class MatmulFamily : public KernelFamily {
public:
  static bool classof(const KernelFamily *family) {
    return family->getClassID() == TypeID::get<MatmulFamily>();
  }
  TypeID getClassID() const final { return TypeID::get<MatmulFamily>(); }
  TypeID getWorkID() const final { return TypeID::get<MatmulWork>(); }

  /// Returns the access that kernels prefer for a tensor: operands along
  /// getContiguousDims, results along rows. Kernels with exchanged operands
  /// write columns.
  std::optional<TensorAccess>
  getWantedAccess(Operation *op, Value tensor,
                  const TargetInfo &target) const final;
  /// Returns the padding of groups for FP8 operands that are grouped along the
  /// contraction.
  int64_t getWantedGroupPadding(Operation *op,
                                const TargetInfo &target) const final;

  /// Returns the tiles with the least predicted time.
  virtual KernelChoiceAttr choose(MLIRContext *context, const MatmulWork &work,
                                  const TargetInfo &target) const;
  /// Returns the cost of a tile, an impossible one if the tile is not legal.
  virtual Cost predict(const MatmulWork &work, TileAttrInterface tile,
                       const TargetInfo &target) const;
  /// Explains why a matmul has its tiles.
  virtual std::string explain(const MatmulWork &work, KernelChoiceAttr choice,
                              const TargetInfo &target) const;
  bool isGeneral() const final { return false; }

protected:
  /// Groups of the contraction that begin at multiples of this many FP8
  /// elements, and are zero up to the next, need no mask. It is a step of the
  /// kernels and a line of the cache.
  static constexpr int64_t kGroupPadding = 128;

  /// Whether a kernel supports the operands' element types. Cheaper than
  /// creating a MatmulWork; layout placement calls it often.
  bool hasKernel(MatmulOpInterface op, const TargetInfo &target) const {
    return supports(getMatmulKind(op), target);
  }
  /// Required alignment in bytes of the strides of operands, and of results
  /// where kernels write them with tensor maps.
  static constexpr int64_t kAlignment = 16;

  /// Whether dense rows of `size` elements are known to be aligned.
  static bool isAlignedPitch(int64_t size, Type elementType);
  /// Returns the dimensions of an operand of which layout placement makes one
  /// contiguous.
  static SmallVector<int64_t, 2> getContiguousDims(MatmulOpInterface op,
                                                   bool isFirst);
  /// Whether dense rows of a result may have `size` elements.
  virtual bool takesRowsOf(int64_t size, Type elementType) const {
    return true;
  }

  /// Returns the dimensions of the result of which one must be contiguous.
  SmallVector<int64_t, 2> getResultDims(MatmulOpInterface op,
                                        const TargetInfo &target) const;

  /// Explains why a matmul has one tile: what limits its time, and the tile
  /// that the model prefers, as text from `describe`.
  std::string
  explainTile(const MatmulWork &work, TileAttrInterface tile,
              const TargetInfo &target,
              function_ref<std::string(TileAttrInterface)> describe) const;
};

/// Reports tensors whose layouts kernels do not support, or whose strides are
/// not multiples of the alignments in bytes.
LogicalResult verifyMatmulLayouts(MatmulOpInterface op,
                                  int64_t operandAlignment,
                                  int64_t resultAlignment,
                                  const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_MATMULFAMILY_H
