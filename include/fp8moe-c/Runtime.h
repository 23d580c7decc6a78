//===- Runtime.h - C API of the fp8moe runtime --------------------*- C -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads an artifact, a folder with manifest.json and a binary, and runs its
// programs on the CPU, on NVIDIA GPUs (CUDA driver) and on AMD GPUs (HIP). No
// AMD card has run one yet.
//
//   fp8moe_artifact *artifact;
//   fp8moe_artifact_load("out/sm_90a", "cuda:0", &artifact);
//   const fp8moe_program *program =
//       fp8moe_artifact_find_program(artifact, "f");
//
//   // Once per set of shapes: allocate outputs and workspace of these sizes.
//   fp8moe_call *call;
//   fp8moe_program_resolve(program, tensors, num_tensors, &call);
//   fp8moe_call_output(call, 0)->bytes;
//   fp8moe_call_workspace_bytes(call);
//
//   // As often as you like.
//   fp8moe_call_run(call, inputs, outputs, workspace, bytes, stream);
//
//   fp8moe_call_destroy(call);
//   fp8moe_artifact_unload(artifact);
//
// A call is the program with every size known. fp8moe_program_resolve checks
// shapes and evaluates sizes once. fp8moe_call_run allocates nothing, never
// synchronises, and may be captured into a GPU graph. So sizes
// take two passes: resolve says how large outputs and workspace are, the caller
// allocates, and run fills them. Outputs and workspace may hold anything before
// a run, and nothing in the workspace is needed after it: one workspace serves
// all calls of a stream that are never in flight at once.
//
// Errors. Functions return a status, or a pointer that is null on failure; the
// message is then in fp8moe_last_error() of the same thread. Nothing aborts,
// and no C++ exception leaves the library.
//
// Threads. An artifact, its programs and a call are immutable: any number of
// threads may use them at once. Two runs in flight at once need different
// outputs and different workspaces.
//
// Ownership. The caller owns all tensor memory. The runtime owns what a `const`
// pointer refers to: what comes from a program lives until its artifact is
// unloaded, what comes from a call until the call is destroyed. A call stays
// valid after its artifact was unloaded.
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_C_RUNTIME_H
#define FP8MOE_C_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FP8MOE_EXPORT __attribute__((visibility("default")))
#else
#define FP8MOE_EXPORT
#endif

// Names are in the style of C.
// NOLINTBEGIN(readability-identifier-naming)

#ifdef __cplusplus
extern "C" {
#endif

/// Grows when a function or struct below changes incompatibly.
#define FP8MOE_RUNTIME_ABI 1

typedef struct fp8moe_artifact fp8moe_artifact;
typedef struct fp8moe_program fp8moe_program;
typedef struct fp8moe_call fp8moe_call;

typedef enum fp8moe_status {
  FP8MOE_OK = 0,
  /// The caller passed something that the program does not accept.
  FP8MOE_INVALID_ARGUMENT = 1,
  /// The artifact is malformed, damaged or incomplete.
  FP8MOE_INVALID_ARTIFACT = 2,
  /// The artifact is sound, but needs another device or a newer runtime.
  FP8MOE_UNSUPPORTED = 3,
  /// No such folder, program, device or driver library.
  FP8MOE_NOT_FOUND = 4,
  /// A size does not fit: arithmetic overflow, division by zero, launch limits.
  FP8MOE_OUT_OF_RANGE = 5,
  /// The device's driver reported an error.
  FP8MOE_DEVICE_ERROR = 6,
  /// The host is out of memory.
  FP8MOE_OUT_OF_MEMORY = 7,
  /// A defect of the runtime itself; please report it.
  FP8MOE_INTERNAL_ERROR = 8
} fp8moe_status;

/// Element types. The names used in messages and manifests are those of
/// safetensors, plus the two FNUZ types of AMD's gfx942.
typedef enum fp8moe_dtype {
  /// In fp8moe_tensor: do not check the element type.
  FP8MOE_DTYPE_UNKNOWN = 0,
  FP8MOE_DTYPE_BOOL = 1,
  FP8MOE_DTYPE_U8 = 2,
  FP8MOE_DTYPE_I8 = 3,
  FP8MOE_DTYPE_U16 = 4,
  FP8MOE_DTYPE_I16 = 5,
  FP8MOE_DTYPE_U32 = 6,
  FP8MOE_DTYPE_I32 = 7,
  FP8MOE_DTYPE_U64 = 8,
  FP8MOE_DTYPE_I64 = 9,
  FP8MOE_DTYPE_F8_E4M3 = 10,
  FP8MOE_DTYPE_F8_E5M2 = 11,
  FP8MOE_DTYPE_F8_E8M0 = 12,
  FP8MOE_DTYPE_F8_E4M3FNUZ = 13,
  FP8MOE_DTYPE_F8_E5M2FNUZ = 14,
  FP8MOE_DTYPE_F16 = 15,
  FP8MOE_DTYPE_BF16 = 16,
  FP8MOE_DTYPE_F32 = 17,
  FP8MOE_DTYPE_F64 = 18
} fp8moe_dtype;

/// In fp8moe_buffer of a program: the extent or stride is known only in a call.
#define FP8MOE_DYNAMIC INT64_MIN

/// An input or output of a program or of a call. For a program, dynamic entries
/// are FP8MOE_DYNAMIC and `bytes` is 0. For a call, everything is known.
typedef struct fp8moe_buffer {
  const char *name;
  fp8moe_dtype dtype;
  /// For example "BF16".
  const char *dtype_name;
  int32_t rank;
  /// `rank` extents.
  const int64_t *shape;
  /// `rank` strides in elements.
  const int64_t *strides;
  /// From the first byte of the first element to the last byte of the last one.
  uint64_t bytes;
  /// The required alignment of the data pointer, in bytes.
  uint64_t align;
} fp8moe_buffer;

/// The shape of an input, as the caller has it in memory.
typedef struct fp8moe_tensor {
  /// An fp8moe_dtype; FP8MOE_DTYPE_UNKNOWN when the caller vouches for it.
  int32_t dtype;
  int32_t rank;
  const int64_t *shape;
  /// In elements; null means dense row-major.
  const int64_t *strides;
} fp8moe_tensor;

//===----------------------------------------------------------------------===//
// Library
//===----------------------------------------------------------------------===//

/// For example "0.1.0".
FP8MOE_EXPORT const char *fp8moe_runtime_version(void);

/// FP8MOE_RUNTIME_ABI of the library, for callers that load it at run time.
FP8MOE_EXPORT int32_t fp8moe_runtime_abi(void);

/// The message of this thread's last failed function; valid until its next call
/// of any function of this header. Never null.
FP8MOE_EXPORT const char *fp8moe_last_error(void);

/// The status of this thread's last failed function, for the functions that
/// return a pointer.
FP8MOE_EXPORT fp8moe_status fp8moe_last_status(void);

//===----------------------------------------------------------------------===//
// Artifact
//===----------------------------------------------------------------------===//

/// Loads the artifact in folder `path`. `device` is "cpu", "cuda:N", "hip:N"
/// ("cuda" and "hip" mean number 0), or "none": then nothing is loaded but the
/// manifest, every program can be resolved and described, and none can be run.
///
/// The manifest, the checksums of all files and the fit of target and device
/// are checked here. The first of several binaries that the device takes is
/// used (a cubin before the PTX that every newer device can translate).
///
/// Drivers are opened at run time: libcuda.so.1, and libamdhip64.so or its
/// versioned names, first of all the one that the process has loaded.
/// FP8MOE_CUDA_DRIVER and FP8MOE_HIP_RUNTIME in the environment name other
/// files.
FP8MOE_EXPORT fp8moe_status fp8moe_artifact_load(const char *path,
                                                 const char *device,
                                                 fp8moe_artifact **artifact);

/// A file of an artifact in memory.
typedef struct fp8moe_file {
  /// "manifest.json", or the name of a binary that it lists.
  const char *name;
  const void *data;
  uint64_t bytes;
} fp8moe_file;

/// fp8moe_artifact_load of files in memory, for programs that carry an artifact
/// within themselves. All binaries that the manifest lists are among them. The
/// memory may be freed once this returns.
FP8MOE_EXPORT fp8moe_status
fp8moe_artifact_load_files(const fp8moe_file *files, size_t num_files,
                           const char *device, fp8moe_artifact **artifact);

/// Gives the handle back; null is allowed. Device resources are freed once the
/// last call made from it is destroyed too. The caller makes sure that nothing
/// of it is still running on a GPU.
FP8MOE_EXPORT void fp8moe_artifact_unload(fp8moe_artifact *artifact);

/// The chip that it was compiled for, for example "sm_90a", "gfx942", "cpu".
FP8MOE_EXPORT const char *fp8moe_artifact_chip(const fp8moe_artifact *artifact);

/// The file of the binary in use, for example "kernels.cubin"; empty on device
/// "none".
FP8MOE_EXPORT const char *
fp8moe_artifact_binary(const fp8moe_artifact *artifact);

FP8MOE_EXPORT size_t
fp8moe_artifact_num_programs(const fp8moe_artifact *artifact);

/// Null when there is no such program.
FP8MOE_EXPORT const fp8moe_program *
fp8moe_artifact_program(const fp8moe_artifact *artifact, size_t index);

/// Null when there is no such program; the message lists those that exist.
FP8MOE_EXPORT const fp8moe_program *
fp8moe_artifact_find_program(const fp8moe_artifact *artifact, const char *name);

//===----------------------------------------------------------------------===//
// Program
//===----------------------------------------------------------------------===//

FP8MOE_EXPORT const char *fp8moe_program_name(const fp8moe_program *program);
FP8MOE_EXPORT size_t fp8moe_program_num_inputs(const fp8moe_program *program);
FP8MOE_EXPORT size_t fp8moe_program_num_outputs(const fp8moe_program *program);

/// Null when there is no such input or output.
FP8MOE_EXPORT const fp8moe_buffer *
fp8moe_program_input(const fp8moe_program *program, size_t index);
FP8MOE_EXPORT const fp8moe_buffer *
fp8moe_program_output(const fp8moe_program *program, size_t index);

/// The index of the input whose memory output `output` may be, or -1 when there
/// is none. fp8moe_call_run then allows one address for both, with equal shapes
/// and strides. Such outputs add to their input, as gradients of several
/// microbatches do.
FP8MOE_EXPORT int64_t fp8moe_program_output_may_overwrite(
    const fp8moe_program *program, size_t output);

/// Checks the inputs' types, shapes and strides and evaluates everything that
/// follows from them. `inputs` has `num_inputs` entries in the program's order.
/// The strides of an empty tensor, and of a dimension with one element, are not
/// looked at. Fails with FP8MOE_OUT_OF_RANGE when a launch whose blocks wait
/// for each other does not fit the device as a whole.
FP8MOE_EXPORT fp8moe_status fp8moe_program_resolve(
    const fp8moe_program *program, const fp8moe_tensor *inputs,
    size_t num_inputs, fp8moe_call **call);

//===----------------------------------------------------------------------===//
// Call
//===----------------------------------------------------------------------===//

/// Null when there is no such input or output.
FP8MOE_EXPORT const fp8moe_buffer *fp8moe_call_input(const fp8moe_call *call,
                                                     size_t index);
FP8MOE_EXPORT const fp8moe_buffer *fp8moe_call_output(const fp8moe_call *call,
                                                      size_t index);

/// The least size of the workspace, and what its address must be a multiple of.
FP8MOE_EXPORT uint64_t fp8moe_call_workspace_bytes(const fp8moe_call *call);
FP8MOE_EXPORT uint64_t fp8moe_call_workspace_align(const fp8moe_call *call);

/// Runs the program: on the CPU before this returns, on a GPU in `stream`, a
/// CUstream or hipStream_t. Null is the default stream, and the only choice on
/// the CPU.
///
/// `inputs` and `outputs` hold the data pointers in the program's order: host
/// memory on the CPU, else memory of the device. A pointer may be null when its
/// tensor has no bytes, and so may the workspace. Refused are
/// misaligned pointers, a workspace that is too small, and tensors that a
/// kernel's tensor maps cannot describe. Outputs and the workspace may not
/// overlap other memory. The exception is an output in the memory of the input
/// that fp8moe_program_output_may_overwrite names. Nothing was launched if this
/// is FP8MOE_INVALID_ARGUMENT. The alignment of addresses may decide which of
/// several variants of a kernel is launched.
FP8MOE_EXPORT fp8moe_status fp8moe_call_run(
    const fp8moe_call *call, const void *const *inputs, void *const *outputs,
    void *workspace, uint64_t workspace_bytes, void *stream);

/// The arguments of fp8moe_call_run in one block of memory. Behind it follow
/// the addresses of the inputs and then of the outputs, 8 bytes each.
typedef struct fp8moe_run_block {
  const fp8moe_call *call;
  void *workspace;
  uint64_t workspace_bytes;
  void *stream;
} fp8moe_run_block;

/// fp8moe_call_run for languages in which every argument of a foreign function
/// costs time. `size` is that of the whole block in bytes.
FP8MOE_EXPORT fp8moe_status fp8moe_call_run_block(const fp8moe_run_block *block,
                                                  size_t size);

/// The call as JSON text, for people and for executors outside of this library
/// (schema in docs/users/runtime.md); to be freed with fp8moe_string_free.
FP8MOE_EXPORT fp8moe_status fp8moe_call_describe(const fp8moe_call *call,
                                                 char **json);

FP8MOE_EXPORT void fp8moe_string_free(char *string);

/// Null is allowed. May be called as soon as fp8moe_call_run returned.
FP8MOE_EXPORT void fp8moe_call_destroy(fp8moe_call *call);

#ifdef __cplusplus
} // extern "C"
#endif

// NOLINTEND(readability-identifier-naming)

#endif // FP8MOE_C_RUNTIME_H
