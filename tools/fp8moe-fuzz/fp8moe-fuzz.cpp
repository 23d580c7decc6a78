//===- fp8moe-fuzz.cpp - Hostile inputs for the compiler and the runtime --===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Supervisor.h"

#include "../CommandLine.h"
#include "Generator.h"
#include "fp8moe/InitAll.h"
#include "mlir/InitAllPasses.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"

#include <random>

using namespace fuzz;
namespace cl = llvm::cl;

static cl::OptionCategory category("fp8moe-fuzz options");

static cl::opt<uint64_t> seed("seed", cl::cat(category),
                              cl::desc("The seed (default: a random one)"));
static cl::opt<uint64_t>
    first("first", cl::init(0), cl::cat(category),
          cl::desc("The number of the first input (default: 0)"));
static cl::opt<uint64_t> inputs("inputs", cl::init(0), cl::value_desc("N"),
                                cl::cat(category),
                                cl::desc("Stop after N inputs"));
static cl::opt<unsigned> minutes("minutes", cl::init(0), cl::value_desc("N"),
                                 cl::cat(category),
                                 cl::desc("Stop after N minutes"));
static cl::opt<unsigned> hours("hours", cl::init(0), cl::value_desc("N"),
                               cl::cat(category),
                               cl::desc("Stop after N hours"));
static cl::list<std::string>
    kindNames("kinds", cl::CommaSeparated, cl::cat(category),
              cl::desc("What to fuzz: ir, bytecode, pipeline, manifest, "
                       "binary, safetensors (default: all)"));
static cl::opt<unsigned> jobs("jobs", cl::init(1), cl::value_desc("N"),
                              cl::cat(category),
                              cl::desc("Workers at once (default: 1)"));
static cl::list<std::string> corpusFolders(
    "corpus", cl::value_desc("folder"), cl::cat(category),
    cl::desc("Folders with IR to begin with (default: test, examples and "
             "benchmarks of the sources)"));
static cl::opt<std::string>
    output("output", cl::init("fuzz-finds"), cl::value_desc("folder"),
           cl::cat(category),
           cl::desc("Where finds are written (default: fuzz-finds)"));
static cl::opt<std::string>
    junit("junit", cl::value_desc("file"), cl::cat(category),
          cl::desc("Also write the result as JUnit XML"));
static cl::opt<std::string>
    reproduce("reproduce", cl::value_desc("file"), cl::cat(category),
              cl::desc("Read the input of a find again, and nothing else"));
static cl::opt<bool>
    print("print", cl::cat(category),
          cl::desc("Print the input number --first, and do not read it"));

static cl::opt<std::string> deadlyText(
    "die-of", cl::value_desc("text"), cl::cat(category),
    cl::desc("For tests of this tool: die of inputs with this text"));

static constexpr llvm::StringLiteral kOverview =
    R"(read hostile inputs with the compiler and the runtime

Changes modules, pipelines, artifacts and safetensors files that are known to be good,
and gives them to the code that reads them, in processes that may die. A crash, a hang,
a report of a sanitizer, or a failure without an error is a find: it is made small and
written to --output. docs/design/fuzzing.md says more.

Examples:
  fp8moe-fuzz --minutes=3
      a few minutes with a new seed, which is printed
  fp8moe-fuzz --hours=8 --jobs=4 --kinds=ir,pipeline
      a night, for the compiler only
  fp8moe-fuzz --reproduce=fuzz-finds/ir-1.mlir
      one find again
)";

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "fp8moe-fuzz") << message << "\n";
  return 2;
}

namespace {
/// A new folder that is removed with everything in it.
class TemporaryFolder {
public:
  TemporaryFolder() {
    llvm::SmallString<64> created;
    if (!llvm::sys::fs::createUniqueDirectory("fp8moe-fuzz", created))
      path = created.str().str();
  }
  ~TemporaryFolder() {
    if (!path.empty())
      llvm::sys::fs::remove_directories(path);
  }
  std::string path;
};
} // namespace

static std::vector<std::string> getCorpusFolders() {
  if (!corpusFolders.empty())
    return corpusFolders;
  std::vector<std::string> folders;
  for (const char *name : {"test", "examples", "benchmarks"})
    folders.push_back(std::string(FP8MOE_SOURCE_DIR "/") + name);
  return folders;
}

static int runReproduce(const Plan &plan) {
  auto buffer = llvm::MemoryBuffer::getFile(reproduce, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return fail(reproduce + ": " + buffer.getError().message());
  llvm::Expected<Input> input = fromFile((*buffer)->getBuffer());
  if (!input)
    return fail(reproduce + ": " + llvm::toString(input.takeError()));
  std::optional<Death> death = tryInput(plan, *input, makeSlot());
  if (!death) {
    llvm::outs() << "nothing found\n";
    return 0;
  }
  llvm::outs() << (death->isUpstream ? "upstream: " : "FIND: ") << death->name
               << "\n"
               << death->details;
  return 1;
}

/// Makes the folder for finds; the error if nothing can be written there, which
/// the first find would notice too late.
static std::error_code prepareOutput() {
  if (std::error_code error = llvm::sys::fs::create_directories(output))
    return error;
  llvm::SmallString<128> probe;
  if (std::error_code error =
          llvm::sys::fs::createUniqueFile(output + "/probe-%%%%%%%%", probe))
    return error;
  return llvm::sys::fs::remove(probe);
}

static int runFuzzer(const Plan &plan) {
  // The last number stands for no input.
  uint64_t left = Slot::kNone - first;
  if (left == 0 || inputs > left)
    return fail("--first and --inputs: the last input has the number " +
                llvm::Twine(Slot::kNone - 1));
  RunOptions options;
  options.first = first;
  if (inputs)
    options.end = first + inputs;
  options.seconds = 60 * (minutes + 60 * int64_t(hours));
  options.jobs = std::max(1u, jobs.getValue());
  options.output = output;
  if (!inputs && !options.seconds)
    return fail("nothing to do: give --inputs, --minutes or --hours");
  if (std::error_code error = prepareOutput())
    return fail("--output: cannot write to '" + output +
                "': " + error.message());
  llvm::outs() << "seed " << plan.seed << ": " << plan.corpus.modules.size()
               << " modules, " << plan.corpus.programs.size() << " programs, "
               << plan.corpus.pipelines.size() << " pipelines, "
               << plan.corpus.artifacts.size() << " artifacts\n";
  llvm::outs().flush();
  Supervisor supervisor(plan, options);
  supervisor.run();
  supervisor.printSummary(llvm::outs());
  if (!junit.empty()) {
    std::error_code error;
    llvm::raw_fd_ostream os(junit, error);
    if (error)
      return fail(junit + ": " + error.message());
    supervisor.writeJUnit(os);
  }
  return supervisor.isClean() ? 0 : 1;
}

int main(int argc, char **argv) {
  installHandlers(argv);
  cl::HideUnrelatedOptions(category);
  tools::setVersionPrinter("fp8moe-fuzz");
  cl::ParseCommandLineOptions(argc, argv, kOverview);
  mlir::registerAllPasses();
  mlir::fp8moe::registerAllPasses();

  Plan plan;
  for (const std::string &name : kindNames) {
    std::optional<Kind> kind = parseKind(name);
    if (!kind)
      return fail("--kinds: there is no kind '" + name + "'");
    plan.kinds.push_back(*kind);
  }
  if (plan.kinds.empty())
    plan.kinds.assign(allKinds().begin(), allKinds().end());
  plan.seed = seed.getNumOccurrences() ? seed : std::random_device()();

  TemporaryFolder scratch;
  if (scratch.path.empty())
    return fail("cannot create a temporary folder");
  plan.scratch = scratch.path;
  plan.deadlyText = deadlyText;
  llvm::Expected<Corpus> corpus = loadCorpus(getCorpusFolders(), scratch.path);
  if (!corpus)
    return fail(llvm::toString(corpus.takeError()));
  plan.corpus = std::move(*corpus);

  if (!reproduce.empty())
    return runReproduce(plan);
  if (print) {
    llvm::outs() << toFile(
        makeInput(plan.corpus, plan.kinds, plan.seed, first));
    return 0;
  }
  return runFuzzer(plan);
}
