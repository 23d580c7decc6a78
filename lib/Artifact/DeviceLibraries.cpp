//===- DeviceLibraries.cpp - ROCm's device libraries ----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeSteps.h"
#include "Environment.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// The first function of the library with `prefix` that is called and missing.
static const llvm::Function *findMissing(const llvm::Module &llvmModule,
                                         StringRef prefix) {
  for (const llvm::Function &function : llvmModule)
    if (function.isDeclaration() && !function.use_empty() &&
        function.getName().starts_with(prefix))
      return &function;
  return nullptr;
}

/// The folders of ROCm that may hold `ocml.bc`, best first; Debian 12 has it in
/// the last one.
static SmallVector<std::string> listRocmFolders(StringRef rocmPath) {
  SmallVector<std::string> roots;
  if (!rocmPath.empty()) {
    roots.push_back(rocmPath.str());
  } else {
    if (std::optional<std::string> path = getEnvironment("ROCM_PATH"))
      roots.push_back(*path);
    roots.insert(roots.end(), {"/opt/rocm", "/usr/lib/x86_64-linux-gnu"});
  }
  SmallVector<std::string> folders;
  for (StringRef root : roots) {
    SmallString<128> folder(root);
    llvm::sys::path::append(folder, "amdgcn", "bitcode");
    folders.push_back(folder.str().str());
  }
  return folders;
}

/// Clang's own folder of bitcode, where Debian 13 has it for LLVM 17.
static std::string getClangFolder(unsigned version) {
  return llvm::formatv("/usr/lib/llvm-{0}/lib/clang/{0}/amdgcn/bitcode",
                       version);
}

/// LLVM reads bitcode of its own and of earlier versions; clang's folder has
/// this name since version 16.
constexpr unsigned kOldestLLVM = 16;
constexpr unsigned kNewestLLVM = LLVM_VERSION_MAJOR;

static FailureOr<std::string>
findLibraryFolder(StringRef rocmPath, StringRef symbol, Location loc) {
  SmallVector<std::string> rocmFolders = listRocmFolders(rocmPath);
  SmallVector<std::string> folders = rocmFolders;
  std::string listed = llvm::join(rocmFolders, ", ");
  if (rocmPath.empty()) {
    for (unsigned version = kNewestLLVM; version >= kOldestLLVM; --version)
      folders.push_back(getClangFolder(version));
    listed += llvm::formatv(", {0} to {1}", getClangFolder(kOldestLLVM),
                            getClangFolder(kNewestLLVM));
  }
  for (const std::string &folder : folders) {
    SmallString<128> file(folder);
    llvm::sys::path::append(file, "ocml.bc");
    if (llvm::sys::fs::exists(file))
      return folder;
  }
  return emitError(loc) << "the kernels call '" << symbol
                        << "' of ROCm's device libraries, which were not found "
                           "in "
                        << listed
                        << "; install rocm-device-libs (on Debian 13 "
                           "rocm-device-libs-17), or name the ROCm folder with "
                           "--rocm-path or ROCM_PATH";
}

static LogicalResult linkLibrary(llvm::Linker &linker, llvm::Module &llvmModule,
                                 StringRef folder, StringRef name,
                                 Location loc) {
  SmallString<128> path(folder);
  llvm::sys::path::append(path, name);
  llvm::SMDiagnostic error;
  std::unique_ptr<llvm::Module> library =
      llvm::parseIRFile(path, error, llvmModule.getContext());
  if (!library)
    return emitError(loc) << "cannot read the device library " << path << ": "
                          << error.getMessage();
  // The libraries are written for any chip of the architecture.
  library->setTargetTriple(llvmModule.getTargetTriple());
  library->setDataLayout(llvmModule.getDataLayout());
  if (linker.linkInModule(std::move(library), llvm::Linker::LinkOnlyNeeded))
    return emitError(loc) << "cannot link the device library " << path;
  return success();
}

/// "gfx942" is 9402: major * 1000 + minor * 100 + stepping (in hex).
static uint32_t getIsaVersion(StringRef chip) {
  StringRef digits = chip.drop_front(strlen("gfx"));
  uint32_t major = 0;
  digits.drop_back(2).getAsInteger(10, major);
  return major * 1000 + llvm::hexDigitValue(digits[digits.size() - 2]) * 100 +
         llvm::hexDigitValue(digits.back());
}

/// Defines the constants by which the libraries choose their variants. ROCm has
/// a bitcode file for each value, but a distribution may lack those of new
/// chips.
static void defineControlVariables(llvm::Module &llvmModule,
                                   const TargetInfo &target) {
  struct Control {
    StringRef name;
    uint32_t value;
    uint32_t bits;
  };
  // Exact results: no fast variants, subnormals kept, NaN and Inf respected.
  const Control controls[] = {
      {"__oclc_finite_only_opt", 0, 8},
      {"__oclc_unsafe_math_opt", 0, 8},
      {"__oclc_daz_opt", 0, 8},
      {"__oclc_correctly_rounded_sqrt32", 1, 8},
      {"__oclc_wavefrontsize64", target.warpSize == 64 ? 1u : 0u, 8},
      {"__oclc_ISA_version", getIsaVersion(target.chip), 32},
      {"__oclc_ABI_version", 500, 32},
  };
  constexpr unsigned constantAddressSpace = 4;
  for (const Control &control : controls) {
    auto *type = llvm::IntegerType::get(llvmModule.getContext(), control.bits);
    auto *value = llvm::ConstantInt::get(type, control.value);
    llvm::GlobalVariable *variable =
        llvmModule.getGlobalVariable(control.name, /*AllowInternal=*/true);
    if (!variable)
      continue;
    auto *definition = new llvm::GlobalVariable(
        llvmModule, type, /*isConstant=*/true,
        llvm::GlobalValue::InternalLinkage, value, "", /*InsertBefore=*/nullptr,
        llvm::GlobalValue::NotThreadLocal, constantAddressSpace);
    variable->replaceAllUsesWith(definition);
    definition->takeName(variable);
    variable->eraseFromParent();
  }
}

LogicalResult mlir::fp8moe::linkDeviceLibraries(llvm::Module &llvmModule,
                                                const TargetInfo &target,
                                                StringRef rocmPath,
                                                Location loc) {
  const llvm::Function *missing = findMissing(llvmModule, "__ocml_");
  if (!missing)
    missing = findMissing(llvmModule, "__ockl_");
  if (!missing)
    return success();

  FailureOr<std::string> folder =
      findLibraryFolder(rocmPath, missing->getName(), loc);
  if (failed(folder))
    return failure();
  llvm::StringSet<> ownFunctions;
  for (const llvm::Function &function : llvmModule)
    if (!function.isDeclaration())
      ownFunctions.insert(function.getName());

  // ocml calls ockl, never the other way round.
  llvm::Linker linker(llvmModule);
  if (failed(linkLibrary(linker, llvmModule, *folder, "ocml.bc", loc)) ||
      failed(linkLibrary(linker, llvmModule, *folder, "ockl.bc", loc)))
    return failure();
  defineControlVariables(llvmModule, target);
  for (llvm::Function &function : llvmModule) {
    if (function.isDeclaration() || ownFunctions.contains(function.getName()))
      continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    // Built for a generic chip; the caller's chip is what counts.
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
  }
  return success();
}
