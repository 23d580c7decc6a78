// RUN: fp8moe-opt --help | FileCheck %s

// CHECK: Bytecode is trusted
// CHECK: Available Dialects:{{.*}}fp8moe
