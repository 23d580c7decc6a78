// MLIR reads types from bytecode without verifying them.

// RUN: not fp8moe-opt %S/Inputs/size-below-zero.mlirbc --fp8moe-verify-layouts 2>&1 | FileCheck %s
// CHECK: error: 'func.func' op has a tensor of a size below zero: 'tensor<-9223323091189366784x64xf32>'; the bytecode that it was read from is damaged
