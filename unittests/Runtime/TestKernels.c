//===- TestKernels.c - CPU kernels of the runtime's tests -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define ARG(type, i) (*(type *)params[i])

/* (float *in, float *out, i64 m, i64 n, i64 outStride0, i64 outStride1):
   out = 2 * in, with any layout of the output. */
EXPORT void twice(void **params) {
  const float *in = ARG(const float *, 0);
  float *out = ARG(float *, 1);
  int64_t m = ARG(int64_t, 2), n = ARG(int64_t, 3);
  int64_t stride0 = ARG(int64_t, 4), stride1 = ARG(int64_t, 5);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      out[i * stride0 + j * stride1] = 2 * in[i * n + j];
}

/* (i64 *out, i64 a, i64 b, i64 c): out = {a, b, c}. */
EXPORT void store(void **params) {
  int64_t *out = ARG(int64_t *, 0);
  out[0] = ARG(int64_t, 1);
  out[1] = ARG(int64_t, 2);
  out[2] = ARG(int64_t, 3);
}

/* (i64 *out, void *a, void *b): the addresses as numbers. */
EXPORT void addresses(void **params) {
  int64_t *out = ARG(int64_t *, 0);
  out[0] = ARG(int64_t, 1);
  out[1] = ARG(int64_t, 2);
}
