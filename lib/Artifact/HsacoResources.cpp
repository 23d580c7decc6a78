//===- HsacoResources.cpp - Kernel resources of a code object -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Artifact/KernelResources.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Object/ELFObjectFile.h"

using namespace mlir;
using namespace mlir::fp8moe;

using ELF = llvm::object::ELF64LEFile;

/// Returns the metadata note of a code object; empty when it has none.
static llvm::Expected<StringRef> findMetadata(const ELF &file) {
  auto sections = file.sections();
  if (!sections)
    return sections.takeError();
  for (const ELF::Elf_Shdr &section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_NOTE)
      continue;
    llvm::Error error = llvm::Error::success();
    StringRef metadata;
    for (ELF::Elf_Note note : file.notes(section, error))
      if (note.getName() == "AMDGPU" &&
          note.getType() == llvm::ELF::NT_AMDGPU_METADATA)
        metadata = note.getDescAsStringRef(section.sh_addralign);
    if (error)
      return std::move(error);
    if (!metadata.empty())
      return metadata;
  }
  return StringRef();
}

/// The entry `key` of a kernel's metadata, 0 when it is absent.
static int64_t readInteger(llvm::msgpack::MapDocNode &kernel, StringRef key) {
  llvm::msgpack::DocNode &node = kernel[key];
  switch (node.getKind()) {
  case llvm::msgpack::Type::UInt:
    return node.getUInt();
  case llvm::msgpack::Type::Int:
    return node.getInt();
  default:
    return 0;
  }
}

static KernelResources readKernel(llvm::msgpack::MapDocNode &kernel) {
  KernelResources resources;
  resources.kernel = kernel[".name"].toString();
  resources.registers = readInteger(kernel, ".vgpr_count");
  resources.accumulationRegisters = readInteger(kernel, ".agpr_count");
  resources.scalarRegisters = readInteger(kernel, ".sgpr_count");
  resources.staticSharedBytes =
      readInteger(kernel, ".group_segment_fixed_size");
  resources.stackBytes = readInteger(kernel, ".private_segment_fixed_size");
  resources.spills = readInteger(kernel, ".vgpr_spill_count");
  // Scalars spill to lanes first, and to memory after that.
  int64_t scalars = readInteger(kernel, ".sgpr_spill_count");
  (resources.stackBytes ? resources.spills : resources.laneSpills) += scalars;
  resources.maxThreadsPerBlock =
      readInteger(kernel, ".max_flat_workgroup_size");
  return resources;
}

FailureOr<SmallVector<KernelResources>>
mlir::fp8moe::readHsacoResources(StringRef hsaco, Location loc) {
  llvm::Expected<ELF> file = ELF::create(hsaco);
  if (!file)
    return emitError(loc) << "the code object is no ELF file: "
                          << llvm::toString(file.takeError());
  llvm::Expected<StringRef> metadata = findMetadata(*file);
  if (!metadata)
    return emitError(loc) << "cannot read the notes of the code object: "
                          << llvm::toString(metadata.takeError());
  llvm::msgpack::Document document;
  if (!document.readFromBlob(*metadata, /*Multi=*/false) ||
      !document.getRoot().isMap())
    return emitError(loc) << "the code object has no AMDGPU metadata";

  SmallVector<KernelResources> resources;
  llvm::msgpack::DocNode &kernels =
      document.getRoot().getMap()["amdhsa.kernels"];
  // Absent when the module has no kernels.
  if (!kernels.isArray())
    return resources;
  for (llvm::msgpack::DocNode &kernel : kernels.getArray())
    if (kernel.isMap())
      resources.push_back(readKernel(kernel.getMap()));
  return resources;
}
