//===- MockDriver.c - A GPU driver that records its calls -----------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
/*
 * Built twice: with the names of the CUDA driver and with those of HIP. Every
 * call that changes something is appended to a log as text. Any number of
 * threads may call, as with a driver.
 */

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#ifdef MOCK_HIP
#define NAME(cuda, hip) hip
#else
#define NAME(cuda, hip) cuda
#endif

static char log_text[1 << 16];
static int compute_major = 9, compute_minor = 0, launch_result = 0;
static int l2_bytes = 62914560, memory_khz = 3201000, memory_bits = 6144;
static int is_capturing;
static int context_object;
static __thread void *current_context;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Adds to this thread's line, which goes to the log as a whole. */
static void append(const char *format, ...) {
  static __thread char line[1024];
  size_t used = strlen(line);
  va_list args;
  va_start(args, format);
  vsnprintf(line + used, sizeof(line) - used, format, args);
  va_end(args);
  if (format[strlen(format) - 1] != '\n')
    return;
  pthread_mutex_lock(&mutex);
  used = strlen(log_text);
  snprintf(log_text + used, sizeof(log_text) - used, "%s", line);
  pthread_mutex_unlock(&mutex);
  line[0] = 0;
}

/* For programs that cannot ask: the log in a file when they end. */
__attribute__((destructor)) static void write_log(void) {
  const char *path = getenv("FP8MOE_MOCK_LOG");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file)
    return;
  fputs(log_text, file);
  fclose(file);
}

/* For the tests. */
EXPORT const char *mock_log(void) { return log_text; }
EXPORT void *mock_current_context(void) { return current_context; }
EXPORT void mock_reset(int major, int minor, int launch) {
  log_text[0] = 0;
  compute_major = major;
  compute_minor = minor;
  launch_result = launch;
}

/* The card; a negative number is one that the driver refuses. */
EXPORT void mock_set_card(int l2, int khz, int bits) {
  l2_bytes = l2;
  memory_khz = khz;
  memory_bits = bits;
}

/* Whether every stream is captured into a graph. */
EXPORT void mock_set_capturing(int capturing) { is_capturing = capturing; }

EXPORT int NAME(cuInit, hipInit)(unsigned flags) {
  (void)flags;
  return 0;
}
EXPORT int NAME(cuGetErrorName, hipDrvGetErrorName)(int error,
                                                    const char **text) {
  *text = error == 209 ? "NO_BINARY_FOR_GPU" : "MOCK_ERROR";
  return 0;
}
EXPORT int NAME(cuGetErrorString, hipDrvGetErrorString)(int error,
                                                        const char **text) {
  (void)error;
  *text = "mock error";
  return 0;
}
EXPORT int NAME(cuDeviceGetCount, hipGetDeviceCount)(int *count) {
  *count = 2;
  return 0;
}
EXPORT int NAME(cuDeviceGet, hipDeviceGet)(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}
EXPORT int NAME(cuDeviceGetAttribute,
                hipDeviceGetAttribute)(int *value, int attribute, int device) {
  (void)device;
  if (compute_major < 0)
    return 1; /* a device without attributes */
  if (attribute == NAME(16, 63))
    *value = 3; /* multiprocessors */
  else if (attribute == 75 || attribute == 76)
    *value = attribute == 75 ? compute_major : compute_minor;
  else if (attribute == NAME(38, 19))
    *value = l2_bytes;
  else if (attribute == NAME(36, 60))
    *value = memory_khz;
  else if (attribute == NAME(37, 59))
    *value = memory_bits;
  else
    return 1;
  return *value < 0;
}
EXPORT int NAME(cuDevicePrimaryCtxRetain,
                hipDevicePrimaryCtxRetain)(void **context, int device) {
  append("retain %d\n", device);
  *context = &context_object;
  return 0;
}
EXPORT int NAME(cuDevicePrimaryCtxRelease_v2,
                hipDevicePrimaryCtxRelease)(int device) {
  append("release %d\n", device);
  return 0;
}
EXPORT int NAME(cuCtxGetCurrent, hipCtxGetCurrent)(void **context) {
  *context = current_context;
  return 0;
}
EXPORT int NAME(cuCtxSetCurrent, hipCtxSetCurrent)(void *context) {
  current_context = context;
  return 0;
}
/* A module is its image. Images that begin with "bad" are for another chip. */
EXPORT int NAME(cuModuleLoadDataEx,
                hipModuleLoadDataEx)(void **module, const void *image,
                                     unsigned count, int *options,
                                     void **values) {
  (void)count, (void)options, (void)values;
  if (current_context != &context_object)
    return 201;
  append("load %s\n", (const char *)image);
  *module = (void *)1;
  return strncmp(image, "bad", 3) == 0 ? 209 : 0;
}
EXPORT int NAME(cuModuleUnload, hipModuleUnload)(void *module) {
  (void)module;
  append("unload\n");
  return 0;
}
/* A function is a copy of its name. */
static char functions[16][64];
static int num_functions;
static char *get_function(const char *name) {
  char *slot = NULL;
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < num_functions && !slot; ++i)
    if (strcmp(functions[i], name) == 0)
      slot = functions[i];
  if (!slot && num_functions < 16) {
    slot = functions[num_functions++];
    snprintf(slot, sizeof(functions[0]), "%s", name);
  }
  pthread_mutex_unlock(&mutex);
  return slot;
}
EXPORT int NAME(cuModuleGetFunction, hipModuleGetFunction)(void **function,
                                                           void *module,
                                                           const char *name) {
  (void)module;
  if (strcmp(name, "missing") == 0)
    return 500;
  *function = get_function(name);
  return *function ? 0 : 500;
}
EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) {
  append("attribute %s %d %d\n", (const char *)function, attribute, value);
  return 0;
}
/* Expects the parameters (address, i64). */
EXPORT int NAME(cuLaunchKernel,
                hipModuleLaunchKernel)(void *function, unsigned gx, unsigned gy,
                                       unsigned gz, unsigned bx, unsigned by,
                                       unsigned bz, unsigned shared,
                                       void *stream, void **params,
                                       void **extra) {
  (void)extra;
  if (current_context != &context_object)
    return 201;
  append("launch %s grid %u %u %u block %u %u %u shared %u stream %p "
         "args %p %lld\n",
         (const char *)function, gx, gy, gz, bx, by, bz, shared, stream,
         *(void **)params[0], (long long)*(int64_t *)params[1]);
  return launch_result;
}

/* Two blocks, or one cluster in all, fit with less than 1024 bytes each. */
EXPORT int NAME(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                hipModuleOccupancyMaxActiveBlocksPerMultiprocessor)(
    int *blocks, void *function, int threads, size_t shared) {
  (void)function, (void)threads;
  *blocks = shared <= 1024 ? 2 : 1;
  return 0;
}
#ifdef MOCK_HIP
EXPORT int hipStreamIsCapturing(void *stream, int *status) {
  (void)stream;
  *status = is_capturing;
  return 0;
}
EXPORT int hipModuleLaunchCooperativeKernel(void *function, unsigned gx,
                                            unsigned gy, unsigned gz,
                                            unsigned bx, unsigned by,
                                            unsigned bz, unsigned shared,
                                            void *stream, void **params) {
  append("cooperative ");
  return hipModuleLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream,
                               params, NULL);
}
#else
/* CUlaunchAttribute, CUlaunchConfig and CUtensorMap. */
struct launch_attribute {
  int id;
  char pad[4];
  union {
    char pad[64];
    int cooperative, programmatic;
    unsigned cluster[3];
  } value;
};
struct launch_config {
  unsigned grid[3], block[3], shared;
  void *stream;
  struct launch_attribute *attributes;
  unsigned count;
};
struct tensor_map {
  _Alignas(64) char text[128];
};

EXPORT int cuOccupancyMaxActiveClusters(int *clusters, void *function,
                                        const struct launch_config *config) {
  (void)function;
  *clusters = config->shared <= 1024 ? 2 : 1;
  return 0;
}
EXPORT int cuLaunchKernelEx(const struct launch_config *config, void *function,
                            void **params, void **extra) {
  for (unsigned i = 0; i < config->count; ++i) {
    const struct launch_attribute *attribute = &config->attributes[i];
    if (attribute->id == 2)
      append("cooperative %d ", attribute->value.cooperative);
    else if (attribute->id == 4)
      append("cluster %u %u %u ", attribute->value.cluster[0],
             attribute->value.cluster[1], attribute->value.cluster[2]);
    else if (attribute->id == 6)
      append("programmatic %d ", attribute->value.programmatic);
    else
      return 1;
  }
  /* A kernel "tma" has a tensor map before its other parameters. */
  if (strcmp(function, "tma") == 0) {
    const struct tensor_map *map = params[0];
    if ((uintptr_t)map % 64 != 0)
      return 1;
    append("map %s ", map->text);
    ++params;
  }
  return cuLaunchKernel(function, config->grid[0], config->grid[1],
                        config->grid[2], config->block[0], config->block[1],
                        config->block[2], config->shared, config->stream,
                        params, extra);
}
/* A map is its description. */
EXPORT int cuTensorMapEncodeTiled(struct tensor_map *map, int type,
                                  unsigned rank, void *address,
                                  const uint64_t *sizes,
                                  const uint64_t *strides, const unsigned *box,
                                  const unsigned *element_strides,
                                  int interleave, int swizzle, int promotion,
                                  int fill) {
  size_t used = 0;
#define ADD(...)                                                               \
  used += snprintf(map->text + used, sizeof(map->text) - used, __VA_ARGS__)
  if (current_context != &context_object)
    return 201;
  if ((uintptr_t)map % 64 != 0 || interleave != 0 || fill != 0)
    return 1;
  ADD("type %d at %p", type, address);
  for (unsigned i = 0; i < rank; ++i) {
    if (element_strides[i] != 1)
      return 1;
    ADD(" %lld/%u", (long long)sizes[i], box[i]);
    if (i > 0)
      ADD("*%lld", (long long)strides[i - 1]);
  }
  ADD(" swizzle %d promotion %d", swizzle, promotion);
#undef ADD
  return rank == 5 ? 1 : 0;
}
#endif

/* Memory, which fp8moe-run allocates and copies itself. */
EXPORT int NAME(cuMemAlloc_v2, hipMalloc)(void **block, size_t bytes) {
  *block = aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *block ? 0 : 2;
}
EXPORT int NAME(cuMemFree_v2, hipFree)(void *block) {
  free(block);
  return 0;
}
EXPORT int NAME(cuMemsetD8_v2, hipMemsetD8)(void *block, unsigned char value,
                                            size_t bytes) {
  memset(block, value, bytes);
  return 0;
}
EXPORT int NAME(cuMemcpyHtoD_v2, hipMemcpyHtoD)(void *to, const void *from,
                                                size_t bytes) {
  memcpy(to, from, bytes);
  return 0;
}
EXPORT int NAME(cuMemcpyDtoH_v2, hipMemcpyDtoH)(void *to, const void *from,
                                                size_t bytes) {
  memcpy(to, from, bytes);
  return 0;
}
EXPORT int NAME(cuCtxSynchronize, hipDeviceSynchronize)(void) { return 0; }
#ifdef MOCK_HIP
EXPORT int hipSetDevice(int device) {
  (void)device;
  return hipCtxSetCurrent(&context_object);
}
#endif
