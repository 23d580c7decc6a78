//===- ArtifactWriter.cpp - Artifacts and single products of a compilation ===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Artifact/ArtifactWriter.h"
#include "CodeSteps.h"
#include "LLVMErrors.h"
#include "fp8moe/Artifact/Ptxas.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Binaries
//===----------------------------------------------------------------------===//

static LogicalResult verifyNoSpills(ModuleOp module,
                                    ArrayRef<KernelResources> resources) {
  for (const KernelResources &kernel : resources)
    if (kernel.spills)
      return findKernel(module, kernel.kernel)->emitError("kernel '")
             << kernel.kernel << "' does not fit its " << kernel.registers
             << " vector and " << kernel.scalarRegisters
             << " scalar registers and spills " << kernel.spills
             << "; choose a smaller tile or more threads";
  return success();
}

static constexpr llvm::StringLiteral kMissingPtxasAdvice =
    "install CUDA's compiler (pip install 'fp8moe[cuda]'), or name the file "
    "with --ptxas or FP8MOE_PTXAS";

namespace {

/// The binaries of an artifact in order of preference.
struct Compilation {
  SmallVector<ArtifactBinary> binaries;
  SmallVector<KernelResources> resources;
};

} // namespace

static LogicalResult compileNVVM(ModuleOp module, const TargetInfo &target,
                                 const EmissionOptions &options,
                                 llvm::Module &llvmModule,
                                 Compilation &compilation) {
  Location loc = module.getLoc();
  TimingScope time = options.time("Code generation");
  FailureOr<std::string> ptx = emitAssembly(llvmModule, target, loc);
  FailureOr<std::optional<std::string>> ptxas =
      findPtxas(options.ptxasPath, loc);
  if (failed(ptx) || failed(ptxas))
    return failure();
  if (*ptxas) {
    time = options.time("ptxas");
    FailureOr<Cubin> cubin = assemblePTX(**ptxas, *ptx, target.chip, module);
    if (failed(cubin))
      return failure();
    compilation.resources = std::move(cubin->resources);
    compilation.binaries.push_back(
        {"kernels.cubin", "cubin", std::move(cubin->bytes)});
  } else {
    emitWarning(loc) << "ptxas was not found: the artifact for " << target.chip
                     << " has PTX only, which the driver assembles when it is "
                        "loaded, and nobody has looked for spills; "
                     << kMissingPtxasAdvice;
  }
  compilation.binaries.push_back({"kernels.ptx", "ptx", std::move(*ptx)});
  return success();
}

/// Takes a wave from those that kernels with spills ask a SIMD to hold, and so
/// leaves them more registers; false where no kernel has one to give.
static bool takeWaves(llvm::Module &llvmModule,
                      ArrayRef<KernelResources> resources) {
  constexpr StringLiteral kWaves = "amdgpu-waves-per-eu";
  bool hasChanged = false;
  for (const KernelResources &kernel : resources) {
    llvm::Function *function = llvmModule.getFunction(kernel.kernel);
    int64_t waves = 0;
    if (!kernel.spills || !function ||
        function->getFnAttribute(kWaves).getValueAsString().getAsInteger(
            10, waves) ||
        waves <= 1)
      continue;
    function->addFnAttr(kWaves, std::to_string(waves - 1));
    hasChanged = true;
  }
  return hasChanged;
}

static LogicalResult compileROCDL(ModuleOp module, const TargetInfo &target,
                                  const EmissionOptions &options,
                                  llvm::Module &llvmModule,
                                  Compilation &compilation) {
  FailureOr<std::string> hsaco;
  FailureOr<SmallVector<KernelResources>> resources;
  TimingScope time = options.time("Code generation and linking");
  do {
    hsaco = emitSharedObject(llvmModule, target, module.getLoc());
    if (failed(hsaco))
      return failure();
    resources = readHsacoResources(*hsaco, module.getLoc());
    if (failed(resources))
      return failure();
  } while (takeWaves(llvmModule, *resources));
  if (failed(verifyNoSpills(module, *resources)) ||
      failed(readMainLoops(*hsaco, target, *resources, module.getLoc())))
    return failure();
  compilation.resources = std::move(*resources);
  compilation.binaries.push_back({"kernels.hsaco", "hsaco", std::move(*hsaco)});
  return success();
}

static LogicalResult compileCPU(ModuleOp module, const TargetInfo &target,
                                const EmissionOptions &options,
                                llvm::Module &llvmModule,
                                Compilation &compilation) {
  TimingScope time = options.time("Code generation and linking");
  FailureOr<std::string> library =
      emitSharedObject(llvmModule, target, module.getLoc());
  if (failed(library))
    return failure();
  compilation.binaries.push_back({"kernels.so", "so", std::move(*library)});
  return success();
}

static LogicalResult generateBinaries(ModuleOp module, const TargetInfo &target,
                                      const EmissionOptions &options,
                                      Compilation &compilation) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      emitLLVMIR(module, target, options, context);
  if (!llvmModule)
    return failure();
  switch (target.kind) {
  case TargetKind::NVVM:
    return compileNVVM(module, target, options, *llvmModule, compilation);
  case TargetKind::ROCDL:
    return compileROCDL(module, target, options, *llvmModule, compilation);
  case TargetKind::CPU:
    return compileCPU(module, target, options, *llvmModule, compilation);
  }
  llvm_unreachable("unknown kind");
}

static FailureOr<Compilation> compile(ModuleOp module, const TargetInfo &target,
                                      const EmissionOptions &options) {
  Compilation compilation;
  if (failed(verifyLaunchFeatures(module, target)) ||
      failed(runCodeGeneration(module.getLoc(),
                               [&] {
                                 return generateBinaries(module, target,
                                                         options, compilation);
                               })) ||
      failed(verifyLaunchLimits(module, target, compilation.resources)))
    return failure();
  return compilation;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

namespace {

/// Keeps others from writing the files of an artifact while it lives: files of
/// two compilations would not belong together. The lock is on the folder, so
/// that there is no file that could be left behind. On a file system that locks
/// no folders no writer waits.
class FolderLock {
public:
  explicit FolderLock(StringRef dir)
      : descriptor(
            ::open(dir.str().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor != -1)
      llvm::sys::RetryAfterSignal(-1, ::flock, descriptor, LOCK_EX);
  }
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;
  ~FolderLock() {
    if (descriptor != -1)
      ::close(descriptor);
  }

private:
  int descriptor;
};

} // namespace

/// Writes a file under a temporary name in the same folder and renames it.
static LogicalResult writeFile(StringRef dir, StringRef name, StringRef bytes,
                               Location loc, ArtifactReport &report) {
  SmallString<128> path(dir);
  llvm::sys::path::append(path, name);
  llvm::Error error = [&]() -> llvm::Error {
    llvm::Expected<llvm::sys::fs::TempFile> file =
        llvm::sys::fs::TempFile::create(path + ".tmp-%%%%%%");
    if (!file)
      return file.takeError();
    llvm::raw_fd_ostream os(file->FD, /*shouldClose=*/false);
    os << bytes;
    os.flush();
    if (std::error_code code = os.error()) {
      os.clear_error();
      return llvm::joinErrors(llvm::errorCodeToError(code), file->discard());
    }
    return file->keep(path);
  }();
  if (error)
    return emitError(loc) << "cannot write " << path << ": "
                          << llvm::toString(std::move(error))
                          << "; choose another output folder or make this one "
                             "writable";
  report.files.emplace_back(path.str().str(), bytes.size());
  return success();
}

/// Removes binaries that an earlier artifact in `dir` had and this one has not.
static void removeStaleBinaries(StringRef dir,
                                ArrayRef<ArtifactBinary> binaries,
                                Location loc) {
  for (StringRef name :
       {"kernels.so", "kernels.cubin", "kernels.ptx", "kernels.hsaco"}) {
    if (llvm::any_of(binaries, [&](const ArtifactBinary &binary) {
          return binary.file == name;
        }))
      continue;
    SmallString<128> path(dir);
    llvm::sys::path::append(path, name);
    // It does no harm but to mislead people: the manifest does not name it.
    if (std::error_code error = llvm::sys::fs::remove(path))
      emitWarning(loc) << "cannot remove " << path
                       << " of an earlier artifact: " << error.message();
  }
}

FailureOr<ArtifactReport>
mlir::fp8moe::writeArtifact(ModuleOp module, const TargetInfo &target,
                            StringRef dir, const EmissionOptions &options,
                            const llvm::json::Array &decisions) {
  FailureOr<Compilation> compilation = compile(module, target, options);
  if (failed(compilation))
    return failure();
  std::string manifest;
  llvm::raw_string_ostream manifestStream(manifest);
  if (failed(writeManifest(module, target, compilation->binaries, decisions,
                           manifestStream)))
    return failure();

  Location loc = module.getLoc();
  if (std::error_code error = llvm::sys::fs::create_directories(
          dir, /*IgnoreExisting=*/true, llvm::sys::fs::all_all))
    return emitError(loc) << "cannot create the output folder " << dir << ": "
                          << error.message();
  FolderLock lock(dir);
  ArtifactReport report;
  for (const ArtifactBinary &binary : compilation->binaries)
    if (failed(writeFile(dir, binary.file, binary.bytes, loc, report)))
      return failure();
  if (failed(writeFile(dir, "manifest.json", manifest, loc, report)))
    return failure();
  removeStaleBinaries(dir, compilation->binaries, loc);
  report.resources = std::move(compilation->resources);
  return report;
}

//===----------------------------------------------------------------------===//
// Single products
//===----------------------------------------------------------------------===//

namespace {
struct Product {
  EmitKind kind;
  /// As the tools call it.
  StringLiteral name;
  /// The kind of target that has the product; nothing when all have it.
  std::optional<TargetKind> target;

  bool isOf(TargetKind kind) const { return !target || *target == kind; }
};
} // namespace

static constexpr Product kProducts[] = {
    {EmitKind::LLVM, "llvm", std::nullopt},
    {EmitKind::Assembly, "asm", std::nullopt},
    {EmitKind::PTX, "ptx", TargetKind::NVVM},
    {EmitKind::Cubin, "cubin", TargetKind::NVVM},
    {EmitKind::HSACO, "hsaco", TargetKind::ROCDL},
    {EmitKind::SharedObject, "so", TargetKind::CPU},
};

/// Prints LLVM IR, or assembly for every other kind.
static LogicalResult printCode(ModuleOp module, const TargetInfo &target,
                               EmitKind kind, const EmissionOptions &options,
                               raw_ostream &os) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      emitLLVMIR(module, target, options, context);
  if (!llvmModule)
    return failure();
  if (kind == EmitKind::LLVM) {
    llvmModule->print(os, /*AAW=*/nullptr);
    return success();
  }
  TimingScope time = options.time("Code generation");
  FailureOr<std::string> text =
      emitAssembly(*llvmModule, target, module.getLoc());
  if (failed(text))
    return failure();
  if (target.kind != TargetKind::CPU)
    printArgumentComments(module, target.kind == TargetKind::NVVM ? "//" : ";",
                          os);
  os << *text;
  return success();
}

LogicalResult mlir::fp8moe::emitTo(ModuleOp module, const TargetInfo &target,
                                   EmitKind kind,
                                   const EmissionOptions &options,
                                   raw_ostream &os) {
  const Product *product = llvm::find_if(
      kProducts, [&](const Product &each) { return each.kind == kind; });
  if (!product->isOf(target.kind)) {
    InFlightDiagnostic diag = module.emitError("target ")
                              << target.chip << " has no output '"
                              << product->name << "'; it has tensor, "
                              << (target.isGPU() ? "kernel, " : "") << "mlir";
    for (const Product &each : kProducts)
      if (each.isOf(target.kind))
        diag << ", " << each.name;
    return diag;
  }

  if (kind == EmitKind::LLVM || kind == EmitKind::Assembly ||
      kind == EmitKind::PTX)
    return runCodeGeneration(module.getLoc(), [&] {
      return printCode(module, target, kind, options, os);
    });

  FailureOr<Compilation> compilation = compile(module, target, options);
  if (failed(compilation))
    return failure();
  const ArtifactBinary &preferred = compilation->binaries.front();
  if (kind == EmitKind::Cubin && preferred.format != "cubin")
    return module.emitError("a cubin needs ptxas, which was not found; ")
           << kMissingPtxasAdvice;
  os << preferred.bytes;
  return success();
}
