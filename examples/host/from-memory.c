//===- from-memory.c - An artifact in the program -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "quantize.h"

/* The bytes of a file between NAME and NAME_end. */
#define EMBED(name, file)                                                      \
  __asm__(".pushsection .rodata\n" #name ": .incbin \"" file "\"\n" #name      \
          "_end:\n.popsection\n");                                             \
  extern const char name[], name##_end[]

EMBED(manifest, ARTIFACT "/manifest.json");
EMBED(kernels, ARTIFACT "/kernels.so");

int main(void) {
  fp8moe_file files[] = {
      {"manifest.json", manifest, (uint64_t)(manifest_end - manifest)},
      {"kernels.so", kernels, (uint64_t)(kernels_end - kernels)}};
  fp8moe_artifact *artifact;
  check(fp8moe_artifact_load_files(files, 2, "cpu", &artifact) == FP8MOE_OK);
  quantize(artifact);
  fp8moe_artifact_unload(artifact);
  return 0;
}
