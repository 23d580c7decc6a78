//===- from-folder.c - An artifact in a folder ----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "quantize.h"

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  fp8moe_artifact *artifact;
  check(fp8moe_artifact_load(argv[1], "cpu", &artifact) == FP8MOE_OK);
  quantize(artifact);
  fp8moe_artifact_unload(artifact);
  return 0;
}
