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

/// A family whose kernels do grouped matmuls.
class MatmulFamily : public KernelFamily {
public:
  static bool classof(const KernelFamily *family) {
    return family->getClassID() == TypeID::get<MatmulFamily>();
  }
  TypeID getClassID() const final { return TypeID::get<MatmulFamily>(); }
  TypeID getWorkID() const final { return TypeID::get<MatmulWork>(); }

  /// Kernels load operands along what getContiguousDims says and write rows of
  /// the result; those with exchanged operands write its columns.
  std::optional<TensorAccess>
  getWantedAccess(Operation *op, Value tensor,
                  const TargetInfo &target) const final;
  /// The padding of FP8 operands whose groups are contracted.
  int64_t getWantedGroupPadding(Operation *op,
                                const TargetInfo &target) const final;

  /// The tiles of least predicted time.
  virtual KernelChoiceAttr choose(MLIRContext *context, const MatmulWork &work,
                                  const TargetInfo &target) const;
  /// The cost of a tile, impossible where it is not legal.
  virtual Cost predict(const MatmulWork &work, TileAttrInterface tile,
                       const TargetInfo &target) const;
  /// Why a matmul has its tiles.
  virtual std::string explain(const MatmulWork &work, KernelChoiceAttr choice,
                              const TargetInfo &target) const;
  bool isGeneral() const final { return false; }

protected:
  /// Groups of the contraction that begin at multiples of this many FP8
  /// elements (a step of the kernels and a line of the cache) and are zero up
  /// to the next one need no mask.
  static constexpr int64_t kGroupPadding = 128;

  /// Whether a kernel takes the elements of the operands. Layout placement asks
  /// this often: work has more that is not needed.
  bool hasKernel(MatmulOpInterface op, const TargetInfo &target) const {
    return supports(getMatmulKind(op), target);
  }
  /// Bytes that strides of operands and, where kernels write with tensor maps,
  /// of results are multiples of.
  static constexpr int64_t kAlignment = 16;

  /// Whether dense rows of so many elements are known to be aligned.
  static bool isAlignedPitch(int64_t size, Type elementType);
  /// The dimensions of an operand one of which layout placement makes
  /// contiguous.
  static SmallVector<int64_t, 2> getContiguousDims(MatmulOpInterface op,
                                                   bool isFirst);
  /// Whether rows of a result may have this size, if they are dense.
  virtual bool takesRowsOf(int64_t size, Type elementType) const {
    return true;
  }

  /// The dimensions of the result one of which must be contiguous.
  SmallVector<int64_t, 2> getResultDims(MatmulOpInterface op,
                                        const TargetInfo &target) const;
  SmallVector<KernelCandidate> getCandidates(MLIRContext *context,
                                             const MatmulWork &work,
                                             const TargetInfo &target) const;

  /// Why a matmul has one tile: what decides its time, and the tile that the
  /// model prefers, as `describe` has it.
  std::string
  explainTile(const MatmulWork &work, TileAttrInterface tile,
              const TargetInfo &target,
              function_ref<std::string(TileAttrInterface)> describe) const;
};

/// Reports tensors that kernels cannot read or write as they lie, or whose
/// strides are no multiples of so many bytes.
LogicalResult verifyMatmulLayouts(MatmulOpInterface op,
                                  int64_t operandAlignment,
                                  int64_t resultAlignment,
                                  const TargetInfo &target);

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_MATMUL_MATMULFAMILY_H
