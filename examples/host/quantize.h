//===- quantize.h - Runs quantize.mlir on the CPU -------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef QUANTIZE_H
#define QUANTIZE_H

#include <fp8moe-c/Runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { kTokens = 1000, kColumns = 2048, kGroups = 64 };

static void check(int is_good) {
  if (is_good)
    return;
  fprintf(stderr, "error: %s\n", fp8moe_last_error());
  exit(1);
}

/* FNV-1a. */
static uint64_t hash(const unsigned char *data, uint64_t bytes) {
  uint64_t result = 14695981039346656037u;
  for (uint64_t i = 0; i < bytes; ++i)
    result = (result ^ data[i]) * 1099511628211u;
  return result;
}

/* Quantizes a matrix and prints a hash of each result. */
static void quantize(const fp8moe_artifact *artifact) {
  const fp8moe_program *program =
      fp8moe_artifact_find_program(artifact, "quantize_grad");
  check(program != NULL);

  /* First the sizes: once for a set of shapes. */
  int64_t grad_shape[] = {kTokens, kColumns}, offsets_shape[] = {kGroups};
  fp8moe_tensor tensors[] = {{FP8MOE_DTYPE_BF16, 2, grad_shape, NULL},
                             {FP8MOE_DTYPE_I32, 1, offsets_shape, NULL}};
  fp8moe_call *call;
  check(fp8moe_program_resolve(program, tensors, 2, &call) == FP8MOE_OK);
  uint64_t workspace_bytes = fp8moe_call_workspace_bytes(call);
  uint64_t align = fp8moe_call_workspace_align(call);
  void *workspace = aligned_alloc(align, (workspace_bytes / align + 1) * align);
  void *outputs[2];
  for (int i = 0; i < 2; ++i)
    outputs[i] = malloc(fp8moe_call_output(call, i)->bytes);

  /* Then the data: as often as these shapes come. The bits of bf16 1.0 are
     0x3f80; group i ends before row offsets[i]. */
  uint16_t *grad = malloc(sizeof(uint16_t) * kTokens * kColumns);
  for (int i = 0; i < kTokens * kColumns; ++i)
    grad[i] = (uint16_t)(0x3f80 + i % 251);
  int32_t offsets[kGroups];
  for (int i = 0; i < kGroups; ++i)
    offsets[i] = (i + 1) * kTokens / kGroups;
  const void *inputs[] = {grad, offsets};
  check(fp8moe_call_run(call, inputs, outputs, workspace, workspace_bytes,
                        /*stream=*/NULL) == FP8MOE_OK);

  for (int i = 0; i < 2; ++i) {
    const fp8moe_buffer *output = fp8moe_call_output(call, i);
    printf("%s %s %016llx\n", output->name, output->dtype_name,
           (unsigned long long)hash(outputs[i], output->bytes));
    free(outputs[i]);
  }
  free(grad);
  free(workspace);
  fp8moe_call_destroy(call);
}

#endif
