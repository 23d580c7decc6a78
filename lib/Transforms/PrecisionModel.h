//===- PrecisionModel.h - Predicted times in bf16 and FP8 -------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_TRANSFORMS_PRECISIONMODEL_H
#define FP8MOE_LIB_TRANSFORMS_PRECISIONMODEL_H

#include "PrecisionOperands.h"

#include "fp8moe/Kernels/Matmul/MatmulWork.h"
#include "fp8moe/Kernels/Model/MinSum.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fp8moe {

/// The cost model of precision selection. Holds the matmuls of one function
/// with their predicted times in bf16 and in FP8, and finds the choices of
/// least total time. Preparations of operands (copies, quantizations) count
/// once for all matmuls that share them, which makes the problem a minimal sum.
class PrecisionModel {
public:
  /// FP8 must save at least this share of the bf16 time. It loses bits, and its
  /// gain is predicted about a tenth too large (benchmarks/precision.py).
  /// docs/results has how often the choice is right.
  static constexpr double kLeastGain = 0.13;

  /// Creates a model in which unknown rows count as `tokens`, or as their
  /// nominal number if `tokens` is 0.
  PrecisionModel(const TargetInfo &target, int64_t tokens)
      : target(target), tokens(tokens) {}

  /// Adds a matmul with bf16 operands and predicts its time in bf16, and in FP8
  /// by `recipe`.
  void add(MatmulOpInterface op, PrecisionRecipe recipe);
  /// Fixes the choice of a matmul that was added: it was decided before, or the
  /// other one is not possible.
  void fix(MatmulOpInterface op, PrecisionChoice choice);
  /// Makes all choices that are not fixed.
  void solve();

  struct Answer {
    PrecisionChoice choice;
    /// Nanoseconds of the matmul and of its share of common preparations. The
    /// times of the chosen precisions add up to the total time.
    int64_t bf16Ns, fp8Ns;
    bool canBeFP8;
  };
  Answer getAnswer(MatmulOpInterface op) const;

private:
  /// A copy or a quantization of an operand.
  struct Preparation {
    MatmulOperand operand;
    /// Shape of the operand's root.
    SmallVector<int64_t> shape;
    Cost cost;
    /// The share of the cost that remains if the tensor's other quantization is
    /// made in the same kernel, as both read the tensor once.
    double part = 1;
    unsigned users = 0, actualUsers = 0;
  };
  struct Use {
    Cost bf16, fp8;
    SmallVector<unsigned, 2> copies, quantizations;
    std::optional<PrecisionChoice> fixed;
    PrecisionChoice choice = PrecisionChoice::BF16;

    ArrayRef<unsigned> getPreparations(bool isFP8) const {
      return isFP8 ? quantizations : copies;
    }
  };

  Cost predictMatmul(const MatmulWork &work, MLIRContext *context) const;
  /// Returns the cost of an MX matmul after fp8moe-expand-mx-matmuls.
  Cost predictExpanded(MatmulWork work, MLIRContext *context) const;
  void addOperand(Use &use, MatmulOpInterface op, PrecisionRecipe recipe,
                  const MatmulWork &work, bool isFirst);
  unsigned prepare(bool isFP8, MatmulOpInterface op,
                   const MatmulOperand &operand, ArrayRef<int64_t> rootShape,
                   function_ref<Cost()> predict);
  /// Two quantizations of one tensor along different axes that are cheaper in
  /// one kernel.
  struct Pair {
    unsigned first, second;
    Cost apart, together;
  };
  SmallVector<Pair> findPairs() const;
  int64_t getTime(const Use &use, bool isFP8) const;

  const TargetInfo &target;
  int64_t tokens;
  llvm::MapVector<Operation *, Use> uses;
  SmallVector<Preparation> preparations;
  /// Maps a tensor in a block to its quantizations, as indices into
  /// `preparations`.
  llvm::MapVector<std::pair<Block *, Value>, SmallVector<unsigned, 2>>
      quantizations;
  DenseMap<std::pair<int, MatmulOperand::Key>, unsigned> numbers;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_PRECISIONMODEL_H
