//===- ObjectEmission.cpp - Assembly text and linked objects --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeSteps.h"
#include "Environment.h"
#include "KernelParts.h"
#include "LLVMErrors.h"
#include "fp8moe/Artifact/CodeEmission.h"

#include "lld/Common/Driver.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace mlir;
using namespace mlir::fp8moe;

/// Runs code generation into `fileType`. The module is cloned first, because
/// code generation changes it and callers may want another form of it; and
/// because a clone has uses of a value in an order that only depends on the
/// code, which loop strength reduction follows where costs are equal.
static FailureOr<std::string> generateCode(const llvm::Module &llvmModule,
                                           const TargetInfo &target,
                                           llvm::CodeGenFileType fileType,
                                           Location loc) {
  DiagnosticScope diagnostics(llvmModule.getContext(), loc);
  std::unique_ptr<llvm::TargetMachine> machine =
      createTargetMachine(target, loc);
  if (!machine)
    return failure();
  std::unique_ptr<llvm::Module> clone = llvm::CloneModule(llvmModule);
  SmallString<0> code;
  llvm::raw_svector_ostream os(code);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, os, /*DwoOut=*/nullptr, fileType))
    return emitError(loc)
           << "LLVM cannot generate this kind of file for target "
           << target.chip;
  passes.run(*clone);
  if (diagnostics.hadError())
    return failure();
  return code.str().str();
}

/// PTX of several modules as that of one: with one head, and with variables
/// that all declare declared once.
static std::string joinPTX(ArrayRef<std::string> parts) {
  constexpr StringLiteral kEndOfHead = ".address_size 64\n";
  StringRef head = StringRef(parts.front()).split(kEndOfHead).first;
  std::string joined = (head + kEndOfHead).str();
  llvm::StringSet<> declared;
  for (StringRef part : parts) {
    for (StringRef line : llvm::split(part.split(kEndOfHead).second, '\n')) {
      if (line.starts_with(".extern ") && !declared.insert(line).second)
        continue;
      joined += line;
      joined += '\n';
    }
    // The text behind the last end of a line is no line.
    joined.pop_back();
  }
  return joined;
}

FailureOr<std::string> mlir::fp8moe::emitAssembly(llvm::Module &llvmModule,
                                                  const TargetInfo &target,
                                                  Location loc) {
  constexpr auto kAssembly = llvm::CodeGenFileType::AssemblyFile;
  // AMD's assembly ends with a description of all kernels.
  if (target.kind != TargetKind::NVVM)
    return generateCode(llvmModule, target, kAssembly, loc);
  KernelParts parts(llvmModule);
  if (parts.size() == 0)
    return generateCode(llvmModule, target, kAssembly, loc);
  FailureOr<SmallVector<std::string>> texts =
      parts.map(loc, [&](llvm::Module &part) {
        return generateCode(part, target, kAssembly, loc);
      });
  if (failed(texts))
    return failure();
  return joinPTX(*texts);
}

/// The only functions that a CPU library may need: those of every C library.
/// Anything else would make loading depend on the machine.
static bool isAllowedOnCPU(StringRef symbol) {
  static const llvm::StringSet<> allowed = {"malloc", "calloc", "aligned_alloc",
                                            "free",   "memcpy", "memmove",
                                            "memset", "memcmp"};
  // Defined by the linker when an object refers to it.
  return symbol == "_GLOBAL_OFFSET_TABLE_" || allowed.contains(symbol);
}

static LogicalResult verifyUndefinedSymbols(StringRef object, Location loc) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createObjectFile(
          llvm::MemoryBufferRef(object, "kernels.o"));
  if (!file)
    return emitError(loc) << "cannot read the generated object: "
                          << llvm::toString(file.takeError());
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    llvm::Expected<StringRef> name = symbol.getName();
    if (!flags || !name) {
      llvm::consumeError(flags.takeError());
      llvm::consumeError(name.takeError());
      return emitError(loc)
             << "cannot read the symbols of the generated object";
    }
    if (!(*flags & llvm::object::BasicSymbolRef::SF_Undefined) ||
        name->empty() || isAllowedOnCPU(*name))
      continue;
    return emitError(loc) << "the compiled code calls '" << *name
                          << "', which is neither defined in the module nor "
                             "memory management of the C library; lower the "
                             "operation that it comes from to instructions";
  }
  return success();
}

/// lld has global state, so that only one link may run at a time.
static std::mutex &getLinkerMutex() {
  static std::mutex mutex;
  return mutex;
}

namespace {

/// Takes the registered command line options out of reach while it lives. lld
/// resets every option of the process to its default before it reads its own
/// arguments, which would undo the command line of the tool that we are part
/// of.
class CommandLineOptionsGuard {
public:
  CommandLineOptionsGuard() {
    for (SubCommand *command : llvm::cl::getRegisteredSubcommands())
      saved.emplace_back().command = command;
    exchange();
  }
  ~CommandLineOptionsGuard() { exchange(); }

private:
  using SubCommand = llvm::cl::SubCommand;
  struct Saved {
    SubCommand *command = nullptr;
    decltype(SubCommand::OptionsMap) options;
    decltype(SubCommand::PositionalOpts) positional;
    decltype(SubCommand::SinkOpts) sink;
    decltype(SubCommand::ConsumeAfterOpt) consumeAfter = nullptr;
  };

  void exchange() {
    for (Saved &entry : saved) {
      std::swap(entry.options, entry.command->OptionsMap);
      std::swap(entry.positional, entry.command->PositionalOpts);
      std::swap(entry.sink, entry.command->SinkOpts);
      std::swap(entry.consumeAfter, entry.command->ConsumeAfterOpt);
    }
  }

  SmallVector<Saved, 2> saved;
};

} // namespace

static std::string getTemporaryFolder() {
  SmallString<128> path;
  llvm::sys::path::system_temp_directory(/*erasedOnReboot=*/true, path);
  return path.str().str();
}

/// lld writes to a mapped file, which on a full file system is SIGBUS and not
/// an error.
static LogicalResult verifySpace(StringRef path, uint64_t objectBytes,
                                 Location loc) {
  constexpr uint64_t kTablesAndPadding = 64 << 10;
  uint64_t bytes = 2 * objectBytes + kTablesAndPadding;
  llvm::ErrorOr<llvm::sys::fs::space_info> space =
      llvm::sys::fs::disk_space(path);
  if (!space || space->available >= bytes)
    return success();
  return emitError(loc) << "linking needs up to " << bytes << " bytes in "
                        << getTemporaryFolder() << ", which has "
                        << space->available
                        << " left; TMPDIR names another folder";
}

static FailureOr<std::string> link(StringRef object,
                                   ArrayRef<const char *> flags, Location loc) {
  TemporaryFile input, output;
  std::error_code error = input.create("o");
  if (!error)
    error = input.write(object);
  if (!error)
    error = output.create("so");
  if (error)
    return emitError(loc) << "cannot write a temporary file for linking in "
                          << getTemporaryFolder() << ": " << error.message()
                          << "; TMPDIR names another folder";
  if (failed(verifySpace(output.path, object.size(), loc)))
    return failure();

  // Kernels are too small for threads; and lld would keep them for its next
  // link, which waits for ever when the process was forked in between.
  SmallVector<const char *> argv = {"ld.lld", "-shared", "--build-id=none",
                                    "--threads=1"};
  llvm::append_range(argv, flags);
  argv.append({input.path.c_str(), "-o", output.path.c_str()});

  std::string messages;
  llvm::raw_string_ostream os(messages);
  {
    std::lock_guard<std::mutex> lock(getLinkerMutex());
    CommandLineOptionsGuard guard;
    lld::Result result =
        lld::lldMain(argv, os, os, {{lld::Gnu, &lld::elf::link}});
    if (result.retCode != 0)
      return emitError(loc) << "linking in " << getTemporaryFolder()
                            << " failed: " << StringRef(messages).rtrim()
                            << "; TMPDIR names another folder";
  }
  llvm::ErrorOr<std::string> linked = output.read();
  if (!linked)
    return emitError(loc) << "cannot read the linked file: "
                          << linked.getError().message();
  return *linked;
}

FailureOr<std::string> mlir::fp8moe::emitSharedObject(llvm::Module &llvmModule,
                                                      const TargetInfo &target,
                                                      Location loc) {
  FailureOr<std::string> object =
      generateCode(llvmModule, target, llvm::CodeGenFileType::ObjectFile, loc);
  if (failed(object))
    return failure();
  if (target.kind == TargetKind::ROCDL)
    return link(*object, {"--no-undefined"}, loc);
  if (failed(verifyUndefinedSymbols(*object, loc)))
    return failure();
  return link(*object, {"-Bsymbolic", "-znow"}, loc);
}
