//===- Sizes.cpp - Evaluating the sizes of a program ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sizes.h"
#include "Error.h"

#include <algorithm>

using namespace fp8moe::runtime;
using namespace fp8moe::support;

namespace {

/// Computes value `index` of a program by arithmetic from the earlier ones.
int64_t computeArithmetic(const Program &program, size_t index,
                          const std::vector<int64_t> &values) {
  const Value &value = program.values[index];
  int64_t a = value.args[0].get(values), b = value.args[1].get(values),
          c = value.args[2].get(values), result = 0;
  auto refuseIf = [&](bool isWrong, const char *problem) {
    if (isWrong)
      fail(FP8MOE_OUT_OF_RANGE, "program '", program.name,
           "': for these input shapes the size computation ", problem,
           ": value ", index, ", ", toString(value.op), "(", a, ", ", b, ")");
    return result;
  };
  constexpr const char *overflow = "overflows 64 bits";
  switch (value.op) {
  case ValueOp::Add:
    return refuseIf(__builtin_add_overflow(a, b, &result), overflow);
  case ValueOp::Sub:
    return refuseIf(__builtin_sub_overflow(a, b, &result), overflow);
  case ValueOp::Mul:
    return refuseIf(__builtin_mul_overflow(a, b, &result), overflow);
  case ValueOp::Div:
  case ValueOp::CeilDiv:
  case ValueOp::Rem:
    refuseIf(b == 0, "divides by zero");
    refuseIf(a == INT64_MIN && b == -1, overflow);
    result = value.op == ValueOp::Rem ? a % b : a / b;
    // The quotient was rounded towards zero; up is away from it exactly when
    // the exact quotient is positive.
    if (value.op == ValueOp::CeilDiv && a % b != 0 && (a < 0) == (b < 0))
      ++result;
    return result;
  case ValueOp::Max:
    return std::max(a, b);
  case ValueOp::Min:
    return std::min(a, b);
  case ValueOp::Select:
    return a ? b : c;
  case ValueOp::Lt:
    return a < b;
  case ValueOp::Le:
    return a <= b;
  case ValueOp::Eq:
    return a == b;
  case ValueOp::Ne:
    return a != b;
  case ValueOp::And:
    return a & b;
  case ValueOp::Or:
    return a | b;
  case ValueOp::Const:
  case ValueOp::Dim:
  case ValueOp::Stride:
  case ValueOp::DeviceAttr:
  case ValueOp::Aligned:
    break;
  }
  return refuseIf(true, "is no arithmetic");
}

/// Resolves one call. Input buffers first hold what the caller passed; after
/// `checkInput` that is what the program expects.
class SizeResolver {
public:
  SizeResolver(const Program &program, const DeviceAttributes &device)
      : program(program), device(device) {
    sizes.buffers.resize(program.buffers.size());
  }

  ResolvedSizes run(const fp8moe_tensor *inputs, size_t numInputs) {
    if (numInputs != program.inputs.size())
      fail(FP8MOE_INVALID_ARGUMENT, where(), "takes ", program.inputs.size(),
           " inputs, found ", numInputs);
    if (numInputs && !inputs)
      fail(FP8MOE_INVALID_ARGUMENT, where(), "the array of inputs is null");
    for (size_t i = 0; i < numInputs; ++i)
      bindInput(program.inputs[i], inputs[i]);
    // Compared before anything is computed from them, so that the message is
    // about the caller's shape and not about what follows from it.
    for (size_t buffer : program.inputs)
      checkInput(buffer, /*constantsOnly=*/true);
    evaluateValues();
    for (size_t buffer : program.inputs)
      checkInput(buffer, /*constantsOnly=*/false);
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      if (program.buffers[i].role != Role::Input)
        computeBuffer(i);
      sizes.buffers[i].bytes = computeBytes(i);
    }
    return std::move(sizes);
  }

private:
  std::string where() const { return "program '" + program.name + "': "; }
  std::string where(size_t buffer) const {
    return where() + describe(program, buffer) + ": ";
  }

  void bindInput(size_t buffer, const fp8moe_tensor &tensor);
  void checkInput(size_t buffer, bool constantsOnly);
  void evaluateValues();
  void checkNoOverlap(size_t index) const;
  void addSteps(size_t index, size_t dim, int64_t &last) const;
  void computeBuffer(size_t buffer);
  uint64_t computeBytes(size_t buffer) const;

  const Program &program;
  const DeviceAttributes &device;
  ResolvedSizes sizes;
};

bool isEmpty(const ResolvedBuffer &buffer) {
  return std::find(buffer.shape.begin(), buffer.shape.end(), 0) !=
         buffer.shape.end();
}

/// The stride of dimension `i` does not matter for where elements lie.
bool isStrideUnused(const ResolvedBuffer &buffer, size_t i) {
  return buffer.shape[i] <= 1 || isEmpty(buffer);
}

/// Takes over the caller's type, shape and strides.
void SizeResolver::bindInput(size_t index, const fp8moe_tensor &tensor) {
  const Buffer &buffer = program.buffers[index];
  ResolvedBuffer &bound = sizes.buffers[index];
  if (tensor.dtype != FP8MOE_DTYPE_UNKNOWN &&
      tensor.dtype != buffer.dtype->code) {
    const DataType *found = findDataType(tensor.dtype);
    fail(FP8MOE_INVALID_ARGUMENT, where(index), "has dtype ",
         found ? found->name : "unknown to this runtime", ", expected ",
         buffer.dtype->name);
  }
  if (tensor.rank != buffer.rank())
    fail(FP8MOE_INVALID_ARGUMENT, where(index), "rank is ", tensor.rank,
         ", expected ", buffer.rank());
  if (tensor.rank && !tensor.shape)
    fail(FP8MOE_INVALID_ARGUMENT, where(index), "the shape is null");

  bound.shape.assign(tensor.shape, tensor.shape + tensor.rank);
  for (size_t i = 0; i < bound.shape.size(); ++i)
    if (bound.shape[i] < 0)
      fail(FP8MOE_INVALID_ARGUMENT, where(index), "dim ", i, " is ",
           bound.shape[i], ", which is negative");

  if (tensor.strides) {
    bound.strides.assign(tensor.strides, tensor.strides + tensor.rank);
  } else {
    bound.strides.resize(bound.shape.size());
    int64_t stride = 1;
    for (size_t i = bound.shape.size(); i-- > 0;) {
      bound.strides[i] = stride;
      if (__builtin_mul_overflow(stride, std::max<int64_t>(bound.shape[i], 1),
                                 &stride))
        fail(FP8MOE_OUT_OF_RANGE, where(index),
             "the number of elements overflows 64 bits");
    }
  }
  for (size_t i = 0; i < bound.strides.size(); ++i) {
    if (bound.strides[i] >= 0)
      continue;
    if (!isStrideUnused(bound, i))
      fail(FP8MOE_INVALID_ARGUMENT, where(index), "stride ", i, " is ",
           bound.strides[i], ", and negative strides are not supported");
    bound.strides[i] = 0;
  }
}

/// Compares the entries that the program fixes, only those that are written as
/// numbers or all of them.
void SizeResolver::checkInput(size_t index, bool constantsOnly) {
  const Buffer &buffer = program.buffers[index];
  ResolvedBuffer &bound = sizes.buffers[index];
  auto isChecked = [&](const Extent &extent) {
    return extent && !(constantsOnly && extent->isValue);
  };
  for (size_t i = 0; i < bound.shape.size(); ++i)
    if (isChecked(buffer.shape[i]) &&
        bound.shape[i] != sizes.get(*buffer.shape[i]))
      fail(FP8MOE_INVALID_ARGUMENT, where(index), "dim ", i, " is ",
           bound.shape[i], ", expected ", sizes.get(*buffer.shape[i]));
  for (size_t i = 0; i < bound.strides.size(); ++i) {
    if (!isChecked(buffer.strides[i]))
      continue;
    int64_t expected = sizes.get(*buffer.strides[i]);
    if (bound.strides[i] != expected && !isStrideUnused(bound, i))
      fail(FP8MOE_INVALID_ARGUMENT, where(index), "stride ", i, " is ",
           bound.strides[i], " elements, expected ", expected,
           "; copy the tensor to the layout that the program was compiled for");
    bound.strides[i] = expected;
  }
}

void SizeResolver::evaluateValues() {
  sizes.values.reserve(program.values.size());
  for (const Value &value : program.values) {
    int64_t result = 0;
    bool isMoot = false;
    if (value.op == ValueOp::Const) {
      result = value.args[0].number;
    } else if (value.op == ValueOp::DeviceAttr) {
      result = device.getAttribute(DeviceAttribute(int(value.args[0].number)));
    } else if (value.op == ValueOp::Aligned) {
      result = 1;
    } else if (value.op == ValueOp::Dim || value.op == ValueOp::Stride) {
      size_t buffer = value.args[0].number, i = value.args[1].number;
      bool isDim = value.op == ValueOp::Dim;
      const Buffer &decl = program.buffers[buffer];
      const Extent &extent = isDim ? decl.shape[i] : decl.strides[i];
      const ResolvedBuffer &bound = sizes.buffers[buffer];
      if (extent) {
        result = sizes.get(*extent);
        isMoot = sizes.isMoot(*extent);
      } else {
        result = isDim ? bound.shape[i] : bound.strides[i];
        isMoot = !isDim && isStrideUnused(bound, i);
      }
    } else {
      result = computeArithmetic(program, sizes.values.size(), sizes.values);
      for (const Scalar &arg : value.args)
        isMoot |= sizes.isMoot(arg);
    }
    sizes.values.push_back(result);
    sizes.moot.push_back(isMoot);
  }
}

/// Outputs and workspaces: everything follows from the inputs.
void SizeResolver::computeBuffer(size_t index) {
  const Buffer &buffer = program.buffers[index];
  ResolvedBuffer &resolved = sizes.buffers[index];
  for (int64_t i = 0; i < buffer.rank(); ++i) {
    resolved.shape.push_back(sizes.get(*buffer.shape[i]));
    resolved.strides.push_back(sizes.get(*buffer.strides[i]));
    if (resolved.shape[i] < 0 || resolved.strides[i] < 0)
      fail(FP8MOE_OUT_OF_RANGE, where(index), "for these input shapes dim ", i,
           " is ", resolved.shape[i], " with stride ", resolved.strides[i],
           ", which is negative");
  }
  checkNoOverlap(index);
}

/// Refuses strides that put two elements of a written buffer at one address:
/// the buffer would be smaller than what kernels write. From the innermost
/// dimension outwards, each must step over everything inside it.
void SizeResolver::checkNoOverlap(size_t index) const {
  const ResolvedBuffer &buffer = sizes.buffers[index];
  if (isEmpty(buffer))
    return;
  // Strides, with their dimensions.
  std::vector<std::pair<int64_t, size_t>> steps;
  for (size_t i = 0; i < buffer.shape.size(); ++i)
    if (buffer.shape[i] > 1)
      steps.emplace_back(buffer.strides[i], i);
  std::sort(steps.begin(), steps.end());
  int64_t last = 0;
  std::pair<int64_t, size_t> inner = {1, 0};
  for (auto [stride, dim] : steps) {
    if (stride <= last)
      fail(FP8MOE_INVALID_ARTIFACT, where(index), "stride ", dim, " of ",
           stride, " elements lets elements overlap: it serves a dim ",
           inner.second, " of up to ",
           std::max(stride / inner.first, int64_t(0)), ", found ",
           buffer.shape[inner.second],
           "; pass a smaller one, or compile the program with a larger stride");
    inner = {stride, dim};
    addSteps(index, dim, last);
  }
}

/// Adds the way from the first to the last index of a dimension.
void SizeResolver::addSteps(size_t index, size_t dim, int64_t &last) const {
  const ResolvedBuffer &buffer = sizes.buffers[index];
  int64_t step = 0;
  if (__builtin_mul_overflow(buffer.shape[dim] - 1, buffer.strides[dim],
                             &step) ||
      __builtin_add_overflow(last, step, &last))
    fail(FP8MOE_OUT_OF_RANGE, where(index), "its size overflows 64 bits");
}

uint64_t SizeResolver::computeBytes(size_t index) const {
  const ResolvedBuffer &buffer = sizes.buffers[index];
  if (isEmpty(buffer))
    return 0;
  int64_t last = 0, bytes = 0;
  for (size_t i = 0; i < buffer.shape.size(); ++i)
    addSteps(index, i, last);
  if (__builtin_add_overflow(last, 1, &last) ||
      __builtin_mul_overflow(last, program.buffers[index].dtype->bytes, &bytes))
    fail(FP8MOE_OUT_OF_RANGE, where(index), "its size overflows 64 bits");
  return bytes;
}

} // namespace

std::string fp8moe::runtime::describe(const Program &program, size_t index) {
  const Buffer &buffer = program.buffers[index];
  return toString(buffer.role) + (buffer.name.empty()
                                      ? " " + std::to_string(index)
                                      : " '" + buffer.name + "'");
}

ResolvedSizes fp8moe::runtime::resolveSizes(const Program &program,
                                            const DeviceAttributes &device,
                                            const fp8moe_tensor *inputs,
                                            size_t numInputs) {
  return SizeResolver(program, device).run(inputs, numInputs);
}

void fp8moe::runtime::computeLateValues(const Program &program,
                                        void *const *pointers,
                                        std::vector<int64_t> &values) {
  for (size_t i = 0; i < program.values.size(); ++i) {
    const Value &value = program.values[i];
    if (!value.isLate)
      continue;
    if (value.op == ValueOp::Aligned) {
      auto address =
          reinterpret_cast<uintptr_t>(pointers[value.args[0].number]);
      values[i] = address % uintptr_t(value.args[1].number) == 0;
      continue;
    }
    values[i] = computeArithmetic(program, i, values);
  }
}
