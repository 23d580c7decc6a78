//===- Corpus.cpp - What mutations begin with -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Corpus.h"
#include "Seeds.h"

#include "fp8moe/Artifact/CodeEmission.h"
#include "fp8moe/InitAll.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/ToolUtilities.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <algorithm>

using namespace fuzz;
using namespace mlir;

const DialectRegistry &fuzz::getRegistry() {
  static const DialectRegistry registry = [] {
    DialectRegistry result;
    mlir::fp8moe::registerAllDialects(result);
    mlir::fp8moe::registerArtifactTranslations(result);
    return result;
  }();
  return registry;
}

const ArtifactSeed *Corpus::findArtifact(StringRef name) const {
  for (const ArtifactSeed &artifact : artifacts)
    if (artifact.name == name)
      return &artifact;
  return nullptr;
}

/// Modules with more programs are only read in parts.
static constexpr size_t kMaxProgramsInModule = 4;

/// The paths of IR below `folder`, sorted, because folders have no order.
static llvm::Expected<std::vector<std::string>> listFiles(StringRef folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (llvm::sys::fs::recursive_directory_iterator it(folder, error), end;
       it != end && !error; it.increment(error))
    if (StringRef(it->path()).ends_with(".mlir"))
      paths.push_back(it->path());
  if (error)
    return llvm::createStringError(error, "cannot read the corpus folder " +
                                              folder + ": " + error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Comments are for people and for FileCheck.
static Tokens withoutComments(Tokens tokens) {
  for (Token &token : tokens)
    if (token.kind == TokenKind::Space && StringRef(token.text).contains("//"))
      token.text = "\n";
  return tokens;
}

static ModuleSeed makeSeed(StringRef text) {
  Tokens tokens = withoutComments(tokenize(text));
  return {join(tokens), tokens};
}

static void addFile(StringRef text, MLIRContext &context, Corpus &corpus) {
  size_t first = corpus.modules.size();
  SmallVector<StringRef> parts;
  text.split(parts, kDefaultSplitMarker);
  for (StringRef part : parts) {
    ModuleSeed seed = makeSeed(part);
    if (StringRef(seed.text).trim().empty())
      continue;
    corpus.irDictionary.add(seed.tokens);
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(seed.text, ParserConfig(&context));
    std::vector<std::string> programs;
    if (module)
      programs = splitPrograms(*module);
    // Dozens of kernels take as long as a hang.
    if (programs.size() <= kMaxProgramsInModule)
      corpus.modules.push_back(std::move(seed));
    for (const std::string &program : programs) {
      corpus.programs.push_back(makeSeed(program));
      if (programs.size() > kMaxProgramsInModule)
        corpus.modules.push_back(corpus.programs.back());
    }
    if (!module)
      continue;
    std::string bytes;
    llvm::raw_string_ostream os(bytes);
    if (programs.size() <= kMaxProgramsInModule &&
        succeeded(writeBytecodeToFile(*module, os)))
      corpus.bytecode.push_back(bytes);
  }
  for (PipelineSeed &pipeline : extractPipelines(text)) {
    for (size_t i = first; i < corpus.modules.size(); ++i)
      pipeline.modules.push_back(i);
    corpus.pipelineDictionary.add(tokenize(pipeline.text));
    if (!pipeline.modules.empty())
      corpus.pipelines.push_back(std::move(pipeline));
  }
}

llvm::Expected<Corpus> fuzz::loadCorpus(llvm::ArrayRef<std::string> folders,
                                        StringRef scratch) {
  Corpus corpus;
  MLIRContext context(getRegistry(), MLIRContext::Threading::DISABLED);
  // Some tests are wrong on purpose.
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  for (const std::string &folder : folders) {
    auto paths = listFiles(folder);
    if (!paths)
      return paths.takeError();
    for (const std::string &path : *paths) {
      auto buffer = llvm::MemoryBuffer::getFile(path);
      if (!buffer)
        return llvm::createStringError(buffer.getError(),
                                       "cannot read " + path);
      addFile((*buffer)->getBuffer(), context, corpus);
    }
  }
  if (corpus.programs.empty() || corpus.pipelines.empty())
    return llvm::createStringError(
        "the corpus has no programs or no pipelines; --corpus names folders "
        "with the tests of the compiler");
  corpus.artifacts = compileArtifacts(corpus.programs, scratch);
  corpus.safetensors = makeSafetensors(scratch);
  auto isLoaded = [](const ArtifactSeed &seed) { return seed.chip == "cpu"; };
  if (llvm::none_of(corpus.artifacts, isLoaded) || corpus.safetensors.empty())
    return llvm::createStringError("no artifact for the CPU could be compiled "
                                   "from the corpus");
  return corpus;
}
