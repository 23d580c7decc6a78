// examples/mx_weights.mlir casts all experts as one matrix and copies the data and the scales. This
// becomes one kernel that reads the weights once.

// RUN: fp8moe-compile %examples/mx_weights.mlir --target=sm_90a --emit=tensor 2>/dev/null \
// RUN: | FileCheck %s --implicit-check-not=fp8moe.relayout --implicit-check-not=fp8moe.contiguous
// RUN: fp8moe-compile %examples/mx_weights.mlir --target=gfx950 --emit=tensor 2>/dev/null \
// RUN: | FileCheck %s --implicit-check-not=fp8moe.relayout --implicit-check-not=fp8moe.contiguous
// RUN: fp8moe-compile %examples/mx_weights.mlir --target=sm_90a --emit=mlir 2>/dev/null \
// RUN: | FileCheck %s --check-prefix=LAUNCH --implicit-check-not=fp8moe_plan.launch \
// RUN:     --implicit-check-not=fp8moe_plan.workspace
// RUN: fp8moe-compile %examples/mx_weights.mlir --target=cpu --emit=tensor 2>/dev/null \
// RUN: | FileCheck %s --check-prefix=CPU --implicit-check-not=fp8moe.relayout --implicit-check-not=fp8moe.contiguous

// CHECK-LABEL: func.func @mx_weights
// CHECK-SAME:  (%[[W:.*]]: tensor<64x1408x2048xbf16>
// CHECK-NEXT:  %[[Q:.*]]:2, %[[S:.*]]:2 = fp8moe.mx_quantize %[[W]] along [2, 1] mode rceil
// CHECK-SAME:    -> tensor<64x1408x2048xf8E4M3FN>, tensor<64x1408x2048xf8E4M3FN, #fp8moe.strided<[0, 2, 1]>>,
// CHECK-SAME:       tensor<64x1408x64xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>, tensor<64x2048x44xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
// CHECK-NEXT:  return %[[Q]]#0, %[[S]]#0, %[[Q]]#1, %[[S]]#1

// LAUNCH-LABEL: fp8moe_plan.program @mx_weights
// LAUNCH:         fp8moe_plan.launch @fp8moe_kernels::@mx_quantize_both_0

// On the CPU, the weights are read once for each axis.
// CPU-LABEL: func.func @mx_weights
// CPU-NEXT:  fp8moe.mx_quantize %{{.*}} along [2]
// CPU-NEXT:  fp8moe.mx_quantize %{{.*}} along [1]
// CPU-NEXT:  return
