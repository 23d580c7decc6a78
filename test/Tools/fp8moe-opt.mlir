// RUN: fp8moe-opt --help | FileCheck %s

// CHECK: Available Dialects:{{.*}}fp8moe
