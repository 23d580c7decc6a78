//===- FP8MoETypes.cpp - FP8 types and what they stand for ----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.h"

#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8moe;

#define GET_TYPEDEF_CLASSES
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.cpp.inc"

void FP8MoEDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoETypes.cpp.inc"
      >();
}

Type FP8MoEDialect::parseType(DialectAsmParser &parser) const {
  SMLoc loc = parser.getCurrentLocation();
  StringRef mnemonic;
  Type type;
  if (generatedTypeParser(parser, &mnemonic, type).has_value())
    return type;
  parser.emitError(loc, "unknown type `")
      << mnemonic << "` in dialect `fp8moe`; its types are !fp8moe."
      << E4M3Type::getMnemonic() << " and !fp8moe." << E5M2Type::getMnemonic();
  return {};
}

void FP8MoEDialect::printType(Type type, DialectAsmPrinter &printer) const {
  (void)generatedTypePrinter(type, printer);
}

bool fp8moe::isNeutralFp8Type(Type type) {
  return isa<E4M3Type, E5M2Type>(type);
}

bool fp8moe::isFp8Type(Type type) {
  return isNeutralFp8Type(type) || getFp8Flavour(type);
}

Fp8Format fp8moe::getFp8Format(Type type) {
  return isa<E4M3Type, Float8E4M3FNType, Float8E4M3FNUZType>(type)
             ? Fp8Format::E4M3
             : Fp8Format::E5M2;
}

std::optional<Fp8Flavour> fp8moe::getFp8Flavour(Type type) {
  if (isa<Float8E4M3FNType, Float8E5M2Type>(type))
    return Fp8Flavour::FN;
  if (isa<Float8E4M3FNUZType, Float8E5M2FNUZType>(type))
    return Fp8Flavour::FNUZ;
  return std::nullopt;
}

Type fp8moe::getBuiltinFp8Type(MLIRContext *context, Fp8Format format,
                               Fp8Flavour flavour) {
  bool fn = flavour == Fp8Flavour::FN;
  if (format == Fp8Format::E4M3)
    return fn ? Type(Float8E4M3FNType::get(context))
              : Type(Float8E4M3FNUZType::get(context));
  return fn ? Type(Float8E5M2Type::get(context))
            : Type(Float8E5M2FNUZType::get(context));
}

double fp8moe::getFp8Max(Type type) {
  const llvm::fltSemantics &semantics =
      cast<FloatType>(type).getFloatSemantics();
  return APFloat::getLargest(semantics).convertToDouble();
}
