//===- Input.cpp - One input of the compiler or the runtime ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Input.h"

#include "llvm/ADT/StringExtras.h"

using namespace fuzz;
using llvm::StringRef;

static constexpr llvm::StringLiteral kHeader = "// fp8moe-fuzz ";

llvm::ArrayRef<Kind> fuzz::allKinds() {
  static constexpr Kind kinds[kNumKinds] = {Kind::IR,       Kind::Bytecode,
                                            Kind::Pipeline, Kind::Manifest,
                                            Kind::Binary,   Kind::Safetensors};
  return kinds;
}

StringRef fuzz::stringifyKind(Kind kind) {
  switch (kind) {
  case Kind::IR:
    return "ir";
  case Kind::Bytecode:
    return "bytecode";
  case Kind::Pipeline:
    return "pipeline";
  case Kind::Manifest:
    return "manifest";
  case Kind::Binary:
    return "binary";
  case Kind::Safetensors:
    return "safetensors";
  }
  llvm_unreachable("unknown kind");
}

std::optional<Kind> fuzz::parseKind(StringRef name) {
  for (Kind kind : allKinds())
    if (stringifyKind(kind) == name)
      return kind;
  return std::nullopt;
}

std::string fuzz::toFile(const Input &input) {
  return (kHeader + stringifyKind(input.kind) + " " + input.choice + "\n" +
          input.bytes)
      .str();
}

llvm::Expected<Input> fuzz::fromFile(StringRef contents) {
  auto [header, bytes] = contents.split('\n');
  auto [name, choice] = header.substr(kHeader.size()).split(' ');
  std::optional<Kind> kind = parseKind(name);
  if (!header.starts_with(kHeader) || !kind)
    return llvm::createStringError("the first line is no '" + kHeader +
                                   "KIND CHOICE'; it was written with the "
                                   "file of a find");
  return Input{*kind, choice.str(), bytes.str()};
}
