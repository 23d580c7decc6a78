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

enum class RowKind { Gather, SwiGLU, WeightedSwiGLU, SwiGLUGradient };

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

/// An operation on rows. Its pointers are the input, then the row numbers of a
/// gather, the weights, or the gradient that a gradient reads.
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
  RowSource(KernelBuilder &b, const RowSourceProblem &problem,
            unsigned firstPointer, unsigned firstSize,
            int64_t chunk = kRowChunk);

  Value getColumns() { return sizes.columns; }
  /// Parts of a row that are computed together, as they share what is
  /// expensive: both halves of a gradient.
  int64_t countParts() const { return problem.countParts(); }
  Value getPartColumns() { return b.divU(sizes.columns, countParts()); }

  // A kernel may do these steps far apart, so that nothing waits for memory.

  /// Returns what the next steps need of a row (i64): for a gather the number
  /// that it reads, else the row itself, and its weight if there are weights.
  SmallVector<Value> find(Value row);
  /// Loads what a chunk of each part of the row is computed of, as words of 16
  /// bytes. It begins at `column`, a multiple of it, of each part.
  SmallVector<Value> load(ValueRange found, Value column);
  /// The chunk of each part, as words of 16 bytes.
  SmallVector<Value> compute(ValueRange found, ValueRange loaded);

private:
  int64_t getBytes() const {
    return problem.elementType.getIntOrFloatBitWidth() / 8;
  }
  Plane createPlane(Value pointer, int64_t alignment, Value pitch);
  SmallVector<Value> loadWords(const Plane &plane, Value row, Value column,
                               Value end);
  /// Words of elements as f32 values, and back.
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
