// A whole MoE layer (examples/moe_block.mlir). Gathered tokens and the result of SwiGLU are
// computed where they are quantized. No launch writes them, and no copy is left.

// RUN: fp8moe-compile %examples/moe_block.mlir --target=sm_90a --emit=tensor 2>/dev/null \
// RUN: | FileCheck %s --implicit-check-not=relayout --implicit-check-not=contiguous

// CHECK-LABEL: func.func @forward
// CHECK:       fp8moe.gather_rows
// CHECK-NEXT:  jagged_dynamic_quantize {{.*}} along [0, 1] {{.*}} fused = true
// CHECK-NEXT:  dynamic_quantize %arg3 along [1]
// CHECK-NEXT:  grouped_matmul
// CHECK-NEXT:  fp8moe.swiglu
// CHECK-NEXT:  jagged_dynamic_quantize {{.*}} along [0, 1] {{.*}} fused = true
// CHECK-NEXT:  dynamic_quantize %arg4 along [1]
// CHECK-NEXT:  grouped_matmul
// CHECK-LABEL: func.func @backward

// The report compares the program's time with the lower bound from its bytes and FLOPs. Rows that
// their readers compute move no bytes.

// RUN: fp8moe-compile %examples/moe_block.mlir --target=sm_90a --report -o %t 2>/dev/null \
// RUN: | FileCheck %s --check-prefix=REPORT

// REPORT:      forward after the tensor passes
// REPORT-NEXT: fp8moe.gather_rows {{.*}} 0 B
// REPORT-NEXT: fp8moe.jagged_dynamic_quantize {{.*}} 336855552 B
// REPORT:      predicted {{ *}}least
// REPORT:      program forward {{ *}}{{[0-9.]+}} us {{ *}}{{[0-9.]+}} us {{ *}}{{[0-9]+}}% of predicted
// REPORT:      program backward {{ *}}{{[0-9.]+}} us {{ *}}{{[0-9.]+}} us {{ *}}{{[0-9]+}}% of predicted
