//===- Hsaco.cpp - Resources and main loops in AMD code objects -----------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeSteps.h"
#include "fp8moe/Artifact/KernelResources.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstrAnalysis.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Target/TargetMachine.h"

#include <limits>

using namespace mlir;
using namespace mlir::fp8moe;

using ELF = llvm::object::ELFObjectFile<llvm::object::ELF64LE>;

static FailureOr<ELF> readELF(StringRef hsaco, Location loc) {
  llvm::Expected<ELF> file =
      ELF::create(llvm::MemoryBufferRef(hsaco, "code object"));
  if (!file)
    return emitError(loc) << "the code object is no ELF file: "
                          << llvm::toString(file.takeError());
  return std::move(*file);
}

//===----------------------------------------------------------------------===//
// Resources
//===----------------------------------------------------------------------===//

/// Returns the metadata note of a code object; empty when it has none.
static llvm::Expected<StringRef> findMetadata(const ELF &object) {
  const auto &file = object.getELFFile();
  auto sections = file.sections();
  if (!sections)
    return sections.takeError();
  for (const auto &section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_NOTE)
      continue;
    llvm::Error error = llvm::Error::success();
    StringRef metadata;
    for (auto note : file.notes(section, error))
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
  FailureOr<ELF> file = readELF(hsaco, loc);
  if (failed(file))
    return failure();
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

//===----------------------------------------------------------------------===//
// Main loops
//===----------------------------------------------------------------------===//

namespace {
/// Instructions that count as one kind.
using Kind = int64_t InstructionMix::*;

struct Instruction {
  Kind kind;
  /// Which ones may come next.
  SmallVector<size_t, 2> successors;
};

class Disassembler {
public:
  explicit Disassembler(const llvm::TargetMachine &machine);

  /// Whether this LLVM can read the chip's instructions.
  bool isAvailable() const { return disassembler && analysis; }
  /// Ends before the first bytes that are no instruction.
  SmallVector<Instruction> read(ArrayRef<uint8_t> bytes, uint64_t address);

private:
  const llvm::MCInstrInfo &instructions;
  llvm::MCContext context;
  std::unique_ptr<llvm::MCDisassembler> disassembler;
  std::unique_ptr<llvm::MCInstrAnalysis> analysis;
};
} // namespace

/// LLVM's names of AMD's instructions begin with the unit that executes them.
static Kind getKind(StringRef name) {
  if (name.starts_with("V_MFMA_") || name.starts_with("V_SMFMAC_"))
    return &InstructionMix::matrix;
  return llvm::StringSwitch<Kind>(name.split('_').first)
      .Case("V", &InstructionMix::vector)
      .Case("DS", &InstructionMix::shared)
      .Cases({"BUFFER", "GLOBAL", "FLAT", "SCRATCH"}, &InstructionMix::memory)
      .Default(&InstructionMix::scalar);
}

Disassembler::Disassembler(const llvm::TargetMachine &machine)
    : instructions(*machine.getMCInstrInfo()),
      context(machine.getTargetTriple(), machine.getMCAsmInfo(),
              machine.getMCRegisterInfo(), machine.getMCSubtargetInfo()),
      disassembler(machine.getTarget().createMCDisassembler(
          *machine.getMCSubtargetInfo(), context)),
      analysis(machine.getTarget().createMCInstrAnalysis(&instructions)) {}

SmallVector<Instruction> Disassembler::read(ArrayRef<uint8_t> bytes,
                                            uint64_t address) {
  SmallVector<Instruction> code;
  llvm::DenseMap<uint64_t, size_t> indices;
  // Branches, and where they go to.
  SmallVector<std::pair<size_t, uint64_t>> branches;
  while (!bytes.empty()) {
    llvm::MCInst inst;
    uint64_t size = 0, target;
    if (disassembler->getInstruction(inst, size, bytes, address,
                                     llvm::nulls()) ==
        llvm::MCDisassembler::Fail)
      break;
    size_t index = code.size();
    indices[address] = index;
    Instruction &read = code.emplace_back();
    read.kind = getKind(instructions.getName(inst.getOpcode()));
    if (!analysis->isBarrier(inst))
      read.successors.push_back(index + 1);
    if (analysis->isBranch(inst) &&
        analysis->evaluateBranch(inst, address, size, target))
      branches.emplace_back(index, target);
    bytes = bytes.drop_front(size);
    address += size;
  }
  for (auto [index, target] : branches)
    if (auto it = indices.find(target); it != indices.end())
      code[index].successors.push_back(it->second);
  // The last instruction that was read may have none behind it.
  for (Instruction &instruction : code)
    llvm::erase_if(instruction.successors,
                   [&](size_t index) { return index >= code.size(); });
  return code;
}

/// One trip from `first` to `last`, both included, on the shortest way that
/// never goes back.
static InstructionMix countShortestWay(ArrayRef<Instruction> code, size_t first,
                                       size_t last) {
  constexpr size_t kUnseen = std::numeric_limits<size_t>::max();
  SmallVector<size_t> previous(code.size(), kUnseen);
  SmallVector<size_t> reached = {first};
  previous[first] = first;
  for (size_t next = 0; next < reached.size(); ++next)
    for (size_t successor : code[reached[next]].successors)
      if (successor > reached[next] && previous[successor] == kUnseen) {
        previous[successor] = reached[next];
        reached.push_back(successor);
      }
  InstructionMix mix;
  for (size_t at = last; previous[at] != kUnseen; at = previous[at]) {
    ++(mix.*code[at].kind);
    if (at == first)
      break;
  }
  return mix;
}

/// One trip through the loop in which most matrices are multiplied, on the
/// shortest way: what runs rarely, such as masks of a stage that is not whole,
/// is beside it.
static std::optional<InstructionMix> findMainLoop(ArrayRef<Instruction> code) {
  std::optional<InstructionMix> best;
  auto rank = [](const InstructionMix &mix) {
    return std::pair(mix.matrix, -mix.getTotal());
  };
  for (auto [index, instruction] : llvm::enumerate(code))
    for (size_t successor : instruction.successors) {
      if (successor > index)
        continue;
      InstructionMix mix = countShortestWay(code, successor, index);
      if (mix.matrix && (!best || rank(*best) < rank(mix)))
        best = mix;
    }
  return best;
}

LogicalResult
mlir::fp8moe::readMainLoops(StringRef hsaco, const TargetInfo &target,
                            MutableArrayRef<KernelResources> resources,
                            Location loc) {
  std::unique_ptr<llvm::TargetMachine> machine =
      createTargetMachine(target, loc);
  if (!machine)
    return failure();
  Disassembler disassembler(*machine);
  FailureOr<ELF> file = readELF(hsaco, loc);
  if (failed(file))
    return failure();
  if (!disassembler.isAvailable())
    return success();
  for (const llvm::object::ELFSymbolRef symbol : file->symbols()) {
    llvm::Expected<StringRef> name = symbol.getName();
    llvm::Expected<uint64_t> address = symbol.getAddress();
    llvm::Expected<llvm::object::section_iterator> section =
        symbol.getSection();
    if (llvm::Error error = llvm::joinErrors(
            llvm::joinErrors(name.takeError(), address.takeError()),
            section.takeError()))
      return emitError(loc) << "cannot read the symbols of the code object: "
                            << llvm::toString(std::move(error));
    auto *kernel = llvm::find_if(resources, [&](const KernelResources &kernel) {
      return kernel.kernel == *name;
    });
    if (kernel == resources.end() || *section == file->section_end())
      continue;
    llvm::Expected<StringRef> contents = (*section)->getContents();
    if (!contents)
      return emitError(loc) << "cannot read the code of kernel '" << *name
                            << "': " << llvm::toString(contents.takeError());
    StringRef code =
        contents->substr(*address - (*section)->getAddress(), symbol.getSize());
    kernel->mainLoop = findMainLoop(
        disassembler.read(llvm::arrayRefFromStringRef(code), *address));
  }
  return success();
}
