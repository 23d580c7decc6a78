//===- Artifact.h - A loaded artifact ---------------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_ARTIFACT_H
#define FP8MOE_LIB_RUNTIME_ARTIFACT_H

#include "Backend.h"

#include <functional>
#include <memory>

namespace fp8moe::runtime {

/// The fp8moe_buffer of a buffer. Owns the arrays that it points to.
class BufferInfo {
public:
  /// Describes a buffer as a program declares it.
  explicit BufferInfo(const Buffer &decl);
  /// Describes a buffer with the sizes of a call.
  BufferInfo(const Buffer &decl, const ResolvedBuffer &resolved);

  const fp8moe_buffer &get() const { return info; }

private:
  void initialize(const Buffer &decl);

  std::vector<int64_t> shape, strides;
  fp8moe_buffer info;
};

class Artifact;

} // namespace fp8moe::runtime

/// A program and its kernels on the device.
struct fp8moe_program {
  const fp8moe::runtime::Artifact *artifact;
  const fp8moe::runtime::Program *decl;
  std::vector<fp8moe::runtime::BufferInfo> inputs, outputs;
  /// The kernel handle of each launch; null on device "none".
  std::vector<void *> kernels;
};

namespace fp8moe::runtime {

struct ArtifactFile {
  /// The path in messages.
  std::string path;
  std::string contents;
};

/// Reads a file of an artifact by name. Throws Error if it is missing or has
/// more than `maxBytes` bytes.
using ArtifactFiles =
    std::function<ArtifactFile(const std::string &name, int64_t maxBytes)>;

class Artifact : public std::enable_shared_from_this<Artifact> {
public:
  /// Throws Error.
  static std::shared_ptr<const Artifact> load(const ArtifactFiles &files,
                                              const std::string &device);
  static std::shared_ptr<const Artifact> loadFolder(const std::string &path,
                                                    const std::string &device);

  const Target &target() const { return manifest.target; }
  const std::vector<fp8moe_program> &programs() const { return loaded; }

  /// Returns the backend; null on device "none".
  const Backend *backend() const { return device.get(); }

  const DeviceAttributes &attributes() const {
    static const DeviceAttributes ofNone;
    return device ? *device : ofNone;
  }

  /// Returns the program of that name. Throws Error if there is none.
  const fp8moe_program &findProgram(const std::string &name) const;

private:
  Artifact() = default;
  void loadPrograms();

  Manifest manifest;
  std::unique_ptr<Backend> device;
  std::vector<fp8moe_program> loaded;
};

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_ARTIFACT_H
