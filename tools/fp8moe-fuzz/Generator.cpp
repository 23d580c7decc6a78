//===- Generator.cpp - Inputs by number -----------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generator.h"

#include "JsonMutator.h"
#include "TextMutator.h"
#include "fp8moe/Target/TargetInfo.h"

#include <cstring>

using namespace fuzz;

/// How often each kind is drawn. Compiling costs most of the time, and most of
/// the code is there.
static unsigned getWeight(Kind kind) {
  switch (kind) {
  case Kind::IR:
    return 32;
  case Kind::Bytecode:
    return 5;
  case Kind::Pipeline:
    return 10;
  case Kind::Manifest:
    return 24;
  case Kind::Binary:
    return 5;
  case Kind::Safetensors:
    return 24;
  }
  llvm_unreachable("unknown kind");
}

static Kind drawKind(llvm::ArrayRef<Kind> kinds, Random &random) {
  unsigned total = 0;
  for (Kind kind : kinds)
    total += getWeight(kind);
  unsigned draw = random.below(total);
  for (Kind kind : kinds) {
    if (draw < getWeight(kind))
      return kind;
    draw -= getWeight(kind);
  }
  llvm_unreachable("the weights add up");
}

/// The kind of input `index`.
static Kind drawKind(llvm::ArrayRef<Kind> kinds, uint64_t seed, uint64_t index,
                     Random &random) {
  Random ofRun(~seed, index / kInputsPerRun);
  if (drawKind(kinds, ofRun) == Kind::Bytecode)
    return Kind::Bytecode;
  llvm::SmallVector<Kind> others(kinds);
  llvm::erase(others, Kind::Bytecode);
  return others.empty() ? Kind::Bytecode : drawKind(others, random);
}

/// A chip and how far to go. The CPU's path is the shortest, so that more
/// inputs fit into the time.
static std::string drawCompilation(Random &random) {
  auto targets = mlir::fp8moe::knownTargets();
  std::string choice =
      (random.oneIn(4) ? random.pick(targets) : targets.front()).chip.str();
  switch (random.below(64)) {
  case 0:
    choice += " llvm";
    break;
  case 1:
    choice += " asm";
    break;
  case 2:
    choice += " object";
    break;
  case 3:
    choice += " sweep";
    break;
  case 4:
    choice += " delays";
    break;
  case 5:
  case 6:
    choice += " tensor";
    break;
  default:
    choice += " lower";
    break;
  }
  if (random.oneIn(8))
    choice += " keep-layouts";
  if (random.oneIn(16))
    choice += random.oneIn(2) ? " text" : " bytes";
  return choice;
}

/// A whole program most of the time, because its mutants are lowered most
/// often, and rather a short one, because more of them fit into the time.
static const Tokens &drawModule(const Corpus &corpus, Random &random) {
  if (random.oneIn(6))
    return random.pick(corpus.modules).tokens;
  const Tokens &one = random.pick(corpus.programs).tokens;
  const Tokens &other = random.pick(corpus.programs).tokens;
  return one.size() < other.size() ? one : other;
}

static std::string mutateModule(const Corpus &corpus, Random &random) {
  return TextMutator(corpus.irDictionary, random)
      .mutate(drawModule(corpus, random));
}

static std::string makePipeline(const Corpus &corpus, const PipelineSeed &seed,
                                Random &random) {
  std::string text = seed.text;
  if (!random.oneIn(4))
    text = TextMutator(corpus.pipelineDictionary, random)
               .mutate(tokenize(seed.text));
  const ModuleSeed &own = corpus.modules[random.pick(seed.modules)];
  switch (random.below(4)) {
  case 0:
    return text + "\n// -----\n" + random.pick(corpus.modules).text;
  case 1:
    return text + "\n// -----\n" + own.text;
  case 2:
    return text + "\n// -----\n" + mutateModule(corpus, random);
  default:
    return text + "\n// -----\n" +
           TextMutator(corpus.irDictionary, random).mutate(own.tokens);
  }
}

/// The header of a safetensors file is JSON behind its length.
static std::string mutateSafetensors(std::string file, Random &random) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  std::string header = file.substr(sizeof(length), length);
  std::string data = file.substr(sizeof(length) + length);
  if (!random.oneIn(4))
    header = mutateJson(header, random);
  if (random.oneIn(4))
    data.resize(random.below(data.size() + 2));
  length = header.size();
  if (random.oneIn(8))
    length ^= uint64_t(1) << random.below(64);
  file.assign(reinterpret_cast<const char *>(&length), sizeof(length));
  file += header + data;
  if (random.oneIn(8))
    mutateBytes(file, random);
  return file;
}

static Input makeManifest(const ArtifactSeed &seed, Random &random) {
  bool onCpu = seed.chip == "cpu" && random.oneIn(4);
  std::string choice = (onCpu ? "cpu " : "none ") + seed.name + " " +
                       std::to_string(random.next() % 1000000);
  return {Kind::Manifest, choice,
          random.oneIn(32) ? seed.manifest : mutateJson(seed.manifest, random)};
}

Input fuzz::makeInput(const Corpus &corpus, llvm::ArrayRef<Kind> kinds,
                      uint64_t seed, uint64_t index) {
  Random random(seed, index);
  switch (drawKind(kinds, seed, index, random)) {
  case Kind::IR: {
    std::string choice = drawCompilation(random);
    return {Kind::IR, choice, mutateModule(corpus, random)};
  }
  case Kind::Bytecode: {
    std::string choice = drawCompilation(random);
    std::string bytes = random.pick(corpus.bytecode);
    for (size_t count = random.below(4); count > 0; --count)
      mutateBytes(bytes, random);
    return {Kind::Bytecode, choice, bytes};
  }
  case Kind::Pipeline: {
    const PipelineSeed &pipeline = random.pick(corpus.pipelines);
    return {Kind::Pipeline, pipeline.isAnchored ? "anchored" : "list",
            makePipeline(corpus, pipeline, random)};
  }
  case Kind::Manifest:
    return makeManifest(random.pick(corpus.artifacts), random);
  case Kind::Binary: {
    // Only the CPU's binaries are loaded without a GPU.
    const ArtifactSeed *artifact = &random.pick(corpus.artifacts);
    while (artifact->chip != "cpu")
      artifact = &random.pick(corpus.artifacts);
    auto [file, bytes] = artifact->files.front();
    std::string changed = bytes;
    for (size_t count = random.below(4); count > 0; --count)
      mutateBytes(changed, random);
    return {Kind::Binary, artifact->name + " " + file, changed};
  }
  case Kind::Safetensors:
    return {Kind::Safetensors, "",
            mutateSafetensors(random.pick(corpus.safetensors), random)};
  }
  llvm_unreachable("unknown kind");
}
