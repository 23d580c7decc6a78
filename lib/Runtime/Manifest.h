//===- Manifest.h - The parsed manifest of an artifact ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The structures mirror docs/reference/manifest.md. Every Manifest is valid:
// indices are in range, values refer to earlier values only, and names are
// unique.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_MANIFEST_H
#define FP8MOE_LIB_RUNTIME_MANIFEST_H

#include "fp8moe/Support/DataType.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fp8moe::runtime {

/// A constant, or a reference to an entry of Program::values. `number` is the
/// constant or the index.
struct Scalar {
  bool isValue = false;
  int64_t number = 0;

  int64_t get(const std::vector<int64_t> &values) const {
    return isValue ? values[number] : number;
  }
};

/// An extent or stride of a buffer. Not set if the caller's tensor determines
/// it.
using Extent = std::optional<Scalar>;

enum class Role { Input, Output, Workspace };

struct Buffer {
  Role role = Role::Input;
  std::string name;
  const support::DataType *dtype = nullptr;
  std::vector<Extent> shape;
  std::vector<Extent> strides;
  /// The address must be a multiple of this many bytes.
  int64_t align = 1;
  /// The input whose memory this output may reuse.
  std::optional<size_t> mayOverwrite;

  int64_t rank() const { return shape.size(); }
};

enum class ValueOp {
  Const,
  Dim,
  Stride,
  Add,
  Sub,
  Mul,
  Div,
  CeilDiv,
  Rem,
  Max,
  Min,
  Select,
  Lt,
  Le,
  Eq,
  Ne,
  And,
  Or,
  DeviceAttr,
  Aligned
};

/// The device attributes that a program may read.
enum class DeviceAttribute { Multiprocessors, L2Bytes, MemoryBandwidth };
inline constexpr size_t numDeviceAttributes = 3;

/// One step of the size computation. Dim and Stride: args[0] is the buffer,
/// args[1] the dimension. DeviceAttr: args[0] is a DeviceAttribute. Aligned:
/// args[0] is the buffer, args[1] the bytes.
struct Value {
  ValueOp op = ValueOp::Const;
  std::array<Scalar, 3> args;
  /// Whether the value depends on addresses of a run.
  bool isLate = false;
};

/// The descriptor of a tensor for TMA. Dimensions are ordered from innermost to
/// outermost. `swizzle` and `promotion` are in bytes, all others in elements.
struct TensorMap {
  size_t buffer = 0;
  Scalar offset;
  std::vector<Scalar> sizes;
  /// Strides of all dimensions but the innermost.
  std::vector<Scalar> strides;
  std::vector<uint32_t> box;
  uint32_t swizzle = 0;
  uint32_t promotion = 0;
};

/// A kernel's argument: the address of a buffer, a tensor map, or a number.
struct Argument {
  enum class Kind { Buffer, TensorMap, Scalar };
  Kind kind = Kind::Scalar;
  /// Index of the buffer or tensor map.
  size_t index = 0;
  Scalar scalar;
};

/// The launch parameters that do not depend on sizes.
struct LaunchShape {
  std::array<uint32_t, 3> block = {1, 1, 1};
  /// Bytes of dynamic shared memory.
  uint32_t shared = 0;
  /// Blocks of a cluster; not set for a launch without clusters.
  std::optional<std::array<uint32_t, 3>> cluster;
  /// Whether all blocks must be resident at once.
  bool cooperative = false;
  /// Whether blocks may start before earlier kernels of the stream have
  /// finished.
  bool programmatic = false;
};

struct Launch : LaunchShape {
  std::string kernel;
  std::array<Scalar, 3> grid;
  /// If set, the launch only runs if this is not 0.
  std::optional<Scalar> when;
  std::vector<Argument> args;
};

/// A condition on the sizes of a call.
struct Requirement {
  Scalar cond;
  /// The message for the caller if the condition is 0.
  std::string message;
};

struct Program {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Value> values;
  std::vector<Requirement> requirements;
  std::vector<TensorMap> tensorMaps;
  std::vector<Launch> launches;
  /// Whether a scalar depends on addresses of a run.
  bool isLate(const Scalar &scalar) const {
    return scalar.isValue && values[scalar.number].isLate;
  }

  /// Indices into `buffers`, by role.
  std::vector<size_t> inputs, outputs, workspaces;
};

enum class TargetKind { CPU, NVVM, ROCDL };
enum class BinaryFormat { SharedObject, Cubin, PTX, HSACO };

struct Target {
  std::string chip;
  TargetKind kind = TargetKind::CPU;
};

struct Binary {
  std::string file;
  BinaryFormat format = BinaryFormat::SharedObject;
  uint64_t xxh3 = 0;
};

struct Manifest {
  Target target;
  std::vector<Binary> binaries;
  std::vector<Program> programs;
};

/// Parses the text of manifest.json. Throws Error with the path of the invalid
/// value.
Manifest parseManifest(std::string_view text);

/// Return the names that the manifest uses.
const char *toString(Role role);
const char *toString(ValueOp op);
const char *toString(DeviceAttribute attribute);

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_MANIFEST_H
