//===- CAPI.cpp - The C API of the runtime --------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Call.h"
#include "Error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

using namespace fp8moe::runtime;

struct fp8moe_artifact {
  std::shared_ptr<const Artifact> artifact;
};

namespace {

thread_local std::string lastError;
thread_local fp8moe_status lastStatus = FP8MOE_OK;

fp8moe_status setError(fp8moe_status status, const char *message) noexcept {
  lastStatus = status;
  try {
    lastError = message;
  } catch (const std::bad_alloc &) {
    lastError.clear();
  }
  return status;
}

/// Runs the body of an API function; no exception leaves it.
template <typename Body> fp8moe_status guard(Body body) noexcept {
  try {
    body();
    return FP8MOE_OK;
  } catch (const Error &error) {
    return setError(error.status(), error.what());
  } catch (const std::bad_alloc &) {
    return setError(FP8MOE_OUT_OF_MEMORY, "the host is out of memory");
  } catch (const std::exception &error) {
    return setError(FP8MOE_INTERNAL_ERROR, error.what());
  } catch (...) {
    return setError(FP8MOE_INTERNAL_ERROR, "unknown exception");
  }
}

/// The result of `body`, or `otherwise` with an error.
template <typename T, typename Body> T getOr(T otherwise, Body body) noexcept {
  guard([&] { otherwise = body(); });
  return otherwise;
}

template <typename T> T &deref(T *pointer, const char *what) {
  if (!pointer)
    fail(FP8MOE_INVALID_ARGUMENT, what, " is null");
  return *pointer;
}

/// An element of `infos`, or null with an error.
template <typename Owner>
const fp8moe_buffer *getBuffer(const Owner *owner,
                               std::vector<BufferInfo> Owner::*infos,
                               size_t index, const char *what) noexcept {
  return getOr<const fp8moe_buffer *>(nullptr, [&] {
    const auto &all = deref(owner, "the handle").*infos;
    if (index >= all.size())
      fail(FP8MOE_INVALID_ARGUMENT, "there is no ", what, " ", index,
           ", the program has ", all.size());
    return &all[index].get();
  });
}

} // namespace

const char *fp8moe_runtime_version(void) { return FP8MOE_VERSION; }
int32_t fp8moe_runtime_abi(void) { return FP8MOE_RUNTIME_ABI; }
const char *fp8moe_last_error(void) { return lastError.c_str(); }
fp8moe_status fp8moe_last_status(void) { return lastStatus; }

fp8moe_status fp8moe_artifact_load(const char *path, const char *device,
                                   fp8moe_artifact **artifact) {
  return guard([&] {
    fp8moe_artifact *&result = deref(artifact, "'artifact'");
    result = nullptr;
    result = new fp8moe_artifact{Artifact::loadFolder(
        &deref(path, "'path'"), &deref(device, "'device'"))};
  });
}

fp8moe_status fp8moe_artifact_load_files(const fp8moe_file *files,
                                         size_t num_files, const char *device,
                                         fp8moe_artifact **artifact) {
  return guard([&] {
    fp8moe_artifact *&result = deref(artifact, "'artifact'");
    result = nullptr;
    const fp8moe_file *first = &deref(files, "'files'");
    auto read = [&](const std::string &name, int64_t maxBytes) -> ArtifactFile {
      for (const fp8moe_file *file = first; file != first + num_files; ++file) {
        if (name != &deref(file->name, "the name of a file"))
          continue;
        if (file->bytes > uint64_t(maxBytes))
          fail(FP8MOE_INVALID_ARTIFACT, name, " has ", file->bytes,
               " bytes, more than the ", maxBytes, " allowed");
        const auto *data = static_cast<const char *>(file->data);
        if (file->bytes)
          deref(data, "the data of a file");
        return {name, std::string(data, data + file->bytes)};
      }
      fail(FP8MOE_NOT_FOUND, "there is no file '", name, "' among the ",
           num_files, " of the artifact");
    };
    result =
        new fp8moe_artifact{Artifact::load(read, &deref(device, "'device'"))};
  });
}

void fp8moe_artifact_unload(fp8moe_artifact *artifact) { delete artifact; }

const char *fp8moe_artifact_chip(const fp8moe_artifact *artifact) {
  return artifact ? artifact->artifact->target().chip.c_str() : "";
}

const char *fp8moe_artifact_binary(const fp8moe_artifact *artifact) {
  if (!artifact || !artifact->artifact->backend())
    return "";
  return artifact->artifact->backend()->binaryFile().c_str();
}

size_t fp8moe_artifact_num_programs(const fp8moe_artifact *artifact) {
  return artifact ? artifact->artifact->programs().size() : 0;
}

const fp8moe_program *fp8moe_artifact_program(const fp8moe_artifact *artifact,
                                              size_t index) {
  return getOr<const fp8moe_program *>(nullptr, [&] {
    const auto &programs = deref(artifact, "'artifact'").artifact->programs();
    if (index >= programs.size())
      fail(FP8MOE_NOT_FOUND, "there is no program ", index,
           ", the artifact has ", programs.size());
    return &programs[index];
  });
}

const fp8moe_program *
fp8moe_artifact_find_program(const fp8moe_artifact *artifact,
                             const char *name) {
  return getOr<const fp8moe_program *>(nullptr, [&] {
    return &deref(artifact, "'artifact'")
                .artifact->findProgram(&deref(name, "'name'"));
  });
}

const char *fp8moe_program_name(const fp8moe_program *program) {
  return program ? program->decl->name.c_str() : "";
}

int64_t fp8moe_program_output_may_overwrite(const fp8moe_program *program,
                                            size_t output) {
  return getOr<int64_t>(-1, [&] {
    const Program &decl = *deref(program, "'program'").decl;
    if (output >= decl.outputs.size())
      fail(FP8MOE_INVALID_ARGUMENT, "there is no output ", output,
           ", the program has ", decl.outputs.size());
    const Buffer &buffer = decl.buffers[decl.outputs[output]];
    if (!buffer.mayOverwrite)
      return int64_t(-1);
    return int64_t(std::find(decl.inputs.begin(), decl.inputs.end(),
                             *buffer.mayOverwrite) -
                   decl.inputs.begin());
  });
}

size_t fp8moe_program_num_inputs(const fp8moe_program *program) {
  return program ? program->inputs.size() : 0;
}

size_t fp8moe_program_num_outputs(const fp8moe_program *program) {
  return program ? program->outputs.size() : 0;
}

const fp8moe_buffer *fp8moe_program_input(const fp8moe_program *program,
                                          size_t index) {
  return getBuffer(program, &fp8moe_program::inputs, index, "input");
}

const fp8moe_buffer *fp8moe_program_output(const fp8moe_program *program,
                                           size_t index) {
  return getBuffer(program, &fp8moe_program::outputs, index, "output");
}

fp8moe_status fp8moe_program_resolve(const fp8moe_program *program,
                                     const fp8moe_tensor *inputs,
                                     size_t numInputs, fp8moe_call **call) {
  return guard([&] {
    fp8moe_call *&result = deref(call, "'call'");
    result = nullptr;
    result = new fp8moe_call(deref(program, "'program'"), inputs, numInputs);
  });
}

const fp8moe_buffer *fp8moe_call_input(const fp8moe_call *call, size_t index) {
  return getBuffer(call, &fp8moe_call::inputs, index, "input");
}

const fp8moe_buffer *fp8moe_call_output(const fp8moe_call *call, size_t index) {
  return getBuffer(call, &fp8moe_call::outputs, index, "output");
}

uint64_t fp8moe_call_workspace_bytes(const fp8moe_call *call) {
  return call ? call->workspaceBytes : 0;
}

uint64_t fp8moe_call_workspace_align(const fp8moe_call *call) {
  return call ? call->workspaceAlign : 1;
}

fp8moe_status fp8moe_call_run(const fp8moe_call *call,
                              const void *const *inputs, void *const *outputs,
                              void *workspace, uint64_t workspaceBytes,
                              void *stream) {
  return guard([&] {
    deref(call, "'call'")
        .run(inputs, outputs, workspace, workspaceBytes, stream);
  });
}

fp8moe_status fp8moe_call_run_block(const fp8moe_run_block *block,
                                    size_t size) {
  return guard([&] {
    const fp8moe_call &call = deref(deref(block, "'block'").call, "'call'");
    size_t numInputs = call.inputs.size(), numOutputs = call.outputs.size();
    size_t expected =
        sizeof(*block) + (numInputs + numOutputs) * sizeof(void *);
    if (size != expected)
      fail(FP8MOE_INVALID_ARGUMENT, "the block has ", size, " bytes, expected ",
           expected, " for ", numInputs, " inputs and ", numOutputs,
           " outputs");
    auto *pointers = reinterpret_cast<void *const *>(block + 1);
    call.run(pointers, pointers + numInputs, block->workspace,
             block->workspace_bytes, block->stream);
  });
}

fp8moe_status fp8moe_call_describe(const fp8moe_call *call, char **json) {
  return guard([&] {
    char *&result = deref(json, "'json'");
    result = nullptr;
    std::string text = deref(call, "'call'").describe();
    char *copy = static_cast<char *>(std::malloc(text.size() + 1));
    if (!copy)
      throw std::bad_alloc();
    result =
        static_cast<char *>(std::memcpy(copy, text.c_str(), text.size() + 1));
  });
}

void fp8moe_string_free(char *string) { std::free(string); }

void fp8moe_call_destroy(fp8moe_call *call) { delete call; }
