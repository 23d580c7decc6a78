//===- Input.h - One input of the compiler or the runtime ----- -*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_FUZZ_INPUT_H
#define FP8MOE_TOOLS_FUZZ_INPUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace fuzz {

/// The reader of the input.
enum class Kind { IR, Bytecode, Pipeline, Manifest, Binary, Safetensors };

inline constexpr size_t kNumKinds = 6;

/// As the command line has them: "ir", "bytecode", ...
llvm::StringRef stringifyKind(Kind kind);
std::optional<Kind> parseKind(llvm::StringRef name);
llvm::ArrayRef<Kind> allKinds();

struct Input {
  Kind kind = Kind::IR;
  /// The work on it, in words that the reader of this kind understands: "sm_90a
  /// lower", for example.
  std::string choice;
  std::string bytes;
};

/// The input as a file for `--reproduce`: a line with kind and choice, which is
/// a comment of IR, then the bytes.
std::string toFile(const Input &input);
llvm::Expected<Input> fromFile(llvm::StringRef contents);

} // namespace fuzz

#endif // FP8MOE_TOOLS_FUZZ_INPUT_H
