// examples/moe_layer.mlir on AMD has only quantizations and matmuls, no copies. No kernel spills.

// RUN: fp8moe-compile %examples/moe_layer.mlir --target=gfx942 --emit=tensor 2>/dev/null \
// RUN: | FileCheck %s --check-prefixes=CHECK,FNUZ --implicit-check-not=relayout --implicit-check-not=contiguous
// RUN: fp8moe-compile %examples/moe_layer.mlir --target=gfx950 --emit=tensor 2>/dev/null \
// RUN: | FileCheck %s --check-prefixes=CHECK,FN --implicit-check-not=relayout --implicit-check-not=contiguous

// CHECK-LABEL: func.func @forward
// CHECK: grouped_matmul
// CHECK-LABEL: func.func @backward
// FNUZ-DAG: jagged_dynamic_quantize {{.*}} -> tensor<?x2048xf8E4M3FNUZ, #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>>
// FN-DAG: jagged_dynamic_quantize {{.*}} -> tensor<?x2048xf8E4M3FN, #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>>
// CHECK-DAG: grouped_matmul {{.*}} -> tensor<?x2048xbf16>
// CHECK-DAG: grouped_matmul {{.*}} -> tensor<?x1408x2048xbf16>

// RUN: fp8moe-compile %examples/moe_layer.mlir --target=gfx942 --emit=asm | FileCheck %s --check-prefix=ASM
// RUN: fp8moe-compile %examples/moe_layer.mlir --target=gfx950 --emit=asm | FileCheck %s --check-prefix=ASM
// ASM-NOT: scratch_
// ASM-NOT: {{private_segment_fixed_size:? +[1-9]}}
// ASM-NOT: {{vgpr_spill_count: +[1-9]}}
// ASM: grouped_matmul_k_grouped
// ASM-NOT: scratch_
// ASM-NOT: {{private_segment_fixed_size:? +[1-9]}}
// ASM-NOT: {{vgpr_spill_count: +[1-9]}}
