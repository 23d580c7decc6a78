//===- CommandLine.h - Command-line options of all tools --------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TOOLS_COMMANDLINE_H
#define FP8MOE_TOOLS_COMMANDLINE_H

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <limits>
#include <string>

namespace tools {

/// Sets the output of --version: the project's version and LLVM's.
inline void setVersionPrinter(llvm::StringRef tool) {
  llvm::cl::SetVersionPrinter([tool](llvm::raw_ostream &os) {
    os << tool << " " FP8MOE_VERSION ", LLVM " LLVM_VERSION_STRING "\n";
  });
}

/// The options of a tool's own, which --help shows alone.
inline llvm::cl::OptionCategory &getCategory() {
  static llvm::cl::OptionCategory category("Options");
  return category;
}

/// Adds an option or a list of options to the category.
template <typename Base> struct Own : Base {
  template <typename... Modifiers>
  explicit Own(const Modifiers &...modifiers)
      : Base(modifiers..., llvm::cl::cat(getCategory())) {}
};
template <typename T, typename Parser = llvm::cl::parser<T>>
using Option = Own<llvm::cl::opt<T, /*ExternalStorage=*/false, Parser>>;
template <typename T> using List = Own<llvm::cl::list<T>>;

/// The type of an option whose value is an integer from `Least` to `Most`.
template <typename T, T Least = std::numeric_limits<T>::min(),
          T Most = std::numeric_limits<T>::max()>
struct Integer {
  T value = 0;

  Integer() = default;
  Integer(T value) : value(value) {}
  operator T() const { return value; }
};

} // namespace tools

/// Parses an Integer. Errors name the range, which those of LLVM's integer
/// parsers do not; these are final classes.
template <typename T, T Least, T Most>
class llvm::cl::parser<tools::Integer<T, Least, Most>>
    : public basic_parser<tools::Integer<T, Least, Most>> {
  using Integer = tools::Integer<T, Least, Most>;

public:
  using basic_parser<Integer>::basic_parser;

  bool parse(Option &option, StringRef, StringRef text, Integer &value) {
    if (!text.getAsInteger(10, value.value) && value.value >= Least &&
        value.value <= Most)
      return false;
    return option.error("expects an integer from " + std::to_string(Least) +
                        " to " + std::to_string(Most) + ", found '" + text +
                        "'");
  }
  void printOptionDiff(const Option &option, const Integer &,
                       const OptionValue<Integer> &, size_t width) const {
    this->printOptionName(option, width);
  }
};

#endif // FP8MOE_TOOLS_COMMANDLINE_H
