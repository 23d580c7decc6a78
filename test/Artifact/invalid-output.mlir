// RUN: rm -rf %t && mkdir %t && touch %t/file

// An output folder that cannot be created or written to is an error. No temporary file is left in
// it.
// RUN: not fp8moe-opt %s --test-fp8moe-write-artifact="chip=cpu dir=%t/file/out" -o /dev/null 2>&1 | FileCheck %s --check-prefix=FOLDER
// FOLDER: error: cannot create the output folder {{.*}}/file/out: Not a directory
// RUN: mkdir -p %t/out/kernels.so/in-the-way
// RUN: not fp8moe-opt %s --test-fp8moe-write-artifact="chip=cpu dir=%t/out" -o /dev/null 2>&1 | FileCheck %s --check-prefix=FILE
// FILE: error: cannot write {{.*}}/out/kernels.so: Is a directory; choose another output folder or make this one writable
// RUN: ls %t/out | FileCheck %s --check-prefix=LEFT
// LEFT-NOT: tmp

// RUN: not fp8moe-opt %s --test-fp8moe-emit="chip=sm_90a kind=hsaco" -o /dev/null 2>&1 | FileCheck %s --check-prefix=KIND
// KIND: error: target sm_90a has no output 'hsaco'; it has tensor, kernel, mlir, llvm, asm, ptx, cubin
// RUN: not fp8moe-opt %s --test-fp8moe-emit="chip=sm_90a kind=cubin ptxas=%t/file" -o /dev/null 2>&1 | FileCheck %s --check-prefix=PTXAS
// PTXAS: error: --ptxas names '{{.*}}/file', which is not an executable file

// A module without a program to write is an error, and no folder is created.
// RUN: echo "module {}" | not fp8moe-opt --test-fp8moe-write-artifact="chip=sm_90a dir=%t/none" -o /dev/null 2>&1 | FileCheck %s --check-prefix=PROGRAM
// PROGRAM: error: there is no program to write: the module has no public function with a body, or none that was lowered for target
// RUN: not ls %t/none

fp8moe_plan.program @nothing {
  %x = fp8moe_plan.input "x" align 4 : memref<?xf32>
}
