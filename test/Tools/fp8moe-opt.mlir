// --help lists the project's passes first, then MLIR's main options.
// RUN: fp8moe-opt --help | FileCheck %s --implicit-check-not=affine-loop --implicit-check-not=amdgpu-use

// CHECK: Bytecode is trusted
// CHECK: --help-hidden lists MLIR's passes and LLVM's options, too
// CHECK: OPTIONS:
// CHECK: Compiler passes and pipelines of fp8moe:
// CHECK: --convert-fp8moe-to-gpu
// CHECK: --fp8moe-settle-layouts
// CHECK: Pass Pipelines:
// CHECK: --fp8moe-to-nvvm
// CHECK: MLIR's options:
// CHECK: --mlir-timing
// CHECK: --split-input-file

// RUN: fp8moe-opt --help-hidden | FileCheck %s --check-prefix=ALL
// ALL: --affine-loop-fusion
// ALL: --fp8moe-settle-layouts
// ALL: --amdgpu-use-aa-in-codegen

// RUN: fp8moe-opt --affine-loop-fusion %s
