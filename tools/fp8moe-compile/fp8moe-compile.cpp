//===- fp8moe-compile.cpp - IR to artifacts -------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../CommandLine.h"
#include "../Tools.h"
#include "fp8moe/Driver/Driver.h"

#include "fp8moe/InitAll.h"
#include "fp8moe/Kernels/Model/NominalSizes.h"
#include "fp8moe/Target/Suggestion.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/Timing.h"
#include "mlir/Support/ToolUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace mlir::fp8moe;
namespace cl = llvm::cl;
using tools::Integer, tools::List, tools::Option;

namespace {
enum class ReportFormat { None, Text, Json };

/// Parses one of several names. Any other name is an error that lists them.
template <typename T> struct NameParser : cl::parser<T> {
  using cl::parser<T>::parser;

  bool parse(cl::Option &option, StringRef, StringRef text, T &value) {
    std::vector<std::string> names;
    for (const auto &entry : this->Values) {
      if (entry.Name == text) {
        value = entry.V.getValue();
        return false;
      }
      if (!entry.Name.empty())
        names.push_back(entry.Name.str());
    }
    return option.error(describeUnknown("value", text, names));
  }
};

/// The options. They are made when the tool begins: in the Python package its
/// code is a part of a library, which registers none when it is loaded.
struct Options {
  Option<std::string> inputPath{cl::Positional, cl::init("-"),
                                cl::desc("<IR file, text or bytecode>")};
  Option<std::string> outputPath{
      "o", cl::value_desc("path"),
      cl::desc("The folder of the artifacts; with --emit a file, by default "
               "standard output (-)")};
  List<std::string> targets{
      "target", cl::value_desc("chip"), cl::CommaSeparated,
      cl::desc("Compile for this chip (may be repeated); by default what "
               "fp8moe.target on the module says")};
  Option<std::string> defaultTarget{
      "default-target", cl::value_desc("chip"),
      cl::desc(
          "Compile for this chip if neither --target nor the module says")};
  Option<const Stage *, NameParser<const Stage *>> stage{
      "emit", cl::value_desc("stage"),
      cl::desc("Write one stage of one target instead of an artifact:")};
  Option<ReportFormat, NameParser<ReportFormat>> reportFormat{
      "report",
      cl::ValueOptional,
      cl::init(ReportFormat::None),
      cl::value_desc("format"),
      cl::desc("Print bytes moved, kernels, files and time; decisions on "
               "layouts as remarks:"),
      cl::values(
          clEnumValN(ReportFormat::Text, "", ""),
          clEnumValN(ReportFormat::Text, "text", "for people (default)"),
          clEnumValN(ReportFormat::Json, "json",
                     "for programs (docs/users/python.md has the keys)"))};
  Option<std::string> card{
      "card", cl::value_desc("name"),
      cl::desc("With --report, predict times of this card (h200, h100, "
               "h100-pcie, gh200, h20); compiled code stays the same, and "
               "precision follows --precision-for")};
  Option<Integer<int64_t, 1, kMostModelledSize>> tokens{
      "tokens", cl::value_desc("N"), cl::init(kDefaultReportTokens),
      cl::desc(
          "Rows that an unknown number of them counts as when precision is "
          "decided; with --report, traffic is also given for this token count, "
          "but predicted times stay those of nominal sizes (default 16384)")};
  Option<std::string> rocmPath{
      "rocm-path", cl::value_desc("folder"),
      cl::desc("Where amdgcn/bitcode is (default: $ROCM_PATH, then the "
               "distribution's folders); only needed by kernels that call a "
               "device library")};
  Option<std::string> ptxasPath{
      "ptxas", cl::value_desc("file"),
      cl::desc("The ptxas that makes cubins (default: $FP8MOE_PTXAS, then "
               "PATH, $CUDA_HOME/bin, /usr/local/cuda/bin)")};
  Option<bool> optimizeLayouts{
      "optimize-layouts", cl::init(true),
      cl::desc("Remove copies that only change an order (default: true)")};
  Option<std::string> precisionRecipe{
      "precision-recipe", cl::value_desc("recipe"), cl::init("rowwise"),
      cl::desc("Scales of matmuls that become FP8: rowwise (default), "
               "tensorwise or mxfp8 (docs/users/precision.md)")};
  Option<std::string> precisionPolicy{
      "precision-policy", cl::value_desc("policy"), cl::init("cost"),
      cl::desc("Which undecided matmuls become FP8: cost (default: those that "
               "are predicted to gain), torchao, all or none")};
  List<std::string> precisionFilters{
      "precision-filter", cl::value_desc("text"), cl::CommaSeparated,
      cl::desc("Leave undecided matmuls in bf16 whose names have this in them "
               "(may be repeated)")};
  Option<std::string> precisionFor{
      "precision-for", cl::value_desc("chip"),
      cl::desc("Decide precision by the predicted times of this chip or card "
               "(default: the chip that is compiled for)")};
  Option<bool> sweepTiles{
      "sweep",
      cl::desc("Add a program for every tile that a quantization or a grouped "
               "matmul can have, to measure them (docs/reference/artifacts.md "
               "says how they are named)")};
  Option<Integer<int64_t>> delaySeed{
      "delay-warps", cl::value_desc("seed"),
      cl::desc("For tests of NVIDIA kernels: pause warps where others can "
               "observe it; each seed pauses other ones")};
  Option<bool> splitInput{
      "split-input-file",
      cl::desc("With --emit: compile each part between '// -----' by itself")};
  Option<bool> verifyDiagnostics{
      "verify-diagnostics",
      cl::desc(
          "With --emit: check the diagnostics against expected-* comments")};
  Option<bool> listTargets{"list-targets",
                           cl::desc("Print the known chips and exit")};

  /// The error in the options, or nothing.
  std::string check();
  DriverOptions getDriverOptions();
};
} // namespace

static constexpr llvm::StringLiteral kOverview =
    R"(compile fp8moe IR to artifacts

An artifact is a folder with a binary and the manifest.json that says how to launch
it; fp8moe-run and the runtime library execute it. Options of MLIR's tools, such as
--mlir-print-ir-after-all, --mlir-timing and --mlir-pass-pipeline-crash-reproducer,
are understood too (--help-hidden lists them).

Bytecode is trusted: MLIR's reader may crash when it is damaged. Text need not be.

Examples:
  fp8moe-compile model.mlir --target=sm_90a --target=gfx942 -o out --report
      out/sm_90a and out/gfx942, and what the compiler did
  fp8moe-compile model.mlir --target=sm_90a --emit=ptx
      PTX on standard output
  fp8moe-compile model.mlir --target=gfx950 --emit=tensor -o tensor.mlir
      the IR with all decisions, which can be edited and compiled again
  cat model.mlirbc | fp8moe-compile - -o out
      bytecode from standard input, for the target that the module names
)";

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "fp8moe-compile") << message << "\n";
  return 1;
}

static void printTargets() {
  for (const TargetInfo &target : knownTargets())
    llvm::outs() << llvm::formatv("{0,-10} {1}: {2}\n", target.chip,
                                  target.description,
                                  target.calibration->evidence);
}

std::string Options::check() {
  bool emits = stage != nullptr;
  std::vector<std::string> chips = targets;
  if (!defaultTarget.empty())
    chips.push_back(defaultTarget);
  for (const std::string &chip : chips)
    if (!lookupTarget(chip))
      return describeUnknownTarget(chip);
  if (!emits && outputPath.empty())
    return "nothing to do: give -o FOLDER for artifacts, or --emit=KIND";
  if (!emits && outputPath == "-")
    return "-o -: an artifact is a folder; --emit=KIND writes one file";
  if (!emits && (splitInput || verifyDiagnostics))
    return "--split-input-file and --verify-diagnostics need --emit, because "
           "an artifact is made of one module";
  bool reports = reportFormat != ReportFormat::None;
  if (emits && reports)
    return "--report describes artifacts; use it without --emit";
  if (delaySeed.getNumOccurrences() && emits &&
      (stage->kind == StageKind::Tensor || stage->kind == StageKind::Kernel))
    return "--delay-warps pauses lowered kernels, which --emit=tensor and "
           "--emit=kernel do not print; use --emit=mlir";
  if (!card.empty() && !lookupCard(card))
    return describeUnknownCard(card);
  if (!card.empty() && !reports)
    return "--card names the card whose times --report predicts; add --report";
  return "";
}

DriverOptions Options::getDriverOptions() {
  DriverOptions options;
  options.targets = targets;
  options.defaultTarget = defaultTarget;
  options.card = lookupCard(card);
  options.explain = reportFormat != ReportFormat::None;
  options.emission.rocmPath = rocmPath;
  options.emission.ptxasPath = ptxasPath;
  options.optimizeLayouts = optimizeLayouts;
  options.precision.recipe = precisionRecipe;
  options.precision.policy = precisionPolicy;
  llvm::append_range(options.precision.filterFqns, precisionFilters);
  options.precision.chip = precisionFor;
  if (tokens.getNumOccurrences())
    options.precision.tokens = tokens;
  options.sweepTiles = sweepTiles;
  if (delaySeed.getNumOccurrences())
    options.delaySeed = delaySeed;
  options.passManagerHook = applyPassManagerCLOptions;
  return options;
}

/// Begins a line about a file as a compiler does: "FILE: error: ...".
static raw_ostream &beginLine(DiagnosticSeverity severity, StringRef file) {
  using Begin = raw_ostream &(*)(raw_ostream &, StringRef, bool);
  // In the order of DiagnosticSeverity.
  constexpr Begin begins[] = {llvm::WithColor::note, llvm::WithColor::warning,
                              llvm::WithColor::error, llvm::WithColor::remark};
  return begins[static_cast<size_t>(severity)](llvm::errs(), file,
                                               /*DisableColors=*/false);
}

/// Prints a diagnostic about a file as a whole, whose location is line 0 and
/// column 0. Leaves others alone.
static LogicalResult printWithoutLine(Diagnostic &diagnostic) {
  auto loc = dyn_cast<FileLineColLoc>(diagnostic.getLocation());
  if (!loc || loc.getLine() != 0)
    return failure();
  StringRef file = loc.getFilename();
  beginLine(diagnostic.getSeverity(), file) << diagnostic << "\n";
  for (const Diagnostic &note : diagnostic.getNotes())
    beginLine(note.getSeverity(), file) << note << "\n";
  return success();
}

/// Parses one module and passes it to `action`. Diagnostics show the source
/// line, or are compared with expected-* comments.
static LogicalResult
processBuffer(std::unique_ptr<llvm::MemoryBuffer> buffer, Options &cli,
              const DialectRegistry &registry,
              function_ref<LogicalResult(ModuleOp)> action) {
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  MLIRContext context(registry);
  // The source line is more useful than the printed operation, which can be
  // long.
  auto &clOptions = cl::getRegisteredOptions();
  auto printOp = clOptions.find("mlir-print-op-on-diagnostic");
  if (printOp == clOptions.end() || !printOp->second->getNumOccurrences())
    context.printOpOnDiagnostic(false);

  auto parseAndRun = [&]() -> LogicalResult {
    OwningOpRef<ModuleOp> module = fp8moe::parseModule(sources, context);
    return module ? action(*module) : failure();
  };
  if (!cli.verifyDiagnostics) {
    SourceMgrDiagnosticHandler handler(*sources, &context);
    ScopedDiagnosticHandler first(&context, printWithoutLine);
    return parseAndRun();
  }
  SourceMgrDiagnosticVerifierHandler handler(*sources, &context);
  (void)parseAndRun();
  return handler.verify();
}

/// --emit: one output, possibly from several modules. It may be the file that
/// is read, so it is opened when everything has gone well.
static int runEmit(std::unique_ptr<llvm::MemoryBuffer> buffer, Options &cli,
                   const DialectRegistry &registry, Driver &driver) {
  std::string contents;
  llvm::raw_string_ostream os(contents);
  auto emitChunk = [&](std::unique_ptr<llvm::MemoryBuffer> chunk,
                       raw_ostream &os) {
    return processBuffer(std::move(chunk), cli, registry, [&](ModuleOp module) {
      return driver.emit(module, *cli.stage, os);
    });
  };
  StringRef marker = cli.splitInput ? kDefaultSplitMarker : "";
  if (failed(splitAndProcessBuffer(std::move(buffer), emitChunk, os, marker,
                                   marker)))
    return 1;
  std::string path = cli.outputPath.empty() ? "-" : cli.outputPath.getValue();
  std::string error;
  std::unique_ptr<llvm::ToolOutputFile> output = openOutputFile(path, &error);
  if (!output)
    return fail(error);
  output->os() << contents;
  output->os().flush();
  if (std::error_code code = output->os().error()) {
    // An uncleared error would end the program in the destructor.
    output->os().clear_error();
    return fail("cannot write " + path + ": " + code.message());
  }
  output->keep();
  return 0;
}

int tools::compileMain(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  registerAsmPrinterCLOptions();
  registerMLIRContextCLOptions();
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  static Options cli;
  cl::HideUnrelatedOptions(tools::getCategory());
  tools::setVersionPrinter("fp8moe-compile");
  for (const Stage &stage : knownStages())
    cli.stage.getParser().addLiteralOption(stage.name, &stage,
                                           stage.description);
  cl::ParseCommandLineOptions(argc, argv, kOverview);
  if (cli.listTargets) {
    printTargets();
    return 0;
  }
  if (std::string problem = cli.check(); !problem.empty())
    return fail(problem);

  DialectRegistry registry;
  fp8moe::registerAllDialects(registry);
  registerArtifactTranslations(registry);
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      openInputFile(cli.inputPath, &error);
  if (!buffer)
    return fail(error);
  DefaultTimingManager timingManager;
  applyDefaultTimingManagerCLOptions(timingManager);
  TimingScope timing = timingManager.getRootScope();
  Driver driver(cli.getDriverOptions());
  driver.enableTiming(timing);
  if (cli.stage)
    return runEmit(std::move(buffer), cli, registry, driver);

  Report report;
  report.tokens = cli.tokens;
  if (failed(
          processBuffer(std::move(buffer), cli, registry, [&](ModuleOp module) {
            return driver.writeArtifacts(module, cli.outputPath, report);
          })))
    return 1;
  if (cli.reportFormat == ReportFormat::Text)
    report.print(llvm::outs());
  if (cli.reportFormat == ReportFormat::Json)
    llvm::outs() << llvm::formatv("{0:2}\n", report.toJson());
  return 0;
}
