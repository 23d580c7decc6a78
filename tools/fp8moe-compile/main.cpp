//===- main.cpp - The program fp8moe-compile ------------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Tools.h"

int main(int argc, char **argv) { return tools::compileMain(argc, argv); }
