//===- DefineCPUEntries.cpp - Kernels that rebuild memrefs ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CPUEntries.h"

#include "fp8moe/Conversion/Passes.h"
#include "fp8moe/Dialect/Plan/IR/Plan.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::fp8moe {
#define GEN_PASS_DEF_DEFINECPUENTRIES
#include "fp8moe/Conversion/Passes.h.inc"
} // namespace mlir::fp8moe

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

/// Takes the values that rebuild a memref off a kernel's parameters.
class ParameterReader {
public:
  ParameterReader(Block &entry, size_t numPointers)
      : pointers(entry.getArguments().take_front(numPointers)),
        numbers(entry.getArguments().drop_front(numPointers)) {}

  Value takePointer() { return take(pointers); }
  Value takeNumber() { return take(numbers); }

private:
  static Value take(Block::BlockArgListType &arguments) {
    Value value = arguments.front();
    arguments = arguments.drop_front();
    return value;
  }

  Block::BlockArgListType pointers, numbers;
};

/// Whether a pointer, sizes and strides make the memref, as they do all that
/// convert-fp8moe-to-loops makes.
bool isRebuildable(const LLVMTypeConverter &converter, MemRefType type) {
  if (type.getMemorySpace() || !converter.convertType(type.getElementType()))
    return false;
  auto layout = dyn_cast<StridedLayoutAttr>(type.getLayout());
  return layout ? layout.getOffset() == 0 : type.getLayout().isIdentity();
}

/// Rebuilds a memref from its pointer and what its type leaves open.
Value rebuildMemref(ImplicitLocOpBuilder &b, const LLVMTypeConverter &converter,
                    MemRefType type, ParameterReader &reader) {
  Location loc = b.getLoc();
  auto descriptor =
      MemRefDescriptor::poison(b, loc, converter.convertType(type));
  Value pointer = reader.takePointer();
  descriptor.setAllocatedPtr(b, loc, pointer);
  descriptor.setAlignedPtr(b, loc, pointer);
  descriptor.setConstantOffset(b, loc, 0);

  auto getExtent = [&](int64_t known) -> Value {
    if (ShapedType::isDynamic(known))
      return reader.takeNumber();
    return arith::ConstantIntOp::create(b, known, /*width=*/64);
  };
  SmallVector<Value> sizes = llvm::map_to_vector(type.getShape(), getExtent);
  SmallVector<Value> strides(type.getRank());
  if (auto layout = dyn_cast<StridedLayoutAttr>(type.getLayout())) {
    strides = llvm::map_to_vector(layout.getStrides(), getExtent);
  } else {
    Value stride = getExtent(1);
    for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
      strides[dim] = stride;
      stride = b.createOrFold<arith::MulIOp>(stride, sizes[dim]);
    }
  }
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    descriptor.setSize(b, loc, dim, sizes[dim]);
    descriptor.setStride(b, loc, dim, strides[dim]);
  }
  return UnrealizedConversionCastOp::create(b, type, Value(descriptor))
      .getResult(0);
}

/// Whether a buffer may have the memory of another one.
bool mayShareMemory(Value buffer) {
  if (auto output = buffer.getDefiningOp<plan::OutputOp>())
    return output.getMayOverwrite() != nullptr;
  return llvm::any_of(buffer.getUsers(), llvm::IsaPred<plan::OutputOp>);
}

struct DefineCPUEntriesPass
    : public fp8moe::impl::DefineCPUEntriesBase<DefineCPUEntriesPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    DenseMap<StringAttr, plan::LaunchOp> launches;
    getOperation().walk([&](plan::LaunchOp launch) {
      launches[launch.getKernel().getLeafReference()] = launch;
    });
    for (auto kernel : getOperation().getOps<func::FuncOp>()) {
      auto bodyName =
          kernel->getAttrOfType<FlatSymbolRefAttr>(kEntryOfAttrName);
      if (!bodyName)
        continue;
      auto body = symbols.lookup<func::FuncOp>(bodyName.getAttr());
      if (failed(verify(kernel, bodyName, body)))
        return signalPassFailure();
      define(kernel, body, launches.lookup(kernel.getSymNameAttr()));
    }
  }

private:
  /// Checks that the body has the parameters that the kernel was declared for.
  LogicalResult verify(func::FuncOp kernel, FlatSymbolRefAttr bodyName,
                       func::FuncOp body) {
    if (!kernel.isExternal())
      return kernel.emitError("has a body already, but also the attribute '")
             << kEntryOfAttrName << "'";
    if (!body)
      return kernel.emitError("is the entry of ")
             << bodyName << ", which is no function of this module";
    if (body.getNumResults() != 0 ||
        !llvm::all_of(body.getArgumentTypes(), llvm::IsaPred<MemRefType>))
      return kernel.emitError("is the entry of ")
             << bodyName
             << ", which must take memrefs and return nothing; run "
                "-convert-fp8moe-to-loops first";
    LLVMTypeConverter converter(&getContext());
    for (auto [index, type] : llvm::enumerate(body.getArgumentTypes()))
      if (!isRebuildable(converter, cast<MemRefType>(type)))
        return kernel.emitError("is the entry of ")
               << bodyName << ", whose parameter " << index << " is a " << type
               << "; expected numbers in row-major order or with strides, "
                  "without an offset or a memory space";
    size_t numParameters = body.getNumArguments();
    for (Type type : body.getArgumentTypes()) {
      DynamicExtents extents = DynamicExtents::get(cast<MemRefType>(type));
      numParameters += extents.sizes.size() + extents.strides.size();
    }
    if (kernel.getNumArguments() != numParameters)
      return kernel.emitError("was declared with ")
             << kernel.getNumArguments() << " parameters, but " << bodyName
             << " needs " << numParameters
             << "; its signature must not change after "
                "-fp8moe-plan-cpu-entries";
    // Pointers come first, one for each memref, and then numbers.
    Type pointer = LLVM::LLVMPointerType::get(&getContext());
    Type number = IntegerType::get(&getContext(), 64);
    for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes()))
      if (Type expected = index < body.getNumArguments() ? pointer : number;
          type != expected)
        return kernel.emitError("was declared with parameter ")
               << index << " of type " << type << ", but " << bodyName
               << " needs " << expected
               << " there; its signature must not change after "
                  "-fp8moe-plan-cpu-entries";
    return success();
  }

  void define(func::FuncOp kernel, func::FuncOp body, plan::LaunchOp launch) {
    LLVMTypeConverter converter(&getContext());
    Block &entry = *kernel.addEntryBlock();
    auto b = ImplicitLocOpBuilder::atBlockBegin(kernel.getLoc(), &entry);
    ParameterReader reader(entry, body.getNumArguments());
    SmallVector<Value> memrefs =
        llvm::map_to_vector(body.getArgumentTypes(), [&](Type type) {
          return rebuildMemref(b, converter, cast<MemRefType>(type), reader);
        });
    func::CallOp::create(b, body, memrefs);
    func::ReturnOp::create(b);

    // Outputs overlap nothing, which the runtime sees to, but what the program
    // lets them overwrite; and inputs are only read.
    auto isShared = [&](unsigned i) {
      return launch && i < launch.getArgs().size() &&
             mayShareMemory(launch.getArgs()[i]);
    };
    for (unsigned i = 0; i < body.getNumArguments(); ++i)
      if (!isShared(i))
        kernel.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                          b.getUnitAttr());
    kernel->removeAttr(kEntryOfAttrName);
    kernel.setPublic();
    body.setPrivate();
    body->setAttr("llvm.linkage", LLVM::LinkageAttr::get(
                                      &getContext(), LLVM::Linkage::Internal));
  }
};

} // namespace
