//===- Error.h - Errors inside the runtime ----------------------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The library throws errors as exceptions. The C API turns these into a status
// and a message.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_RUNTIME_ERROR_H
#define FP8MOE_LIB_RUNTIME_ERROR_H

#include "fp8moe-c/Runtime.h"

#include <sstream>
#include <stdexcept>
#include <string>

namespace fp8moe::runtime {

class Error : public std::runtime_error {
public:
  Error(fp8moe_status status, const std::string &message)
      : std::runtime_error(message), code(status) {}
  fp8moe_status status() const { return code; }

private:
  fp8moe_status code;
};

/// Throws an Error whose message is the concatenation of all `parts`.
template <typename... Parts>
[[noreturn]] void fail(fp8moe_status status, const Parts &...parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(status, message.str());
}

} // namespace fp8moe::runtime

#endif // FP8MOE_LIB_RUNTIME_ERROR_H
