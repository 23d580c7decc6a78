//===- Target.cpp - Common parts of fuzz targets --------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target.h"

#include "fp8moe-c/Runtime.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <vector>

using namespace fuzz;
using llvm::StringRef;

/// The options of cmake/Sanitizers.cmake, plus a separate stack for reports of
/// stack overflows. No other thread ends in this process.
extern "C" const char *__asan_default_options() {
  return FP8MOE_ASAN_OPTIONS ":use_sigaltstack=1";
}

void fuzz::reportBroken(const llvm::Twine &promise, StringRef details) {
  llvm::errs() << "BROKEN PROMISE: " << promise << "\n" << details << "\n";
  abort();
}

StringRef fuzz::getInput(const uint8_t *data, size_t size) {
  static const char *planted = getenv("FP8MOE_FUZZ_PLANTED_DEFECT");
  StringRef input = toText(data, size);
  if (planted && input.contains(planted))
    reportBroken("planted defect", planted);
  return input;
}

const std::string &fuzz::getScratch() {
  static const struct Folder {
    Folder() {
      llvm::SmallString<64> created;
      if (llvm::sys::fs::createUniqueDirectory("fp8moe-fuzzer", created))
        llvm::report_fatal_error("cannot create a temporary folder");
      path = created.str().str();
    }
    ~Folder() { llvm::sys::fs::remove_directories(path); }
    std::string path;
  } folder;
  return folder.path;
}

void fuzz::writeFile(const std::string &path, StringRef contents) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error)
    llvm::report_fatal_error(llvm::Twine("cannot write ") + path);
  os << contents;
}

//===----------------------------------------------------------------------===//
// Artifacts
//===----------------------------------------------------------------------===//

/// A failure has a message, and is not the runtime's own.
static void expectMessage(const char *function) {
  if (fp8moe_last_status() == FP8MOE_INTERNAL_ERROR)
    reportBroken(llvm::Twine("internal error of ") + function,
                 fp8moe_last_error());
  if (!*fp8moe_last_error())
    reportBroken(llvm::Twine("no message of ") + function);
}

/// An extent that a caller might have for one that the manifest leaves open.
static int64_t drawExtent(Random &random) {
  static constexpr int64_t extents[] = {
      0,       1,         2,         7,         128,       300,      -1,
      1 << 20, 1ll << 31, 1ll << 40, 1ll << 62, INT64_MAX, INT64_MIN};
  return random.oneIn(2) ? random.below(1024) : random.pick(extents);
}

/// `count` extents or strides. Most programs ask for equal sizes.
static std::vector<int64_t> drawSizes(const int64_t *sizes, int32_t count,
                                      int64_t common, Random &random) {
  std::vector<int64_t> drawn(sizes, sizes + count);
  for (int64_t &size : drawn)
    if (size == FP8MOE_DYNAMIC || random.oneIn(64))
      size = random.oneIn(8) ? drawExtent(random) : common;
  return drawn;
}

/// Resolves the program for one set of shapes and describes the call.
static void resolveProgram(const fp8moe_program *program, Random &random) {
  size_t count = fp8moe_program_num_inputs(program);
  std::vector<fp8moe_tensor> tensors;
  std::vector<std::vector<int64_t>> sizes;
  int64_t common = drawExtent(random);
  for (size_t i = 0; i < count; ++i) {
    const fp8moe_buffer &buffer = *fp8moe_program_input(program, i);
    auto draw = [&](const int64_t *from) {
      sizes.push_back(drawSizes(from, buffer.rank, common, random));
      return sizes.back().data();
    };
    const int64_t *shape = draw(buffer.shape);
    const int64_t *strides = random.oneIn(2) ? draw(buffer.strides) : nullptr;
    tensors.push_back({buffer.dtype, buffer.rank, shape, strides});
  }
  if (count && random.oneIn(32))
    --count;
  fp8moe_call *call = nullptr;
  if (fp8moe_program_resolve(program, tensors.data(), count, &call))
    return expectMessage("resolve");
  char *json = nullptr;
  if (fp8moe_call_describe(call, &json))
    expectMessage("describe");
  fp8moe_string_free(json);
  (void)fp8moe_call_workspace_bytes(call);
  fp8moe_call_destroy(call);
}

bool fuzz::readArtifact(const std::string &folder, const char *device,
                        uint64_t seed) {
  fp8moe_artifact *artifact = nullptr;
  if (fp8moe_artifact_load(folder.c_str(), device, &artifact)) {
    expectMessage("load");
    return false;
  }
  Random random(seed);
  for (size_t i = 0; i < fp8moe_artifact_num_programs(artifact); ++i)
    for (unsigned repeat = 0; repeat < 3; ++repeat)
      resolveProgram(fp8moe_artifact_program(artifact, i), random);
  if (fp8moe_artifact_find_program(artifact, "no such program"))
    reportBroken("a program is found that is not there");
  fp8moe_artifact_unload(artifact);
  return true;
}
