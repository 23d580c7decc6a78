//===- ArtifactReader.cpp - Manifests and binaries in the runtime ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Random.h"
#include "Readers.h"

#include "fp8moe-c/Runtime.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace fuzz;
using llvm::StringRef;

void fuzz::writeFile(const std::string &path, StringRef contents) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error)
    os << contents;
  os.close();
  if (error || os.has_error()) {
    os.clear_error();
    llvm::report_fatal_error(llvm::Twine("cannot write ") + path,
                             /*gen_crash_diag=*/false);
  }
}

/// A failure has a message, and is not the runtime's own.
static void expectMessage(StringRef function, Session &session) {
  StringRef message = fp8moe_last_error();
  if (fp8moe_last_status() == FP8MOE_INTERNAL_ERROR)
    session.report(("internal error of " + function).str(), message);
  if (message.empty())
    session.report(("no message of " + function).str(), "");
}

/// An extent that a caller might have for one that the manifest leaves open.
static int64_t drawExtent(Random &random) {
  static constexpr int64_t extents[] = {0,
                                        1,
                                        2,
                                        7,
                                        128,
                                        300,
                                        -1,
                                        int64_t(1) << 20,
                                        int64_t(1) << 31,
                                        int64_t(1) << 40,
                                        int64_t(1) << 62,
                                        INT64_MAX,
                                        INT64_MIN};
  return random.oneIn(2) ? random.below(1024) : random.pick(extents);
}

/// Resolves the program for one set of shapes and describes the call.
static void resolveProgram(const fp8moe_program *program, Random &random,
                           Session &session) {
  session.enter("resolve");
  std::vector<fp8moe_tensor> tensors;
  std::vector<std::vector<int64_t>> shapes, strides;
  size_t count = fp8moe_program_num_inputs(program);
  // Equal sizes are what most programs ask for.
  int64_t common = drawExtent(random);
  for (size_t i = 0; i < count; ++i) {
    const fp8moe_buffer *buffer = fp8moe_program_input(program, i);
    std::vector<int64_t> shape(buffer->shape, buffer->shape + buffer->rank);
    std::vector<int64_t> stride(buffer->strides,
                                buffer->strides + buffer->rank);
    for (int64_t &extent : shape)
      if (extent == FP8MOE_DYNAMIC || random.oneIn(64))
        extent = random.oneIn(8) ? drawExtent(random) : common;
    for (int64_t &entry : stride)
      if (entry == FP8MOE_DYNAMIC || random.oneIn(64))
        entry = random.oneIn(8) ? drawExtent(random) : common;
    shapes.push_back(std::move(shape));
    strides.push_back(std::move(stride));
    tensors.push_back({buffer->dtype, buffer->rank, shapes.back().data(),
                       random.oneIn(2) ? strides.back().data() : nullptr});
  }
  fp8moe_call *call = nullptr;
  if (fp8moe_program_resolve(program, tensors.data(),
                             count - (count && random.oneIn(32)),
                             &call) != FP8MOE_OK)
    return expectMessage("resolve", session);
  session.enter("describe");
  char *json = nullptr;
  if (fp8moe_call_describe(call, &json) != FP8MOE_OK)
    expectMessage("describe", session);
  fp8moe_string_free(json);
  (void)fp8moe_call_workspace_bytes(call);
  fp8moe_call_destroy(call);
}

Outcome fuzz::readArtifact(const std::string &folder, const std::string &device,
                           uint64_t seed, Session &session) {
  session.enter("load");
  fp8moe_artifact *artifact = nullptr;
  if (fp8moe_artifact_load(folder.c_str(), device.c_str(), &artifact) !=
      FP8MOE_OK) {
    expectMessage("load", session);
    return {};
  }
  Outcome outcome;
  outcome.accepted = true;
  Random random(seed, 0);
  size_t count = fp8moe_artifact_num_programs(artifact);
  for (size_t i = 0; i < count; ++i)
    for (unsigned shapes = 0; shapes < 3; ++shapes)
      resolveProgram(fp8moe_artifact_program(artifact, i), random, session);
  if (fp8moe_artifact_find_program(artifact, "no such program"))
    session.report("finds a program that is not there", "");
  session.enter("unload");
  fp8moe_artifact_unload(artifact);
  return outcome;
}

/// The artifact that the choice names, written for this worker; null when the
/// corpus has none of that name.
static const ArtifactSeed *layOut(StringRef name, const std::string &folder,
                                  Session &session) {
  const ArtifactSeed *seed = session.getCorpus().findArtifact(name);
  if (!seed || llvm::sys::fs::exists(folder))
    return seed;
  (void)llvm::sys::fs::create_directory(folder);
  writeFile(folder + "/manifest.json", seed->manifest);
  for (const auto &[file, bytes] : seed->files)
    writeFile(folder + "/" + file, bytes);
  return seed;
}

/// Choice: "DEVICE ARTIFACT SEED". Programs are not run: an artifact is code.
Outcome fuzz::readManifest(const Input &input, Session &session) {
  auto [device, rest] = StringRef(input.choice).split(' ');
  auto [name, seed] = rest.split(' ');
  std::string folder = session.getScratch() + "/" + name.str();
  if (!layOut(name, folder, session))
    return {};
  writeFile(folder + "/manifest.json", input.bytes);
  uint64_t number = 0;
  (void)seed.getAsInteger(10, number);
  return readArtifact(folder, device.str(), number, session);
}

/// Choice: "ARTIFACT FILE". Only the compiler's own bytes may be loaded.
Outcome fuzz::readBinary(const Input &input, Session &session) {
  auto [name, file] = StringRef(input.choice).split(' ');
  std::string folder = session.getScratch() + "/damaged-" + name.str();
  const ArtifactSeed *seed = layOut(name, folder, session);
  if (!seed)
    return {};
  writeFile(folder + "/" + file.str(), input.bytes);
  bool isWhole = llvm::any_of(seed->files, [&, file = file](const auto &entry) {
    return entry.first == file && entry.second == input.bytes;
  });
  session.enter("load");
  fp8moe_artifact *artifact = nullptr;
  Outcome outcome;
  outcome.accepted =
      fp8moe_artifact_load(folder.c_str(), "cpu", &artifact) == FP8MOE_OK;
  if (!outcome.accepted)
    expectMessage("load", session);
  fp8moe_artifact_unload(artifact);
  if (outcome.accepted != isWhole)
    session.report(isWhole ? "refuses a binary that is whole"
                           : "loads a binary that is damaged",
                   fp8moe_last_error());
  return outcome;
}
