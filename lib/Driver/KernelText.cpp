//===- KernelText.cpp - Kernels with headers ------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelText.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Dialect/Kernel/IR/Kernel.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <set>

using namespace mlir;
using namespace mlir::fp8moe;

//===----------------------------------------------------------------------===//
// Values of plans
//===----------------------------------------------------------------------===//

static std::string describe(Value value);

static std::string describeAll(StringRef name, ValueRange values) {
  return (name + "(" + llvm::join(llvm::map_range(values, describe), ", ") +
          ")")
      .str();
}

static std::string describeMap(plan::TensorMapOp map) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto type = cast<MemRefType>(map.getBuffer().getType());
  os << "tensor map of " << describe(map.getBuffer()) << ", box of ";
  llvm::interleave(map.getBox(), os, "x");
  os << " " << type.getElementType() << ", swizzle " << map.getSwizzle();
  return text;
}

/// An argument, a size or a condition: the buffers by their names, and what is
/// computed of them.
static std::string describe(Value value) {
  APInt constant;
  if (matchPattern(value, m_One()) && value.getType().isInteger(1))
    return "true";
  if (matchPattern(value, m_ConstantInt(&constant)))
    return llvm::toString(constant, 10, /*Signed=*/true);
  auto describeExtent = [](auto op) {
    return describe(op.getBuffer()) + "." + op->getName().stripDialect().str() +
           "(" + std::to_string(op.getDimension()) + ")";
  };
  Operation *op = value.getDefiningOp();
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case<plan::InputOp, plan::OutputOp>(
          [](auto buffer) { return buffer.getBufferName().str(); })
      .Case<plan::DimOp, plan::StrideOp>(describeExtent)
      .Case([](plan::TensorMapOp map) { return describeMap(map); })
      .Case([](plan::DeviceAttrOp attribute) {
        return plan::stringifyDeviceAttribute(attribute.getAttribute()).str();
      })
      .Case([](arith::CmpIOp compare) {
        return describeAll(
            arith::stringifyCmpIPredicate(compare.getPredicate()),
            compare->getOperands());
      })
      .Case([](arith::XOrIOp exclusive) {
        bool isNot = exclusive.getType().isInteger(1) &&
                     matchPattern(exclusive.getRhs(), m_One());
        return isNot ? describeAll("not", exclusive.getLhs())
                     : describeAll("xori", exclusive->getOperands());
      })
      .Default([](Operation *other) {
        return describeAll(other->getName().stripDialect(),
                           other->getOperands());
      });
}

/// The grid, and the rest as the operation has it: "block(...) shared ...".
static std::string describeLaunch(plan::LaunchOp launch) {
  std::string text;
  llvm::raw_string_ostream os(text);
  launch.print(os, OpPrintingFlags().useLocalScope());
  StringRef rest = StringRef(text).drop_front(text.find(" block("));
  return describeAll("launch: grid", launch.getGrid()) +
         rest.take_front(std::min(rest.find(" when("), rest.find(" args(")))
             .str() +
         (launch.getCondition() ? " when " + describe(launch.getCondition())
                                : "");
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

namespace {
/// An address in shared memory: bytes, more of them for each stage, and what
/// depends on the thread.
struct SharedOffset {
  int64_t bytes = 0, bytesPerStage = 0;

  void add(Value value, Value stage, int64_t factor = 1);
};
} // namespace

void SharedOffset::add(Value value, Value stage, int64_t factor) {
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number))) {
    bytes += number.getSExtValue() * factor;
    return;
  }
  if (value == stage) {
    bytesPerStage += factor;
    return;
  }
  Operation *op = value.getDefiningOp();
  if (auto gep = dyn_cast_or_null<LLVM::GEPOp>(op)) {
    add(gep.getBase(), stage);
    for (auto index : gep.getIndices())
      if (auto dynamic = dyn_cast<Value>(index))
        add(dynamic, stage);
      else
        bytes += cast<IntegerAttr>(index).getInt();
  } else if (isa_and_nonnull<arith::AddIOp>(op)) {
    add(op->getOperand(0), stage, factor);
    add(op->getOperand(1), stage, factor);
  } else if (isa_and_nonnull<arith::MulIOp>(op) &&
             matchPattern(op->getOperand(1), m_ConstantInt(&number))) {
    add(op->getOperand(0), stage, factor * number.getSExtValue());
  }
}

/// The parts of shared memory that a kernel names, in their order: where each
/// stage lies, and where other parts begin.
static SmallVector<std::string> describeShared(gpu::GPUFuncOp kernel) {
  std::map<std::string, int64_t> begins;
  std::set<std::pair<int64_t, std::string>> parts;
  kernel.walk([&](kernel::SharedPartOp part) {
    // Descriptors are made of addresses that have parts as well.
    if (part.getType().isInteger())
      return;
    SharedOffset offset;
    offset.add(part.getAddress(), part.getStage());
    std::string label = (kernel::stringifySharedUse(part.getUse()) + " \"" +
                         part.getName() + "\"")
                            .str();
    if (offset.bytesPerStage)
      parts.insert({offset.bytes, " + " + std::to_string(offset.bytesPerStage) +
                                      " * stage: " + label});
    else if (auto [begin, isNew] = begins.try_emplace(label, offset.bytes);
             !isNew)
      begin->second = std::min(begin->second, offset.bytes);
  });
  for (auto &begin : begins)
    if (llvm::none_of(parts, [&](auto &part) {
          return StringRef(part.second).ends_with(begin.first);
        }))
      parts.insert({begin.second, ": " + begin.first});
  SmallVector<std::string> lines;
  for (auto &[bytes, text] : parts)
    lines.push_back("shared " + std::to_string(bytes) + text);
  return lines;
}

//===----------------------------------------------------------------------===//
// Headers
//===----------------------------------------------------------------------===//

KernelText::KernelText(ModuleOp tensors) {
  tensors.walk([&](func::FuncOp function) {
    for (BlockArgument argument : function.getArguments())
      if (auto name = function.getArgAttrOfType<StringAttr>(
              argument.getArgNumber(), FP8MoEDialect::kNameAttrName))
        argument.setLoc(NameLoc::get(name, argument.getLoc()));
    function.walk([&](Operation *op) {
      // A kernel's operation is found by its location.
      if (!isa_and_nonnull<FP8MoEDialect>(op->getDialect()) ||
          isa<UnknownLoc>(op->getLoc()))
        return;
      llvm::raw_string_ostream os(operations[op->getLoc()].emplace_back());
      op->print(os, OpPrintingFlags().useLocalScope().printNameLocAsPrefix());
    });
  });
}

/// "x.dim(0)" --> "x_dim_0", "128" --> "_128". Sizes that are computed of
/// others are "size".
static std::string createName(StringRef text) {
  constexpr size_t kMaxLength = 20;
  if (text.size() > kMaxLength)
    return "size";
  std::string name = text.str();
  for (char &c : name)
    c = llvm::isAlnum(c) ? c : '_';
  return (llvm::isDigit(name.front()) ? "_" : "") +
         StringRef(name).rtrim('_').str();
}

/// Names parameters as they are printed: no two are equal.
static std::string nameParameter(BlockArgument parameter, StringRef text,
                                 std::set<std::string> &used) {
  auto given = dyn_cast<NameLoc>(parameter.getLoc());
  std::string name = given ? given.getName().str() : createName(text);
  std::string unique = name;
  for (int64_t number = 0; !used.insert(unique).second; ++number)
    unique = (name + "_" + Twine(number)).str();
  auto attribute = StringAttr::get(parameter.getContext(), unique);
  parameter.setLoc(NameLoc::get(attribute, parameter.getLoc()));
  return unique;
}

/// Names constants whose usual names do not say what they are.
static void nameConstants(Operation *kernel) {
  // Larger numbers are masks and the bits of descriptors, most of them.
  constexpr uint64_t kLeastMask = uint64_t(1) << 24;
  kernel->walk([&](Operation *op) {
    APInt integer;
    APFloat number(0.0f);
    SmallString<32> name;
    if (matchPattern(op, m_ConstantFloat(&number))) {
      name = "f";
      number.toString(name, /*FormatPrecision=*/6);
    } else if (matchPattern(op, m_ConstantInt(&integer)) &&
               integer.zextOrTrunc(64).uge(kLeastMask)) {
      name = "c0x";
      integer.toStringUnsigned(name, /*Radix=*/16);
    } else if (auto address = dyn_cast<LLVM::AddressOfOp>(op)) {
      name = address.getGlobalName();
    } else {
      return;
    }
    op->setLoc(NameLoc::get(StringAttr::get(op->getContext(), name)));
  });
}

void KernelText::describe(ModuleOp module) {
  module.walk([&](plan::LaunchOp launch) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<gpu::GPUFuncOp>(
        launch, launch.getKernelAttr());
    SmallVector<std::string> &header = headers[kernel.getName()];
    // Operations that share a kernel have a launch each.
    if (!header.empty())
      return header.push_back(describeLaunch(launch));
    header = operations.lookup(launch.getLoc());
    header.push_back(describeLaunch(launch));
    std::set<std::string> used;
    for (auto [parameter, argument] :
         llvm::zip_equal(kernel.getArguments(), launch.getArgs())) {
      std::string text = ::describe(argument);
      header.push_back("%" + nameParameter(parameter, text, used) + ": " +
                       text);
    }
    llvm::append_range(header, describeShared(kernel));
    nameConstants(kernel);
  });
}

void KernelText::print(ModuleOp module, raw_ostream &os) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().printNameLocAsPrefix());
  for (StringRef line : llvm::split(text, '\n')) {
    StringRef code = line.ltrim(), name = code;
    if (name.consume_front("gpu.func @"))
      if (auto header =
              headers.find(name.take_until([](char c) { return c == '('; }));
          header != headers.end())
        for (const std::string &comment : header->second)
          os << line.drop_back(code.size()) << "// " << comment << "\n";
    os << line << "\n";
  }
}
