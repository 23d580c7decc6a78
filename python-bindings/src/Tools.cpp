//===- Tools.cpp - The command-line tools in Python -----------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tools.h"
#include "IR.h"

using namespace fp8moe::python;

/// Runs a tool on the arguments, of which the first is its name.
static int runTool(const std::vector<nb::bytes> &arguments) {
  std::vector<std::string> texts;
  for (const nb::bytes &argument : arguments)
    texts.emplace_back(argument.c_str(), argument.size());
  std::vector<char *> argv;
  for (std::string &text : texts)
    argv.push_back(text.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(texts.size());
  if (texts.at(0) == "fp8moe-compile")
    return tools::compileMain(argc, argv.data());
  if (texts.at(0) == "fp8moe-opt")
    return tools::optMain(argc, argv.data());
  throw nb::value_error(("unknown tool '" + texts[0] + "'").c_str());
}

void fp8moe::python::bindTools(nb::module_ &module) {
  module.def("run_tool", &runTool, nb::arg("arguments"));
}
