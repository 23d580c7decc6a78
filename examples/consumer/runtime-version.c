//===- runtime-version.c - A program that links the runtime ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include <fp8moe-c/Runtime.h>
#include <stdio.h>

int main(void) {
  printf("fp8moe runtime %s, version %d of its C API\n",
         fp8moe_runtime_version(), (int)fp8moe_runtime_abi());
  return 0;
}
