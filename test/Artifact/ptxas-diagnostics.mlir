// Spills that ptxas accepts are an error at the kernel, as they make it many times slower. Warnings
// and errors of ptxas are errors, too.

// DEFINE: %{emit} = fp8moe-opt %s --test-fp8moe-emit="chip=sm_90a kind=cubin output=%t ptxas=%S/Inputs/fake-ptxas.sh" -o /dev/null

// RUN: env FAKE_PTXAS_LOG=%S/Inputs/ptxas-spills.log not %{emit} 2>&1 | FileCheck %s --check-prefix=SPILLS
// SPILLS: ptxas-diagnostics.mlir:[[#@LINE+22]]:3: error: kernel 'k' does not fit its 255 registers and spills 32 bytes; choose a smaller tile or more threads

// RUN: env FAKE_PTXAS_LOG=%S/Inputs/ptxas-serialized.log not %{emit} 2>&1 | FileCheck %s --check-prefix=SERIALIZED
// SERIALIZED: error: ptxas accepted the kernels for sm_90a, but not without complaint: ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized

// RUN: env FAKE_PTXAS_LOG=%S/Inputs/ptxas-warning.log not %{emit} 2>&1 | FileCheck %s --check-prefix=WARNING
// WARNING: error: ptxas accepted the kernels for sm_90a, but not without complaint: {{.*}} warning : something is odd

// RUN: env FAKE_PTXAS_LOG=%S/Inputs/ptxas-error.log FAKE_PTXAS_STATUS=255 not %{emit} 2>&1 | FileCheck %s --check-prefix=ERROR
// ERROR: error: ptxas failed for sm_90a ({{.*}}fake-ptxas.sh): {{.*}}Unknown symbol 'x'

// RUN: env FAKE_PTXAS_HANGS=1 FP8MOE_PTXAS_SECONDS=1 FAKE_PTXAS_LOG=/dev/null not %{emit} 2>&1 | FileCheck %s --check-prefix=HANGS
// HANGS: error: ptxas failed for sm_90a ({{.*}}fake-ptxas.sh): it has not ended after 1 s, which FP8MOE_PTXAS_SECONDS sets

// The program named as ptxas exits with 0 but writes no cubin.
// RUN: env FAKE_PTXAS_LOG=%S/Inputs/ptxas-alone.log FAKE_PTXAS_SILENT=1 not %{emit} 2>&1 | FileCheck %s --check-prefix=SILENT
// SILENT: error: {{.*}}fake-ptxas.sh ended without an error for sm_90a, but wrote no cubin; name NVIDIA's ptxas with --ptxas or FP8MOE_PTXAS

// RUN: env FAKE_PTXAS_LOG=/dev/null not %{emit} 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: ptxas-diagnostics.mlir:[[#@LINE+3]]:3: error: the log of {{.*}}fake-ptxas.sh has no registers and spills of kernel 'k'; use a ptxas of CUDA 12.8 to 13

gpu.module @kernels {
  llvm.func @k() attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
}
