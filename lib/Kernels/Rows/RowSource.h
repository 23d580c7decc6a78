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

/// Elements of a chunk that rows are divided into.
inline constexpr int64_t kRowChunk = 16;

enum class RowKind { Gather, SwiGLU, WeightedSwiGLU, SwiGLUGradient };

/// Sizes of an operation on rows: a gather of rows, SwiGLU, or its gradient.
template <typename T> struct RowSizes {
  /// Rows of the input, and columns of the result.
  T inputRows, columns;
  /// Row strides in elements: of the input, and of the incoming gradient that
  /// SwiGLUGradient also reads (else 0).
  T inputPitch, gradientPitch;

  static constexpr auto members() {
    using S = RowSizes;
    return std::array{&S::inputRows, &S::columns, &S::inputPitch,
                      &S::gradientPitch};
  }
};

/// An operation on rows. Its pointers are the input and, except for SwiGLU, one
/// more: the gather's row numbers, the weights, or the incoming gradient.
struct RowSourceProblem {
  RowKind kind;
  /// bf16 or f32, of all matrices.
  Type elementType;
  /// Promised alignment in bytes of the first element.
  int64_t inputAlignment = 1, gradientAlignment = 1;
  /// ShapedType::kDynamic for what is only known at run time.
  RowSizes<int64_t> sizes;

  unsigned countPointers() const { return kind == RowKind::SwiGLU ? 1 : 2; }
  int64_t countParts() const { return kind == RowKind::SwiGLUGradient ? 2 : 1; }
  /// Returns all members but the type, as a part of the kernel's cache key.
  SmallVector<int64_t> getNumbers() const;
};

/// Computes result rows of an operation on rows in registers, for a kernel that
/// would otherwise load them from memory.
class RowSource {
public:
  /// The operation's pointers and sizes are the kernel's parameters from
  /// `firstPointer` and `firstSize` on. A thread computes `chunk` elements at a
  /// time: at least 16 bytes, and a divisor of kRowChunk.
  RowSource(KernelBuilder &b, const RowSourceProblem &problem,
            unsigned firstPointer, unsigned firstSize,
            int64_t chunk = kRowChunk);

  Value getColumns() { return sizes.columns; }
  /// Returns the number of parts of a row that are computed together to share
  /// work: both halves of a gradient, else one.
  int64_t countParts() const { return problem.countParts(); }
  Value getPartColumns() { return b.divU(sizes.columns, countParts()); }

  // A kernel may call these steps far apart to hide the latency of loads.

  /// Returns the values that `load` and `compute` need for a row (i64): the row
  /// that is read (for a gather its number in memory), and its weight if there
  /// are weights.
  SmallVector<Value> find(Value row);
  /// Loads the operands of a chunk of each part of the row, as words of 16
  /// bytes. The chunk begins at `column` of each part, a multiple of the chunk
  /// size.
  SmallVector<Value> load(ValueRange found, Value column);
  /// Returns the result's chunk of each part, as words of 16 bytes.
  SmallVector<Value> compute(ValueRange found, ValueRange loaded);

private:
  int64_t getBytes() const {
    return problem.elementType.getIntOrFloatBitWidth() / 8;
  }
  Plane createPlane(Value pointer, int64_t alignment, Value pitch);
  SmallVector<Value> loadWords(const Plane &plane, Value row, Value column,
                               Value end);
  /// Convert words of elements to f32 values, and back.
  SmallVector<Value> unpack(ValueRange words);
  SmallVector<Value> pack(ArrayRef<Value> values);

  SmallVector<Value> gather(Value number, Value column);

  KernelBuilder &b;
  RowSourceProblem problem;
  RowSizes<Value> sizes;
  int64_t chunk;
  Value inputPointer, secondPointer;
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_ROWS_ROWSOURCE_H
