//===- ManifestWriter.cpp - Programs as manifest.json ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The outer structure is indented, and every buffer, value and launch is one
// line, so that a manifest can be read and compared by people.
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Artifact/ManifestWriter.h"
#include "ProgramSerializer.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace mlir::fp8moe;

static constexpr int64_t schemaVersion = 1;

static constexpr StringRef producer =
    "fp8moe " FP8MOE_VERSION ", LLVM " LLVM_VERSION_STRING;

static std::string getChecksum(StringRef bytes) {
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format_hex_no_prefix(llvm::xxh3_64bits(bytes), /*Width=*/16);
  return text;
}

static void writeLines(llvm::json::OStream &json, StringRef key,
                       ArrayRef<std::string> lines) {
  json.attributeArray(key, [&] {
    for (const std::string &line : lines)
      json.rawValue(line);
  });
}

static void writeProgram(llvm::json::OStream &json,
                         const SerializedProgram &program) {
  json.object([&] {
    json.attribute("name", program.name);
    writeLines(json, "buffers", program.buffers);
    writeLines(json, "values", program.values);
    if (!program.requirements.empty())
      writeLines(json, "requires", program.requirements);
    if (!program.tensorMaps.empty())
      writeLines(json, "tensor_maps", program.tensorMaps);
    writeLines(json, "launches", program.launches);
  });
}

LogicalResult mlir::fp8moe::writeManifest(ModuleOp module,
                                          const TargetInfo &target,
                                          ArrayRef<ArtifactBinary> binaries,
                                          const llvm::json::Array &decisions,
                                          raw_ostream &os) {
  SmallVector<SerializedProgram> programs;
  for (auto program : module.getOps<plan::ProgramOp>())
    programs.push_back(serializeProgram(program));
  if (programs.empty())
    return module.emitError("there is no program to write: the module has no "
                            "public function with a body, or none that was "
                            "lowered for target ")
           << target.chip;

  llvm::VersionTuple minRuntime;
  for (const SerializedProgram &program : programs)
    minRuntime = std::max(minRuntime, program.minRuntime);

  llvm::json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("schema", schemaVersion);
    json.attribute("min_runtime", minRuntime.getAsString());
    json.attribute("producer", producer);
    json.attributeObject("target", [&] {
      json.attribute("chip", target.chip);
      json.attribute("kind", stringifyTargetKind(target.kind));
      json.attribute("fp8", stringifyFp8Flavour(target.fp8));
    });
    json.attributeArray("binaries", [&] {
      for (const ArtifactBinary &binary : binaries)
        json.object([&] {
          json.attribute("file", binary.file);
          json.attribute("format", binary.format);
          json.attribute("xxh3", getChecksum(binary.bytes));
        });
    });
    json.attributeArray("programs", [&] {
      for (const SerializedProgram &program : programs)
        writeProgram(json, program);
    });
    json.attributeArray("decisions", [&] {
      for (const llvm::json::Value &decision : decisions)
        json.value(decision);
    });
  });
  os << "\n";
  return success();
}
