//===- fp8moe-binary-fuzzer.cpp - Damaged binaries in the runtime ---------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The target compiles a program for the CPU. An input says how its library is
// damaged: steps of a place, an action and bytes. Only the compiler's own bytes
// may be loaded.
//
//===----------------------------------------------------------------------===//

#include "Target.h"

#include "fp8moe/Artifact/CodeEmission.h"
#include "fp8moe/Driver/Driver.h"
#include "fp8moe/InitAll.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"

#include <fuzzer/FuzzedDataProvider.h>

using namespace fuzz;
using namespace mlir;

static constexpr StringLiteral kProgram = R"(
func.func @cast(%x: tensor<?x64xbf16> {fp8moe.name = "x"})
    -> (tensor<?x64xf8E4M3FN> {fp8moe.name = "q"},
        tensor<?xf32> {fp8moe.name = "s"}) {
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
  return %q, %s : tensor<?x64xf8E4M3FN>, tensor<?xf32>
}
)";

/// The artifact of the program, and its library as the compiler wrote it.
static std::string artifact, library;

static std::string getLibraryPath() { return artifact + "/kernels.so"; }

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  DialectRegistry registry;
  mlir::fp8moe::registerAllDialects(registry);
  mlir::fp8moe::registerArtifactTranslations(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  auto module = parseSourceString<ModuleOp>(kProgram, &context);
  mlir::fp8moe::DriverOptions options;
  options.targets = {"cpu"};
  options.passManagerHook = [](PassManager &) { return success(); };
  mlir::fp8moe::Report report;
  if (failed(mlir::fp8moe::Driver(options).writeArtifacts(*module, getScratch(),
                                                          report)))
    reportBroken("the program compiles");
  artifact = getScratch() + "/cpu";
  auto buffer = llvm::MemoryBuffer::getFile(getLibraryPath());
  if (!buffer)
    reportBroken("the program has a library", getLibraryPath());
  library = (*buffer)->getBuffer().str();
  return 0;
}

/// Does what the input says to the library.
static std::string damage(const uint8_t *data, size_t size) {
  std::string bytes = library;
  FuzzedDataProvider input(data, size);
  while (input.remaining_bytes() > 4) {
    size_t place = input.ConsumeIntegralInRange<size_t>(0, bytes.size());
    uint8_t action = input.ConsumeIntegral<uint8_t>();
    std::string piece = input.ConsumeRandomLengthString(64);
    if (action % 4 == 0)
      bytes.insert(place, piece);
    else if (action % 4 == 1)
      bytes.erase(place, piece.size());
    else if (action % 32 == 2)
      bytes.resize(place);
    else
      bytes.replace(place, piece.size(), piece);
  }
  return bytes;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  getInput(data, size);
  std::string bytes = damage(data, size);
  writeFile(getLibraryPath(), bytes);
  if (readArtifact(artifact, "cpu", size) != (bytes == library))
    reportBroken("the compiler's own library is loaded, and no other");
  return 0;
}
