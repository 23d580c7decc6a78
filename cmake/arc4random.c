//===- arc4random.c - Random numbers on older systems ---------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// libstdc++'s archive calls arc4random, which glibc has since 2.36. With this
// one, binaries load from glibc 2.34 on.
//
//===----------------------------------------------------------------------===//

#include <sys/random.h>

unsigned arc4random(void) {
  unsigned value;
  while (getrandom(&value, sizeof value, 0) != sizeof value)
    ;
  return value;
}
