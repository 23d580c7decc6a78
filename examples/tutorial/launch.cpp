//===- launch.cpp - Runs an artifact from C++ -----------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Step 5 of docs/users/tutorial.md: program quantize_grad of out/cpu on 300
// tokens of four groups.
//
//===----------------------------------------------------------------------===//

#include "fp8moe-c/Runtime.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(bool isOk) {
  if (isOk)
    return;
  std::fprintf(stderr, "%s\n", fp8moe_last_error());
  std::exit(1);
}

int main(int argc, char **argv) {
  fp8moe_artifact *artifact = nullptr;
  check(fp8moe_artifact_load(argc > 1 ? argv[1] : "out/cpu", "cpu",
                             &artifact) == FP8MOE_OK);
  const fp8moe_program *program =
      fp8moe_artifact_find_program(artifact, "quantize_grad");
  check(program != nullptr);

  // 64 experts, of which the first four have tokens.
  const int64_t tokens = 300, width = 2048;
  std::vector<uint16_t> grad(tokens * width, 0x3F80); // 1.0 in bf16
  grad[5] = 0x4480;                                   // 1024.0
  std::vector<int32_t> offsets(64, 300);
  offsets[0] = 10, offsets[1] = 10, offsets[2] = 200;

  // Once for each set of shapes: sizes of outputs and of the workspace.
  const int64_t shape[] = {tokens, width}, groups[] = {64};
  const fp8moe_tensor tensors[] = {{FP8MOE_DTYPE_BF16, 2, shape, nullptr},
                                   {FP8MOE_DTYPE_I32, 1, groups, nullptr}};
  fp8moe_call *call = nullptr;
  check(fp8moe_program_resolve(program, tensors, 2, &call) == FP8MOE_OK);
  std::vector<uint8_t> quantized(fp8moe_call_output(call, 0)->bytes);
  std::vector<float> scales(fp8moe_call_output(call, 1)->bytes / sizeof(float));
  const uint64_t bytes = fp8moe_call_workspace_bytes(call);
  void *workspace =
      bytes ? std::aligned_alloc(256, (bytes + 255) / 256 * 256) : nullptr;

  // As often as you like. On a GPU pointers are of the device, and the last
  // argument is the stream.
  const void *inputs[] = {grad.data(), offsets.data()};
  void *outputs[] = {quantized.data(), scales.data()};
  check(fp8moe_call_run(call, inputs, outputs, workspace, bytes, nullptr) ==
        FP8MOE_OK);
  std::printf("scale of column 5: %g in group 0, %g in group 2\n", scales[5],
              scales[2 * width + 5]);

  std::free(workspace);
  fp8moe_call_destroy(call);
  fp8moe_artifact_unload(artifact);
  return 0;
}
