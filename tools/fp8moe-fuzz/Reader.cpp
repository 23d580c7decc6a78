//===- Reader.cpp - Gives inputs to their readers -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Readers.h"

using namespace fuzz;

Outcome fuzz::readInput(const Input &input, Session &session) {
  session.begin();
  switch (input.kind) {
  case Kind::IR:
    return readModule(input, session);
  case Kind::Bytecode:
    return readBytecode(input, session);
  case Kind::Pipeline:
    return readPipeline(input, session);
  case Kind::Manifest:
    return readManifest(input, session);
  case Kind::Binary:
    return readBinary(input, session);
  case Kind::Safetensors:
    return readSafetensors(input, session);
  }
  llvm_unreachable("unknown kind");
}
