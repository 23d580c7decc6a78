//===- ReportJson.cpp - Reports of compilations as JSON -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Driver/Report.h"

using namespace mlir;
using namespace mlir::fp8moe;
namespace json = llvm::json;

static json::Array toJson(ArrayRef<ProgramTraffic> programs, int64_t tokens) {
  json::Array result;
  for (const ProgramTraffic &program : programs) {
    json::Array ops;
    for (const OpTraffic &op : program.ops) {
      json::Object object{{"op", op.name},
                          {"bytes", op.bytes.describe()},
                          {"is_copy", op.isCopy}};
      if (op.line)
        object["line"] = *op.line;
      if (std::optional<double> bytes = op.bytes.at(tokens))
        object["bytes_for_tokens"] = *bytes;
      ops.push_back(std::move(object));
    }
    result.push_back(json::Object{{"name", json::fixUTF8(program.name)},
                                  {"ops", std::move(ops)}});
  }
  return result;
}

static json::Array toJson(ArrayRef<LayoutRemark> remarks) {
  json::Array result;
  for (const LayoutRemark &remark : remarks) {
    json::Object object{{"name", remark.name},
                        {"done", remark.isDone},
                        {"text", json::fixUTF8(remark.text)}};
    if (remark.line)
      object["line"] = *remark.line;
    result.push_back(std::move(object));
  }
  return result;
}

/// The speeds that predicted times rest on; none of a chip without matrix
/// instructions, such as the CPU.
static json::Object toJson(const Calibration &calibration) {
  if (*calibration.fp8TFlops == 0)
    return {};
  return json::Object{{"fp8_tflops", *calibration.fp8TFlops},
                      {"bf16_tflops", *calibration.bf16TFlops},
                      {"copy_gb_per_s", *calibration.copyBandwidth}};
}

static json::Object toJson(const InstructionMix &mix) {
  return json::Object{{"matrix", mix.matrix},
                      {"vector", mix.vector},
                      {"scalar", mix.scalar},
                      {"shared", mix.shared},
                      {"memory", mix.memory}};
}

static json::Array toJson(ArrayRef<KernelReport> kernels, bool isAMD) {
  json::Array result;
  for (const KernelReport &kernel : kernels) {
    json::Object object{{"name", json::fixUTF8(kernel.name)},
                        {"launches", kernel.launches},
                        {"conditional_launches", kernel.conditionalLaunches},
                        {"block", kernel.block},
                        {"shared_memory", kernel.sharedMemory}};
    if (kernel.residentBlocks)
      object["resident_blocks"] = *kernel.residentBlocks;
    if (const std::optional<KernelResources> &resources = kernel.resources) {
      object["registers"] = resources->registers;
      object["spills"] = resources->spills;
      if (isAMD) {
        object["accumulation_registers"] = resources->accumulationRegisters;
        object["scalar_registers"] = resources->scalarRegisters;
        object["lane_spills"] = resources->laneSpills;
      }
      if (resources->mainLoop)
        object["main_loop"] = toJson(*resources->mainLoop);
    }
    result.push_back(std::move(object));
  }
  return result;
}

json::Value Report::toJson() const {
  json::Array targetObjects;
  for (const TargetReport &report : targets) {
    json::Array files;
    for (const auto &[path, bytes] : report.files)
      files.push_back(
          json::Object{{"path", json::fixUTF8(path)}, {"bytes", bytes}});
    targetObjects.push_back(json::Object{
        {"chip", report.target->chip},
        {"description", report.target->description},
        {"evidence", report.target->calibration->evidence},
        {"peaks", ::toJson(*report.target->calibration)},
        {"programs", ::toJson(report.programs, tokens)},
        {"remarks", ::toJson(report.remarks)},
        {"precision", serializePrecision(report.precision)},
        {"decisions", serializeDecisions(report.decisions)},
        {"kernels",
         ::toJson(report.kernels, report.target->kind == TargetKind::ROCDL)},
        {"files", std::move(files)},
        {"seconds", report.seconds}});
  }
  return json::Object{{"tokens", tokens},
                      {"as_written", ::toJson(asWritten, tokens)},
                      {"targets", std::move(targetObjects)}};
}
