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

/// The matmuls of one function, what each takes in bf16 and in FP8, and which
/// choices take the least time together: a minimal sum over matmuls and over
/// preparations of operands, each of which is made once for all matmuls that
/// need it.
class PrecisionModel {
public:
  /// FP8 has to gain this part of the bf16 time at least, since it loses bits,
  /// and since its gain is predicted about a tenth too large
  /// (benchmarks/precision.py; docs/results has how often it is
  /// right).
  static constexpr double kLeastGain = 0.13;

  /// Rows that are not known count as `tokens`, or with their nominal number
  /// for 0.
  PrecisionModel(const TargetInfo &target, int64_t tokens)
      : target(target), tokens(tokens) {}

  /// Predicts a matmul, whose operands are bf16, in bf16 and as `recipe` makes
  /// it FP8.
  void add(MatmulOpInterface op, PrecisionRecipe recipe);
  /// Adds a matmul whose choice is not open: decided before, or not possible
  /// otherwise.
  void fix(MatmulOpInterface op, PrecisionChoice choice);
  /// Makes all open choices.
  void solve();

  struct Answer {
    PrecisionChoice choice;
    /// Nanoseconds of the matmul and of its part of what it shares. The times
    /// of the choices add up to the time of all.
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
    /// The part of the cost that is left where another quantization of the
    /// tensor is made, too: both read it once.
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
  /// The cost of an MX matmul that fp8moe-expand-mx-matmuls expands.
  Cost predictExpanded(MatmulWork work, MLIRContext *context) const;
  void addOperand(Use &use, MatmulOpInterface op, PrecisionRecipe recipe,
                  const MatmulWork &work, bool isFirst);
  unsigned prepare(bool isFP8, MatmulOpInterface op,
                   const MatmulOperand &operand, ArrayRef<int64_t> rootShape,
                   function_ref<Cost()> predict);
  /// Quantizations of one tensor along two axes that are cheaper together.
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
  /// The quantizations of each tensor in a block, by number.
  llvm::MapVector<std::pair<Block *, Value>, SmallVector<unsigned, 2>>
      quantizations;
  DenseMap<std::pair<int, MatmulOperand::Key>, unsigned> numbers;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_TRANSFORMS_PRECISIONMODEL_H
