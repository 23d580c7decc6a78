//===- Report.cpp - Reports of compilations as text -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Driver/Report.h"

#include "fp8moe/Kernels/Model/NominalSizes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8moe;
using llvm::formatv;

std::vector<ProgramTraffic> fp8moe::collectTraffic(ModuleOp module) {
  std::vector<ProgramTraffic> programs;
  for (auto func : module.getOps<func::FuncOp>())
    if (func.isPublic() && !func.isExternal())
      programs.push_back({func.getSymName().str(), getTraffic(func)});
  return programs;
}

/// "line 12", or nothing when the line is not known.
static std::string describeLine(std::optional<unsigned> line) {
  return line ? formatv("line {0}", *line).str() : std::string();
}

static void printTraffic(llvm::raw_ostream &os, StringRef title,
                         const ProgramTraffic &program, int64_t tokens) {
  auto printRow = [&](StringRef name, StringRef line, const Bytes &bytes) {
    std::optional<double> value = bytes.at(tokens);
    os << formatv("    {0,-34} {1,-9} {2,-30} {3,10} MiB\n", name, line,
                  bytes.describe(),
                  value ? formatv("{0:f1}", *value / (1 << 20)).str() : "?");
  };
  os << formatv("  {0,-46} {1,-30} {2,14}\n", title, "bytes moved",
                formatv("{0} tokens", tokens).str());
  Bytes total;
  for (const OpTraffic &op : program.ops) {
    printRow(op.name, describeLine(op.line), op.bytes);
    total += op.bytes;
  }
  printRow("total", "", total);
}

/// Prints how many of the copies that the programs have as written are left.
static void printCopies(llvm::raw_ostream &os,
                        ArrayRef<ProgramTraffic> asWritten,
                        ArrayRef<ProgramTraffic> after) {
  auto count = [](ArrayRef<ProgramTraffic> programs) {
    int64_t copies = 0;
    for (const ProgramTraffic &program : programs)
      copies += llvm::count_if(program.ops,
                               [](const OpTraffic &op) { return op.isCopy; });
    return copies;
  };
  os << formatv("  copies: {0} as written, {1} left\n", count(asWritten),
                count(after));
}

/// Microseconds, or a dash.
static std::string describeTime(std::optional<int64_t> nanoseconds) {
  return nanoseconds
             ? formatv("{0:f1} us", static_cast<double>(*nanoseconds) / 1e3)
                   .str()
             : "-";
}

static void printDecision(llvm::raw_ostream &os,
                          const KernelDecision &decision) {
  os << formatv("    {0,-34} {1,-22} {2,13} {3,13}\n", decision.op,
                describeLine(decision.line),
                describeTime(decision.predictedTime),
                describeTime(decision.leastTime));
  os << "      " << llvm::join(decision.reads, ", ") << " -> "
     << llvm::join(decision.writes, ", ") << "\n";
  for (StringRef tile : decision.tiles)
    os << "      tile " << tile << "\n";
  os << "      " << decision.reason << "\n";
}

/// Prints the sums of a program's times, if all are predicted for as many
/// tokens.
static void printTimes(llvm::raw_ostream &os,
                       ArrayRef<KernelDecision> decisions) {
  int64_t predicted = 0, least = 0;
  std::optional<int64_t> tokens;
  for (const KernelDecision &decision : decisions) {
    if (decision.tokens && !tokens)
      tokens = decision.tokens;
    bool isAlike = !decision.tokens || decision.tokens == tokens;
    if (!decision.predictedTime || !decision.leastTime || !isAlike)
      return;
    predicted += *decision.predictedTime;
    least += *decision.leastTime;
  }
  os << formatv("    {0,-57} {1,13} {2,13}  {3:P0} of predicted\n",
                "program " + decisions.front().program, describeTime(predicted),
                describeTime(least), static_cast<double>(least) / predicted);
}

static void printDecisions(llvm::raw_ostream &os,
                           ArrayRef<KernelDecision> decisions) {
  if (decisions.empty())
    return;
  StringRef title = "kernel, layouts and tiles";
  if (llvm::any_of(decisions, [](const KernelDecision &decision) {
        return decision.predictedTime.has_value();
      }))
    os << formatv("  {0,-59} {1,13} {2,13}\n",
                  formatv("{0} ({1} tokens and {2} groups where not known)",
                          title, kNominalTokens, kNominalSegments)
                      .str(),
                  "predicted", "least");
  else
    os << "  " << title << "\n";
  while (!decisions.empty()) {
    ArrayRef<KernelDecision> ofProgram =
        decisions.take_while([&](const KernelDecision &decision) {
          return decision.program == decisions.front().program;
        });
    for (const KernelDecision &decision : ofProgram)
      printDecision(os, decision);
    printTimes(os, ofProgram);
    decisions = decisions.drop_front(ofProgram.size());
  }
}

static void printMainLoop(llvm::raw_ostream &os, const InstructionMix &mix) {
  os << formatv(
      "      main loop: {0} of {1} instructions are MFMA ({2:P0}); {3} "
      "vector, {4} scalar, {5} shared memory, {6} memory\n",
      mix.matrix, mix.getTotal(),
      static_cast<double>(mix.matrix) / mix.getTotal(), mix.vector, mix.scalar,
      mix.shared, mix.memory);
}

static void printKernels(llvm::raw_ostream &os, ArrayRef<KernelReport> kernels,
                         bool isAMD) {
  size_t width = 34;
  for (const KernelReport &kernel : kernels)
    width = std::max(width, kernel.name.size());
  auto pad = [](StringRef name, size_t width) {
    return llvm::left_justify(name, width);
  };
  constexpr StringLiteral columns = " {0,8} {1,12} {2,9} {3,8} {4,8} {5,9}\n";
  os << pad("  kernel", width + 4)
     << formatv(columns.data(), "launches", "block", "registers", "shared",
                "spills", "resident");
  for (const KernelReport &kernel : kernels) {
    const std::optional<KernelResources> &resources = kernel.resources;
    std::string registers = "-", spills = "-";
    if (resources) {
      registers = std::to_string(resources->registers);
      spills = std::to_string(resources->spills);
    }
    std::string resident =
        kernel.residentBlocks ? std::to_string(*kernel.residentBlocks) : "-";
    std::string launches = std::to_string(kernel.launches);
    if (kernel.conditionalLaunches)
      launches = std::to_string(kernel.launches - kernel.conditionalLaunches) +
                 "-" + launches;
    os << "    " << pad(kernel.name, width)
       << formatv(columns.data(), launches, kernel.block, registers,
                  kernel.sharedMemory, spills, resident);
    if (!resources || !isAMD)
      continue;
    os << formatv("      {0} of the registers are AGPRs; {1} SGPRs, and {2} "
                  "more in lanes of registers\n",
                  resources->accumulationRegisters, resources->scalarRegisters,
                  resources->laneSpills);
    if (resources->mainLoop)
      printMainLoop(os, *resources->mainLoop);
  }
}

void Report::print(llvm::raw_ostream &os) const {
  for (const ProgramTraffic &program : asWritten) {
    os << "program " << program.name << "\n";
    printTraffic(os, "as written", program, tokens);
    os << "\n";
  }
  for (const TargetReport &report : targets) {
    os << "target " << report.target->chip << " (" << report.target->description
       << ")\n";
    os << "  " << report.target->calibration->evidence << "\n";
    for (const ProgramTraffic &program : report.programs)
      printTraffic(os,
                   formatv("{0} after the tensor passes", program.name).str(),
                   program, tokens);
    printCopies(os, asWritten, report.programs);
    printPrecision(os, report.precision);
    printDecisions(os, report.decisions);
    printKernels(os, report.kernels, report.target->kind == TargetKind::ROCDL);
    os << formatv("  {0,-46} {1,10}\n", "file", "bytes");
    for (const auto &[path, bytes] : report.files)
      os << formatv("    {0,-44} {1,10}\n", path, bytes);
    os << formatv("  compiled in {0:f2} s\n\n", report.seconds);
  }
}
