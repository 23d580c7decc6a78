//===- Artifact.cpp - Loading an artifact ---------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Artifact.h"
#include "Error.h"
#include "GpuBackend.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace fp8moe::runtime;

namespace {

/// Far above any real manifest or binary.
constexpr int64_t maxManifestBytes = int64_t(64) << 20;
constexpr int64_t maxBinaryBytes = int64_t(1) << 30;

constexpr const char *manifestFile = "manifest.json";

/// A device as the caller names it.
struct DeviceName {
  std::string kind;
  int ordinal = 0;
};

/// Parses "cpu", "none", "cuda", "cuda:N", "hip", "hip:N".
DeviceName parseDevice(const std::string &text) {
  DeviceName device;
  size_t colon = text.find(':');
  device.kind = text.substr(0, colon);
  bool isGpu = device.kind == "cuda" || device.kind == "hip";
  bool valid = isGpu || device.kind == "cpu" || device.kind == "none";
  if (valid && colon != std::string::npos) {
    std::string number = text.substr(colon + 1);
    valid = isGpu && !number.empty() && number.size() <= 4 &&
            number.find_first_not_of("0123456789") == std::string::npos;
    if (valid)
      device.ordinal = std::stoi(number);
  }
  if (!valid)
    fail(FP8MOE_INVALID_ARGUMENT, "unknown device '", text,
         "'; expected 'cpu', 'cuda:N', 'hip:N' or 'none'");
  return device;
}

/// Refuses an artifact for another kind of device.
void checkDeviceKind(const Target &target, const DeviceName &device,
                     const std::string &text) {
  // In the order of TargetKind.
  constexpr const char *kinds[] = {"cpu", "cuda", "hip"};
  const char *needed = kinds[size_t(target.kind)];
  if (device.kind != "none" && device.kind != needed)
    fail(FP8MOE_UNSUPPORTED, "the artifact was compiled for ", target.chip,
         ", which is not what device '", text, "' is; load it on '", needed,
         target.kind == TargetKind::CPU ? "" : ":N",
         "' or compile it for that device");
}

std::string readFile(const std::string &path, int64_t maxBytes,
                     fp8moe_status notFound) {
  // Opening a FIFO would otherwise wait for somebody to write to it.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    fail(notFound, "cannot open ", path, ": ", std::strerror(errno));
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(
      ::fdopen(descriptor, "rb"), std::fclose);
  if (!file) {
    ::close(descriptor);
    fail(notFound, "cannot read ", path, ": ", std::strerror(errno));
  }
  struct stat info;
  if (::fstat(::fileno(file.get()), &info) != 0)
    fail(notFound, "cannot read ", path, ": ", std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    fail(FP8MOE_INVALID_ARTIFACT, path, " is not a regular file");
  if (info.st_size > maxBytes)
    fail(FP8MOE_INVALID_ARTIFACT, path, " has ", info.st_size,
         " bytes, more than the ", maxBytes, " allowed");
  std::string text(info.st_size, '\0');
  if (std::fread(&text[0], 1, text.size(), file.get()) != text.size())
    fail(FP8MOE_INVALID_ARTIFACT, "cannot read ", path);
  return text;
}

/// Reads a file of the artifact and compares its checksum.
LoadedBinary loadBinary(const ArtifactFiles &files, const Binary &binary) {
  ArtifactFile file = files(binary.file, maxBinaryBytes);
  LoadedBinary loaded{binary, std::move(file.contents)};
  uint64_t checksum = XXH3_64bits(loaded.image.data(), loaded.image.size());
  if (checksum != binary.xxh3)
    fail(FP8MOE_INVALID_ARTIFACT, file.path,
         " does not have the checksum that manifest.json gives; the file is "
         "damaged or of another compile");
  return loaded;
}

/// The public form of an entry that a program declares.
int64_t toPublic(const Extent &extent) {
  return extent && !extent->isValue ? extent->number : FP8MOE_DYNAMIC;
}

} // namespace

BufferInfo::BufferInfo(const Buffer &decl) {
  for (const Extent &extent : decl.shape)
    shape.push_back(toPublic(extent));
  for (const Extent &extent : decl.strides)
    strides.push_back(toPublic(extent));
  initialize(decl);
}

BufferInfo::BufferInfo(const Buffer &decl, const ResolvedBuffer &resolved)
    : shape(resolved.shape), strides(resolved.strides) {
  initialize(decl);
  info.bytes = resolved.bytes;
}

void BufferInfo::initialize(const Buffer &decl) {
  info.name = decl.name.c_str();
  info.dtype = fp8moe_dtype(decl.dtype->code);
  info.dtype_name = decl.dtype->name;
  info.rank = int32_t(decl.rank());
  info.shape = shape.data();
  info.strides = strides.data();
  info.bytes = 0;
  info.align = decl.align;
}

std::shared_ptr<const Artifact>
Artifact::loadFolder(const std::string &path, const std::string &device) {
  return load(
      [&](const std::string &name, int64_t maxBytes) -> ArtifactFile {
        std::string file = path + "/" + name;
        if (name != manifestFile)
          return {file, readFile(file, maxBytes, FP8MOE_INVALID_ARTIFACT)};
        if (access(file.c_str(), F_OK))
          fail(FP8MOE_NOT_FOUND, "'", path, "' is no artifact: cannot open ",
               file, ": ", std::strerror(errno),
               "; give a folder that fp8moe-compile -o wrote for one target");
        return {file, readFile(file, maxBytes, FP8MOE_NOT_FOUND)};
      },
      device);
}

std::shared_ptr<const Artifact> Artifact::load(const ArtifactFiles &files,
                                               const std::string &deviceText) {
  DeviceName device = parseDevice(deviceText);
  std::shared_ptr<Artifact> artifact(new Artifact);
  Manifest &manifest = artifact->manifest;
  manifest = parseManifest(files(manifestFile, maxManifestBytes).contents);
  checkDeviceKind(manifest.target, device, deviceText);

  std::vector<LoadedBinary> binaries;
  binaries.reserve(manifest.binaries.size());
  for (const Binary &binary : manifest.binaries)
    binaries.push_back(loadBinary(files, binary));
  if (device.kind == "cpu")
    artifact->device = createCpuBackend(binaries);
  else if (device.kind != "none")
    artifact->device =
        createGpuBackend(device.kind == "cuda" ? cudaVendor : hipVendor,
                         manifest.target, binaries, device.ordinal);
  artifact->loadPrograms();
  return artifact;
}

void Artifact::loadPrograms() {
  // A kernel may be launched several times; it is prepared for the most that
  // any launch needs.
  std::map<std::string, uint32_t> shared;
  for (const Program &program : manifest.programs)
    for (const Launch &launch : program.launches) {
      uint32_t &most = shared[launch.kernel];
      most = std::max(most, launch.shared);
    }
  std::map<std::string, void *> kernels;
  for (const auto &[name, bytes] : shared)
    kernels[name] = device ? device->getKernel(name, bytes) : nullptr;

  for (const Program &program : manifest.programs) {
    fp8moe_program entry;
    entry.artifact = this;
    entry.decl = &program;
    for (size_t index : program.inputs)
      entry.inputs.emplace_back(program.buffers[index]);
    for (size_t index : program.outputs)
      entry.outputs.emplace_back(program.buffers[index]);
    for (const Launch &launch : program.launches)
      entry.kernels.push_back(kernels[launch.kernel]);
    loaded.push_back(std::move(entry));
  }
}

const fp8moe_program &Artifact::findProgram(const std::string &name) const {
  std::string known;
  for (const fp8moe_program &program : loaded) {
    if (program.decl->name == name)
      return program;
    known += (known.empty() ? "'" : ", '") + program.decl->name + "'";
  }
  fail(FP8MOE_NOT_FOUND, "there is no program '", name, "'; the artifact has ",
       known.empty() ? "none" : known);
}
