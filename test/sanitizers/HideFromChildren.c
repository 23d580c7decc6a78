//===- HideFromChildren.c - Preload libraries of one process ----*- C -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Preloaded as the last library. The programs that the process starts do not
// get the preloaded libraries.
//
//===----------------------------------------------------------------------===//

#include <stdlib.h>

__attribute__((constructor)) static void hideFromChildren(void) {
  unsetenv("LD_PRELOAD");
}
