// examples/moe_layer.mlir names no layouts between quantizations and matmuls. The compiler chooses
// layouts without copies or views, and padded groups for wgrad.

// RUN: fp8moe-compile %examples/moe_layer.mlir --target=sm_90a --emit=tensor 2>/dev/null \
// RUN: | FileCheck %s --implicit-check-not=relayout --implicit-check-not=contiguous

// Each launch is a quantization or a matmul. A single-pass kernel is followed by its fallback, a
// kernel for both axes by one for each. A matmul with dynamic tokens has two tiles.

// RUN: fp8moe-compile %examples/moe_layer.mlir --target=sm_90a --emit=mlir 2>/dev/null \
// RUN: | grep -e 'fp8moe_plan.program' -e 'fp8moe_plan.launch' | FileCheck %s --check-prefix=PLAN

// PLAN:      program @forward
// PLAN-NEXT: launch @{{.*}}::@quantize_
// PLAN-NEXT: launch @{{.*}}::@quantize_
// PLAN-NEXT: launch @{{.*}}::@grouped_matmul_{{[0-9]}}
// PLAN-NEXT: launch @{{.*}}::@grouped_matmul_{{[0-9]}}
// PLAN-NEXT: program @backward
// PLAN-NEXT: launch @{{.*}}::@quantize_single_pass_both_axes_
// PLAN-NEXT: launch @{{.*}}::@clear_words_
// PLAN-NEXT: launch @{{.*}}::@quantize_rescaled_lines_
// PLAN-NEXT: launch @{{.*}}::@quantize_rescaled_columns_
// PLAN-NEXT: launch @{{.*}}::@quantize_single_pass_outer_
// PLAN-NEXT: launch @{{.*}}::@quantize_two_pass_outer_transposing_
// PLAN-NEXT: launch @{{.*}}::@quantize_register_resident_
// PLAN-NEXT: launch @{{.*}}::@quantize_single_pass_outer_
// PLAN-NEXT: launch @{{.*}}::@quantize_two_pass_outer_transposing_
// PLAN-NEXT: launch @{{.*}}::@grouped_matmul_{{[0-9]}}
// PLAN-NEXT: launch @{{.*}}::@grouped_matmul_{{[0-9]}}
// PLAN-NEXT: launch @{{.*}}::@quantize_single_pass_outer_
// PLAN-NEXT: launch @{{.*}}::@quantize_two_pass_outer_transposing_
// PLAN-NEXT: launch @{{.*}}::@grouped_matmul_k_grouped
// PLAN-NOT:  launch

// CHECK-LABEL: func.func @forward
// CHECK: dynamic_quantize %arg0 along [1] {{.*}} -> tensor<?x2048xf8E4M3FN>, tensor<?xf32>
// CHECK: dynamic_quantize %arg1 along [1] {{.*}} -> tensor<?x2048x1408xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>
// CHECK: grouped_matmul

// CHECK-LABEL: func.func @backward
// CHECK-DAG: dynamic_quantize %arg2 along [2] {{.*}} -> tensor<?x2048x1408xf8E4M3FN>, tensor<?x2048xf32>
// CHECK-DAG: transpose {{.*}} -> tensor<?x1408x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>
// CHECK-DAG: grouped_matmul {{.*}} -> tensor<?x2048xbf16>
// CHECK-DAG: jagged_dynamic_quantize %arg0 {{.*}} along [0, 1] {{.*}} -> tensor<?x1408xf8E4M3FN, #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>>, tensor<?x1408xf8E4M3FN>
// CHECK-DAG: jagged_dynamic_quantize %arg1 {{.*}} -> tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>>
// CHECK-DAG: transpose {{.*}} -> tensor<1408x?xf8E4M3FN, #fp8moe.strided<[0, 1], align = 16, groups<dim = 1, pad = 128>>>
// CHECK: grouped_matmul {{.*}} -> tensor<?x1408x2048xbf16>
