//===- Ptxas.cpp - NVIDIA's assembler -------------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Artifact/Ptxas.h"
#include "Environment.h"
#include "fp8moe/Artifact/CodeEmission.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"

#include <chrono>
#include <csignal>
#include <thread>

using namespace mlir;
using namespace mlir::fp8moe;

/// A path that the user chose must work: falling back to another ptxas would
/// hide the mistake.
static FailureOr<std::optional<std::string>>
checkChosenPtxas(StringRef path, StringRef origin, Location loc) {
  if (!llvm::sys::fs::can_execute(path))
    return emitError(loc) << origin << " names '" << path
                          << "', which is not an executable file";
  return std::optional<std::string>(path.str());
}

FailureOr<std::optional<std::string>>
mlir::fp8moe::findPtxas(StringRef explicitPath, Location loc) {
  if (!explicitPath.empty())
    return checkChosenPtxas(explicitPath, "--ptxas", loc);
  if (std::optional<std::string> path = getEnvironment("FP8MOE_PTXAS"))
    return checkChosenPtxas(*path, "FP8MOE_PTXAS", loc);
  if (llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName("ptxas"))
    return std::optional<std::string>(*path);
  std::string home = getEnvironment("CUDA_HOME").value_or("/usr/local/cuda");
  if (llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName(
          "ptxas", {home + "/bin", "/usr/local/cuda/bin"}))
    return std::optional<std::string>(*path);
  return std::optional<std::string>();
}

SmallVector<KernelResources> mlir::fp8moe::parsePtxasResources(StringRef log) {
  static const llvm::Regex entry("Compiling entry function '([^']+)'");
  static const llvm::Regex function("Function properties for ([^ ]+)");
  static const llvm::Regex stack("([0-9]+) bytes stack frame, ([0-9]+) bytes "
                                 "spill stores, ([0-9]+) bytes spill loads");
  static const llvm::Regex usage("Used ([0-9]+) registers");
  static const llvm::Regex shared("([0-9]+) bytes smem");

  auto toInteger = [](StringRef digits) {
    int64_t value = 0;
    digits.getAsInteger(10, value);
    return value;
  };
  SmallVector<KernelResources> resources;
  SmallVector<StringRef> lines, match;
  log.split(lines, '\n');
  for (StringRef line : lines) {
    if (entry.match(line, &match)) {
      resources.emplace_back();
      resources.back().kernel = match[1].str();
      continue;
    }
    // Functions that are not inlined are described after the kernel that they
    // were compiled with, whose cost they are.
    if (resources.empty())
      continue;
    KernelResources &kernel = resources.back();
    if (stack.match(line, &match)) {
      kernel.stackBytes += toInteger(match[1]);
      kernel.spills += toInteger(match[2]) + toInteger(match[3]);
    }
    if (usage.match(line, &match))
      kernel.registers = std::max(kernel.registers, toInteger(match[1]));
    if (shared.match(line, &match))
      kernel.staticSharedBytes = toInteger(match[1]);
  }
  return resources;
}

SmallVector<StringRef> mlir::fp8moe::findPtxasComplaints(StringRef log) {
  static const llvm::Regex remark("\\(C75[0-9][0-9]\\)");
  SmallVector<StringRef> lines, complaints;
  log.split(lines, '\n');
  for (StringRef line : lines)
    if (line.contains("warning") || remark.match(line))
      complaints.push_back(line.trim());
  return complaints;
}

namespace {

/// Temporary files of ptxas.
struct PtxasFiles {
  TemporaryFile input, output, log;

  LogicalResult create(Location loc) {
    std::error_code error = input.create("ptx");
    if (!error)
      error = output.create("cubin");
    if (!error)
      error = log.create("log");
    return report(error, loc);
  }

  /// Writes the input of a run, and empties what it writes: programs that LLVM
  /// starts write over what the log has, and leave what is behind, and one that
  /// is not ptxas may write no output at all.
  LogicalResult prepare(StringRef ptx, Location loc) {
    std::error_code error = log.write("");
    if (!error)
      error = output.write("");
    if (!error)
      error = input.write(ptx);
    return report(error, loc);
  }

private:
  static LogicalResult report(std::error_code error, Location loc) {
    if (error)
      return emitError(loc)
             << "cannot create temporary files for ptxas: " << error.message();
    return success();
  }
};

} // namespace

static FailureOr<std::string> read(const TemporaryFile &file, Location loc) {
  llvm::ErrorOr<std::string> bytes = file.read();
  if (!bytes)
    return emitError(loc) << "cannot read " << file.path << ": "
                          << bytes.getError().message();
  return *bytes;
}

static LogicalResult verifyNoSpills(ArrayRef<KernelResources> resources,
                                    ModuleOp module) {
  for (const KernelResources &kernel : resources)
    if (kernel.spills)
      return findKernel(module, kernel.kernel)->emitError("kernel '")
             << kernel.kernel << "' does not fit its " << kernel.registers
             << " registers and spills " << kernel.spills
             << " bytes; choose a smaller tile or more threads";
  return success();
}

/// Seconds that ptxas may take; the largest kernels take it some.
static int64_t getMostSeconds() {
  int64_t seconds = 0;
  std::optional<std::string> given = getEnvironment("FP8MOE_PTXAS_SECONDS");
  if (given && !StringRef(*given).getAsInteger(10, seconds) && seconds > 0)
    return seconds;
  return 600;
}

/// Runs ptxas for at most getMostSeconds. LLVM's own limit sets an alarm of the
/// whole process, which belongs to whoever has loaded this library.
static int execute(ArrayRef<StringRef> arguments,
                   ArrayRef<std::optional<StringRef>> redirects,
                   std::string &message) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPause(2);
  bool hasFailed = false;
  llvm::sys::ProcessInfo process = llvm::sys::ExecuteNoWait(
      arguments.front(), arguments, std::nullopt, redirects, /*MemoryLimit=*/0,
      &message, &hasFailed);
  if (hasFailed)
    return -1;
  int64_t seconds = getMostSeconds();
  Clock::time_point end = Clock::now() + std::chrono::seconds(seconds);
  while (true) {
    llvm::sys::ProcessInfo ended =
        llvm::sys::Wait(process, /*SecondsToWait=*/0, &message);
    if (ended.Pid != 0)
      return ended.ReturnCode;
    if (Clock::now() < end) {
      std::this_thread::sleep_for(kPause);
      continue;
    }
    ::kill(process.Pid, SIGKILL);
    llvm::sys::Wait(process, std::nullopt);
    message = ("it has not ended after " + Twine(seconds) +
               " s, which FP8MOE_PTXAS_SECONDS sets")
                  .str();
    return -1;
  }
}

/// Whether ptxas can work on several kernels at once. Older ones refuse the
/// option, so it is looked up in their help, which `scratch` gets.
static bool canSplitCompile(StringRef ptxas, const TemporaryFile &scratch,
                            Location loc) {
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(scratch.path),
                                          StringRef(scratch.path)};
  std::string message;
  if (execute({ptxas, "--help"}, redirects, message) != 0)
    return false;
  FailureOr<std::string> help = read(scratch, loc);
  return succeeded(help) && StringRef(*help).contains("--split-compile");
}

bool mlir::fp8moe::leaveMoreRegisters(std::string &ptx,
                                      ArrayRef<KernelResources> resources) {
  bool hasChanged = false;
  for (const KernelResources &kernel : resources) {
    if (!kernel.spills)
      continue;
    // .entry NAME(...) .maxntid ... .minnctapersm N {
    size_t entry = ptx.find(".entry " + kernel.kernel + "(");
    size_t body = ptx.find('{', entry);
    constexpr StringLiteral kDirective = ".minnctapersm ";
    size_t number = ptx.find(kDirective.str(), entry);
    if (entry == std::string::npos || number >= body)
      continue;
    number += kDirective.size();
    size_t end = ptx.find_first_not_of("0123456789", number);
    int64_t blocks = 0;
    if (StringRef(ptx).slice(number, end).getAsInteger(10, blocks) ||
        blocks <= 1)
      continue;
    ptx.replace(number, end - number, std::to_string(blocks - 1));
    hasChanged = true;
  }
  return hasChanged;
}

namespace {
struct PtxasResult {
  std::string log, bytes;
};
} // namespace

static FailureOr<PtxasResult> runPtxas(StringRef ptxas, StringRef ptx,
                                       StringRef chip, bool splitsCompile,
                                       PtxasFiles &files, Location loc) {
  if (failed(files.prepare(ptx, loc)))
    return failure();
  // --fmad only concerns code outside of our kernels' .rn instructions; it is
  // given so that nothing is ever contracted.
  std::string archFlag = ("-arch=" + chip).str();
  SmallVector<StringRef> arguments = {
      ptxas, archFlag,         "-O3", "-v", "--fmad", "false", files.input.path,
      "-o",  files.output.path};
  // As many threads as there are processors: 0 gives the same bytes on every
  // machine, as the code does not depend on the number but ptxas records it.
  if (splitsCompile)
    arguments.append({"--split-compile", "0"});
  std::optional<StringRef> redirects[] = {
      StringRef(), StringRef(files.log.path), StringRef(files.log.path)};
  std::string message;
  int status = execute(arguments, redirects, message);
  FailureOr<std::string> log = read(files.log, loc);
  if (failed(log))
    return failure();
  if (status != 0)
    return emitError(loc) << "ptxas failed for " << chip << " (" << ptxas
                          << "): " << (message.empty() ? *log : message);
  FailureOr<std::string> bytes = read(files.output, loc);
  if (failed(bytes))
    return failure();
  if (!StringRef(*bytes).starts_with(llvm::ELF::ElfMagic))
    return emitError(loc) << ptxas << " ended without an error for " << chip
                          << ", but wrote no cubin; name NVIDIA's ptxas with "
                             "--ptxas or FP8MOE_PTXAS";
  return PtxasResult{std::move(*log), std::move(*bytes)};
}

/// Spills that ptxas does not tell of would be found by nobody.
static LogicalResult verifyAllDescribed(ArrayRef<KernelResources> resources,
                                        StringRef ptxas, ModuleOp module) {
  llvm::StringSet<> described;
  for (const KernelResources &kernel : resources)
    described.insert(kernel.kernel);
  WalkResult result = module.walk([&](LLVM::LLVMFuncOp function) {
    if (!function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()) ||
        described.contains(function.getName()))
      return WalkResult::advance();
    function.emitError("the log of ")
        << ptxas << " has no registers and spills of kernel '"
        << function.getName() << "'; use a ptxas of CUDA 12.8 to 13";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

FailureOr<Cubin> mlir::fp8moe::assemblePTX(StringRef ptxas, std::string &ptx,
                                           StringRef chip, ModuleOp module) {
  Location loc = module.getLoc();
  PtxasFiles files;
  if (failed(files.create(loc)))
    return failure();
  bool splitsCompile = canSplitCompile(ptxas, files.log, loc);
  auto run = [&] {
    return runPtxas(ptxas, ptx, chip, splitsCompile, files, loc);
  };
  FailureOr<PtxasResult> result = run();
  if (failed(result))
    return failure();
  Cubin cubin;
  cubin.resources = parsePtxasResources(result->log);
  // Each round takes a block from every multiprocessor.
  while (leaveMoreRegisters(ptx, cubin.resources)) {
    result = run();
    if (failed(result))
      return failure();
    cubin.resources = parsePtxasResources(result->log);
  }
  if (failed(verifyNoSpills(cubin.resources, module)))
    return failure();
  SmallVector<StringRef> complaints = findPtxasComplaints(result->log);
  if (!complaints.empty())
    return emitError(loc) << "ptxas accepted the kernels for " << chip
                          << ", but not without complaint: "
                          << llvm::join(complaints, "; ");
  if (failed(verifyAllDescribed(cubin.resources, ptxas, module)))
    return failure();
  cubin.bytes = std::move(result->bytes);
  return cubin;
}
