//===- compiler-version.c - A program that links the compiler -------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include <fp8moe-c/Compiler.h>
#include <stdio.h>

int main(void) {
  MlirStringRef version = fp8moeCompilerVersion();
  printf("fp8moe compiler %.*s\n", (int)version.length, version.data);
  return 0;
}
