//===- RowSource.h - Rows that kernels compute ---------------- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_ROWS_ROWSOURCE_H
#define FP8MOE_LIB_KERNELS_ROWS_ROWSOURCE_H

#include "Kernels/Emit/MemoryAccess.h"

#include <array>

namespace mlir::fp8moe {

/// Rows are divided into chunks of so many elements.
inline constexpr int64_t kRowChunk = 16;

enum class RowKind { Gather, WeightedGather, SwiGLU, SwiGLUGradient };

/// Sizes of an operation on rows.
template <typename T> struct RowSizes {
  /// Rows of the input, and columns of the result.
  T inputRows, columns;
  /// Elements from one row to the next: of the input, and of the gradient that
  /// a gradient reads besides (else 0).
  T inputPitch, gradientPitch;

  static constexpr auto members() {
    using S = RowSizes;
    return std::array{&S::inputRows, &S::columns, &S::inputPitch,
                      &S::gradientPitch};
  }
};

/// An operation on rows. Its pointers are the input, then row numbers and
/// weights of a gather, or the gradient that a gradient reads.
struct RowProblem {
  RowKind kind;
  /// bf16 or f32, of all matrices.
  Type elementType;
  /// Promised alignment in bytes of the first element.
  int64_t inputAlignment = 1, gradientAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  RowSizes<int64_t> sizes;

  unsigned countPointers() const;
  int64_t countParts() const { return kind == RowKind::SwiGLUGradient ? 2 : 1; }
  /// All but the type, to tell kernels apart.
  SmallVector<int64_t> getNumbers() const;
};

/// Rows of the result of an operation, which a kernel computes in registers
/// where it would load them.
class RowSource {
public:
  /// Its pointers and sizes begin at these of the kernel's parameters. A thread
  /// computes `chunk` elements at a time, a part of kRowChunk of at least 16
  /// bytes.
  RowSource(KernelBuilder &b, const RowProblem &problem, unsigned firstPointer,
            unsigned firstSize, int64_t chunk = kRowChunk);

  Value getColumns() { return sizes.columns; }
  /// Parts of a row that are computed together, as they share what is
  /// expensive: both halves of a gradient.
  int64_t countParts() const { return problem.countParts(); }
  Value getPartColumns() { return b.divU(sizes.columns, countParts()); }
  /// Reads the number and the weight of a row (i64), which a kernel may do far
  /// ahead of its elements.
  SmallVector<Value> find(Value row);
  /// A chunk of each part of a row that was found, as words of 16 bytes. It
  /// begins at `column`, a multiple of it, of each part.
  SmallVector<Value> load(ValueRange found, Value column);

private:
  int64_t getBytes() const {
    return problem.elementType.getIntOrFloatBitWidth() / 8;
  }
  Plane createPlane(Value pointer, int64_t alignment, Value pitch);
  SmallVector<Value> loadWords(const Plane &plane, Value row, Value column,
                               Value end);
  SmallVector<Value> loadValues(const Plane &plane, Value row, Value column,
                                Value end);
  /// f32 values as words of elements.
  SmallVector<Value> pack(ArrayRef<Value> values);

  SmallVector<Value> gather(ValueRange found, Value column);
  SmallVector<Value> computeSwiGLU(Value row, Value column);
  SmallVector<Value> computeGradient(Value row, Value column);

  KernelBuilder &b;
  RowProblem problem;
  RowSizes<Value> sizes;
  int64_t chunk;
  Value inputPointer, secondPointer, weightsPointer;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_ROWS_ROWSOURCE_H
