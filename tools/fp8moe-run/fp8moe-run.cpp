//===- fp8moe-run.cpp - Runs a program of an artifact ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../CommandLine.h"
#include "Run.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/WithColor.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>

using namespace fp8moe::run;
namespace cl = llvm::cl;
namespace fs = llvm::sys::fs;
using tools::Integer, tools::List, tools::Option;

static Option<std::string> inputPath(cl::Positional, cl::Required,
                                     cl::desc("<IR file or artifact folder>"));
static Option<std::string> programName(
    "program", cl::value_desc("name"),
    cl::desc("The program to run; may be left out when there is only one"));
static Option<std::string> inputsPath(
    "inputs", cl::value_desc("file"),
    cl::desc("Read the inputs, by name, from this safetensors file"));
static Option<std::string>
    outputsPath("outputs", cl::value_desc("file"),
                cl::desc("Write the outputs to this safetensors file"));
static Option<Integer<uint64_t>>
    randomSeed("random", cl::value_desc("seed"),
               cl::desc("Make random inputs; 32-bit integers are ends of "
                        "groups. With --inputs: those that the file lacks"));
static Option<Integer<int64_t, 0>> tokens(
    "tokens", cl::value_desc("N"),
    cl::desc("With --random: the extent of every dimension that the program "
             "leaves open; where groups are padded, the rows of all groups"));
static List<std::string>
    shapes("shape", cl::value_desc("NAME=AxB"),
           cl::desc("With --random: the shape of one input"));
static Option<std::string> saveInputs(
    "save-inputs", cl::value_desc("file"),
    cl::desc("Write the inputs that were used to this safetensors file"));
static Option<std::string>
    device("device", cl::value_desc("cpu|cuda:N|hip:N"), cl::init("cpu"),
           cl::desc("Where to run an artifact (default: cpu)"));
static Option<std::string> target(
    "target", cl::value_desc("chip"),
    cl::desc(
        "Compile IR for this chip (default: what the module says, else cpu)"));
static Option<Integer<unsigned, 1>>
    repeat("repeat", cl::value_desc("N"), cl::init(1),
           cl::desc("Run N times and report the shortest time"));
static Option<bool> describe(
    "describe",
    cl::desc(
        "Do not run: print the buffers and launches for these inputs as JSON"));

static constexpr llvm::StringLiteral kOverview = R"(run a program of an artifact

Takes an artifact folder that fp8moe-compile wrote, or IR, which the fp8moe-compile
beside this tool or in PATH compiles first. Tensors are read and written as safetensors, dense and row-major, whatever
layouts the program uses in memory; only scales in blocks (#fp8moe.scale_blocked) are their bytes as they lie, of rank 1.

Examples:
  fp8moe-run out/cpu --random=1 --tokens=5000 --outputs=out.safetensors
      random inputs with 5000 rows in random groups
  fp8moe-run model.mlir --program=forward --inputs=in.safetensors --outputs=out.safetensors
      compile for the CPU and run on the tensors of a file
  fp8moe-run model.mlir --inputs=offsets.safetensors --random=1 --tokens=5000
      the same on those that the file has, and random ones
  fp8moe-run out/sm_90a --device=cuda:0 --random=1 --tokens=5000 --repeat=20
      run on the first NVIDIA GPU and report the shortest of 20 times
  fp8moe-run model.mlir --target=sm_90a --device=cuda:0 --random=1 --tokens=5000
      compile for it and run
  fp8moe-run out/gfx942 --random=1 --shape grad=4096x2048 --describe
      print the launches as JSON, without a GPU
)";

void fp8moe::run::fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "fp8moe-run") << message << "\n";
  exit(1);
}

/// Parses "grad=4096x2048", or "scale=" for a tensor of rank 0.
static void parseShape(llvm::StringRef text, RandomOptions &options) {
  auto [name, extents] = text.split('=');
  llvm::SmallVector<llvm::StringRef> parts;
  if (!extents.empty())
    extents.split(parts, 'x');
  llvm::SmallVector<int64_t> shape;
  bool isValid = text.contains('=');
  for (llvm::StringRef part : parts)
    isValid &=
        !part.getAsInteger(10, shape.emplace_back()) && shape.back() >= 0;
  if (!isValid)
    fail("--shape: '" + text +
         "' is not of the form NAME=AxB, for example grad=4096x2048");
  if (name.empty())
    fail("--shape: '" + text + "' names no input");
  if (!options.shapes.try_emplace(name, shape).second)
    fail("--shape: input '" + name + "' is given twice");
}

static RandomOptions getRandomOptions() {
  RandomOptions options;
  options.seed = randomSeed;
  options.onlyShapes = describe && saveInputs.empty();
  if (tokens.getNumOccurrences())
    options.tokens = tokens;
  for (const std::string &shape : shapes)
    parseShape(shape, options);
  return options;
}

static bool areOneFile(const std::string &lhs, const std::string &rhs) {
  std::error_code ignored;
  return std::filesystem::absolute(lhs, ignored).lexically_normal() ==
             std::filesystem::absolute(rhs, ignored).lexically_normal() ||
         fs::equivalent(lhs, rhs);
}

static void checkOptions() {
  bool random = randomSeed.getNumOccurrences() > 0;
  if (!random && inputsPath.empty())
    fail("give the inputs with --inputs=FILE, with --random=SEED, or with "
         "both: what the file lacks is random");
  if (!random && (tokens.getNumOccurrences() || !shapes.empty()))
    fail("--tokens and --shape belong to --random; with --inputs the file has "
         "the shapes");
  if (outputsPath == "-" || saveInputs == "-")
    fail(
        "'-' is no file; --outputs and --save-inputs write safetensors to one");
  if (!outputsPath.empty() && areOneFile(outputsPath, saveInputs))
    fail("--outputs and --save-inputs are one file, '" + outputsPath + "'");
  if (describe && !outputsPath.empty())
    fail("--describe does not run, so there are no --outputs");
  if (device == "none" && !describe)
    fail("--device=none has no memory to run in; --describe prints the "
         "launches");
  if (llvm::StringRef(target).contains(','))
    fail("--target: '" + target +
         "' names several chips, but a program runs on one");
  if (!target.empty() && fs::is_directory(inputPath))
    fail("--target: the artifact is compiled already; it belongs to IR");
}

//===----------------------------------------------------------------------===//
// IR
//===----------------------------------------------------------------------===//

// A machine that runs artifacts has no compiler, so this tool has none inside:
// it starts fp8moe-compile when it is given IR.

static constexpr llvm::StringLiteral kCompiler = "fp8moe-compile";

static std::atomic<bool> wasInterrupted = false;

/// The folder of this process; empty where there is none.
static llvm::SmallString<128> folder;

/// Removes the folder. Interrupts end the process again.
static void removeCompiled() {
  if (folder.empty())
    return;
  fs::remove_directories(folder);
  folder.clear();
  llvm::sys::SetInterruptFunction(nullptr);
}

static std::string findCompiler(const char *self) {
  static int anchor;
  std::string tool = fs::getMainExecutable(self, &anchor);
  llvm::StringRef own = llvm::sys::path::parent_path(tool);
  if (auto beside = llvm::sys::findProgramByName(kCompiler, {own}))
    return *beside;
  if (auto inPath = llvm::sys::findProgramByName(kCompiler))
    return *inPath;
  fail("IR needs " + kCompiler + ", which is neither in '" + own +
       "' nor in PATH; compile elsewhere and give the artifact's folder");
}

/// Compiles the IR in the file `path` ("-": standard input) with the
/// fp8moe-compile beside this tool, whose argv[0] is `self`, else with the one
/// in PATH. An empty `target` selects the module's target, else the CPU.
///
/// Returns the artifact's folder. It is removed by `removeCompiled` or at exit.
/// Until then an interrupt ends the compiler but not this process, so that the
/// folder is still removed.
static std::string compileInput(const char *self, const std::string &path,
                                const std::string &target) {
  std::string compiler = findCompiler(self);
  std::atexit(removeCompiled);
  llvm::sys::SetInterruptFunction([] { wasInterrupted = true; });
  if (std::error_code code = fs::createUniqueDirectory("fp8moe-run", folder))
    fail("cannot make a temporary folder: " + code.message());
  // The compiler reports at the IR's locations, in the same streams.
  std::string problem,
      chip = target.empty() ? "--default-target=cpu" : "--target=" + target;
  int status = llvm::sys::ExecuteAndWait(
      compiler, {compiler, chip, "-o", folder, "--", path},
      /*Env=*/std::nullopt, /*Redirects=*/{}, /*SecondsToWait=*/0,
      /*MemoryLimit=*/0, &problem);
  if (wasInterrupted)
    fail("interrupted");
  if (status < 0)
    fail("cannot run " + compiler + ": " + problem);
  if (status > 0)
    exit(1);
  std::error_code error;
  fs::directory_iterator artifact(folder, error);
  if (error)
    fail(folder + ": " + error.message());
  return artifact->path();
}

//===----------------------------------------------------------------------===//
// The tool
//===----------------------------------------------------------------------===//

static void printTensors(llvm::StringRef role,
                         llvm::ArrayRef<HostTensor> tensors) {
  for (const HostTensor &tensor : tensors)
    llvm::outs() << llvm::formatv("{0,-7} {1,-28} {2}\n", role, tensor.name,
                                  tensor.describe());
}

static void runProgram(const std::string &artifact) {
  Program program = Program::load(
      artifact, describe ? "none" : device.getValue(), programName);
  std::optional<RandomOptions> random;
  if (randomSeed.getNumOccurrences())
    random = getRandomOptions();
  // Random inputs of padded groups follow the manifest.
  std::vector<HostTensor> inputs = program.getInputs(inputsPath, random);
  removeCompiled();
  program.resolve(inputs);
  if (!saveInputs.empty())
    writeTensors(saveInputs, inputs);
  if (describe) {
    llvm::outs() << program.describe() << "\n";
    return;
  }

  double seconds = 0;
  std::vector<HostTensor> outputs = program.run(inputs, repeat, seconds);
  if (!outputsPath.empty())
    writeTensors(outputsPath, outputs);
  printTensors("input", inputs);
  printTensors("output", outputs);
  llvm::outs() << llvm::formatv("{0} ran on {1} in {2:f3} ms", program.name(),
                                device, seconds * 1e3);
  if (repeat > 1)
    llvm::outs() << " (the shortest of " << repeat << ")";
  llvm::outs() << "\n";
}

/// Names the artifacts in a folder that is none itself, and ends the process.
static void checkIsArtifact(llvm::StringRef folder) {
  auto hasManifest = [](const llvm::Twine &path) {
    return fs::exists(path + "/manifest.json");
  };
  if (hasManifest(folder))
    return;
  llvm::SmallVector<std::string> artifacts;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end;
       entry != end && !ignored; entry.increment(ignored))
    if (hasManifest(entry->path()))
      artifacts.push_back(entry->path());
  if (artifacts.empty())
    fail("'" + folder +
         "' is no artifact, as it has no manifest.json; pass a folder that "
         "fp8moe-compile -o wrote for one target");
  llvm::sort(artifacts);
  fail("'" + folder + "' is no artifact, but has " +
       (artifacts.size() == 1 ? "one; pass "
                              : "one for each target; pass one of ") +
       llvm::join(artifacts, ", "));
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(tools::getCategory());
  tools::setVersionPrinter("fp8moe-run");
  cl::ParseCommandLineOptions(argc, argv, kOverview);

  checkOptions();
  if (fs::is_directory(inputPath)) {
    checkIsArtifact(inputPath);
    runProgram(inputPath);
    return 0;
  }
  if (device != "cpu" && target.empty())
    fail("IR for --device=" + device + " needs --target=CHIP, such as sm_90a");
  runProgram(compileInput(argv[0], inputPath, target));
  return 0;
}
