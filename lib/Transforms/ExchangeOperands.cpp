//===- ExchangeOperands.cpp - Matmuls that write transposes ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (A B)^T = B^T A^T. Kernels write contiguous rows of a result. A matmul whose
// result has contiguous columns exchanges its operands, so that these columns
// are rows of the new result. Placement chooses such a layout if it saves a
// copy, for matmuls where getKernelAccess allows it.
//
//===----------------------------------------------------------------------===//

#include "Steps.h"

#include "Regroupings.h"
#include "fp8moe/Kernels/Matmul/MatmulWork.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Whether the result is contiguous along its second-last dimension only.
static bool liesByColumns(MatmulOpInterface op) {
  RankedTensorType type = op.getType();
  int64_t last = type.getRank() - 1;
  StridedLayout layout = *StridedLayout::get(type);
  return !layout.isContiguousAlong(last) && type.getDimSize(last) != 1 &&
         layout.isContiguousAlong(last - 1);
}

/// Returns the permutation that swaps the last two dimensions.
static SmallVector<int64_t> getExchange(Value value) {
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  SmallVector<int64_t> permutation = identityPermutation(rank);
  std::swap(permutation[rank - 2], permutation[rank - 1]);
  return permutation;
}

/// Sets the operands of `exchanged`, a clone of `op`, to the transposed
/// operands of `op` in exchanged order.
template <typename MatmulOpTy>
static void setOperands(MatmulOpTy op, MatmulOpTy exchanged) {
  OpBuilder builder(exchanged);
  auto transpose = [&](Value value) {
    return TransposeOp::create(builder, op.getLoc(), value, getExchange(value));
  };
  exchanged.getAMutable().assign(transpose(op.getB()));
  exchanged.getBMutable().assign(transpose(op.getA()));
  if (op.getScaleA()) {
    exchanged.getScaleAMutable().assign(op.getScaleB());
    exchanged.getScaleBMutable().assign(op.getScaleA());
  }
  if (op.getAddend())
    exchanged.getAddendMutable().assign(transpose(op.getAddend()));
}

/// %r = grouped_matmul %a, %b scales(%sa, %sb) accumulate(%c)
///     -> tensor<ExNxK, [0, 2, 1]>
///
///   -->  %bt, %at, %ct = transposes
///        %t = grouped_matmul %bt, %at scales(%sb, %sa) accumulate(%ct)
///            -> tensor<ExKxN>
///        %r = transpose %t [0, 2, 1]
static void exchange(MatmulOpInterface op) {
  OpBuilder builder(op);
  Operation *exchanged = builder.clone(*op);
  llvm::TypeSwitch<Operation *>(op).Case<LinearOp, GroupedMatmulOp>(
      [&](auto matmul) {
        setOperands(matmul, cast<decltype(matmul)>(exchanged));
      });
  SmallVector<int64_t> permutation = getExchange(op.getResult());
  exchanged->getResult(0).setType(pullBack(op.getType(), permutation));
  op.getResult().replaceAllUsesWith(
      TransposeOp::create(builder, op.getLoc(), op.getType(),
                          exchanged->getResult(0), permutation));
  remark::passed(op.getLoc(), layoutRemark("operands-exchanged"))
      << "operands exchanged: the kernel writes rows of the transposed result";
  op.erase();
}

bool fp8moe::exchangeOperands(FunctionOpInterface function,
                              const TargetInfo &target) {
  if (!target.isGPU())
    return false;
  SmallVector<MatmulOpInterface> ops;
  function->walk([&](MatmulOpInterface op) {
    if (liesByColumns(op) && hasKernels(op, target) &&
        explainNotExchangeable(op).empty())
      ops.push_back(op);
  });
  llvm::for_each(ops, exchange);
  return !ops.empty();
}
