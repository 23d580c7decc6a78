//===- PlanDialect.cpp - The host plan dialect ----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/Plan/IR/Plan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe::plan;

#include "fp8moe/Dialect/Plan/IR/PlanDialect.cpp.inc"

#include "fp8moe/Dialect/Plan/IR/PlanEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "fp8moe/Dialect/Plan/IR/PlanTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fp8moe/Dialect/Plan/IR/PlanAttributes.cpp.inc"

void PlanDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "fp8moe/Dialect/Plan/IR/PlanTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fp8moe/Dialect/Plan/IR/PlanAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fp8moe/Dialect/Plan/IR/PlanOps.cpp.inc"
      >();
}

Operation *PlanDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                            Type type, Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

LogicalResult PlanDialect::verifyRegionArgAttribute(Operation *op,
                                                    unsigned region,
                                                    unsigned index,
                                                    NamedAttribute attribute) {
  if (attribute.getName() != kTensorMapAttrName)
    return op->emitError("has the unknown attribute '")
           << attribute.getName().getValue()
           << "' on a parameter; this dialect knows '" << kTensorMapAttrName
           << "'";
  auto function = dyn_cast<FunctionOpInterface>(op);
  Type type = function ? function.getArgumentTypes()[index]
                       : op->getRegion(region).getArgument(index).getType();
  if (!isa<UnitAttr>(attribute.getValue()) || !isa<LLVM::LLVMPointerType>(type))
    return op->emitError("has '")
           << kTensorMapAttrName << " = " << attribute.getValue()
           << "' on parameter " << index << " of type " << type
           << "; expected a unit attribute on a parameter of type !llvm.ptr";
  return success();
}

LogicalResult
PlanDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                         NamedAttribute attribute) {
  return op->emitError("has the attribute '")
         << attribute.getName().getValue()
         << "' on a result; this dialect has attributes of parameters only";
}

std::optional<StringRef>
mlir::fp8moe::plan::getManifestDtype(Type elementType) {
  if (auto integer = dyn_cast<IntegerType>(elementType)) {
    bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
    case 1:
      return "BOOL";
    case 8:
      return isUnsigned ? "U8" : "I8";
    case 16:
      return isUnsigned ? "U16" : "I16";
    case 32:
      return isUnsigned ? "U32" : "I32";
    case 64:
      return isUnsigned ? "U64" : "I64";
    default:
      return std::nullopt;
    }
  }
  return llvm::TypeSwitch<Type, std::optional<StringRef>>(elementType)
      .Case([](BFloat16Type) { return "BF16"; })
      .Case([](Float16Type) { return "F16"; })
      .Case([](Float32Type) { return "F32"; })
      .Case([](Float64Type) { return "F64"; })
      .Case([](Float8E4M3FNType) { return "F8_E4M3"; })
      .Case([](Float8E4M3FNUZType) { return "F8_E4M3FNUZ"; })
      .Case([](Float8E5M2Type) { return "F8_E5M2"; })
      .Case([](Float8E5M2FNUZType) { return "F8_E5M2FNUZ"; })
      .Case([](Float8E8M0FNUType) { return "F8_E8M0"; })
      .Default([](Type) { return std::nullopt; });
}

bool mlir::fp8moe::plan::isAllowedArithmetic(Operation *op) {
  // Logic on conditions; on sizes it would be bit manipulation.
  bool isLogic = isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op);
  if (!isLogic &&
      !isa<arith::AddIOp, arith::CeilDivSIOp, arith::CeilDivUIOp, arith::CmpIOp,
           arith::ConstantOp, arith::DivSIOp, arith::DivUIOp, arith::MaxSIOp,
           arith::MaxUIOp, arith::MinSIOp, arith::MinUIOp, arith::MulIOp,
           arith::RemSIOp, arith::RemUIOp, arith::SelectOp, arith::SubIOp>(op))
    return false;
  auto isCondition = [](Type type) { return type.isInteger(1); };
  if (isLogic)
    return llvm::all_of(op->getOperandTypes(), isCondition);
  auto isSize = [&](Type type) { return type.isIndex() || isCondition(type); };
  bool isArithmetic =
      !isa<arith::CmpIOp, arith::ConstantOp, arith::SelectOp>(op);
  if (isArithmetic)
    return llvm::all_of(op->getResultTypes(),
                        [](Type type) { return type.isIndex(); });
  return llvm::all_of(op->getResultTypes(), isSize) &&
         llvm::all_of(op->getOperandTypes(), isSize);
}

int64_t mlir::fp8moe::plan::getStaticStride(MemRefType type, unsigned dim) {
  auto [strides, offset] = type.getStridesAndOffset();
  return strides[dim];
}
