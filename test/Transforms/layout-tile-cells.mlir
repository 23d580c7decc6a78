// Layout and tile are chosen together. The remarks give the predicted times of four cells, {copy
// kept, copy removed} x {small tile, large tile}, and the chosen one. It depends on sizes and chip.

// RUN: fp8moe-opt %s --mlir-print-op-on-diagnostic=false -o - 2>&1 \
// RUN:   --pass-pipeline="builtin.module(fp8moe-attach-target{chip=sm_90a}, fp8moe-resolve-fp8-types, func.func(fp8moe-place-layouts, fp8moe-select-tiles{print-candidates=true}))" \
// RUN: | FileCheck %s --check-prefixes=CHECK,NVIDIA
// RUN: fp8moe-opt %s --mlir-print-op-on-diagnostic=false -o - 2>&1 \
// RUN:   --pass-pipeline="builtin.module(fp8moe-attach-target{chip=gfx942}, fp8moe-resolve-fp8-types, func.func(fp8moe-place-layouts, fp8moe-select-tiles{print-candidates=true}))" \
// RUN: | FileCheck %s --check-prefixes=CHECK,TWICE
// RUN: fp8moe-opt %s --mlir-print-op-on-diagnostic=false -o - 2>&1 \
// RUN:   --pass-pipeline="builtin.module(fp8moe-attach-target{chip=sm_100a}, fp8moe-resolve-fp8-types, func.func(fp8moe-place-layouts, fp8moe-select-tiles{print-candidates=true}))" \
// RUN: | FileCheck %s --check-prefixes=CHECK,TWICE

#col = #fp8moe.strided<[1, 0]>

// With eight groups, the copy costs more than it saves, with any tile on every chip.

// NVIDIA:      [[@LINE+10]]:12: remark: tiles for sm_90a, row-major input as it is:
// NVIDIA-SAME:   two_pass<columns = 64, threads = 256> {{[0-9.]+}} us, two_pass<columns = 128, threads = 512> {{[0-9.]+}} us, single_pass_outer<columns = 64, stages = 13> {{[0-9.]+}} us (chosen)
// NVIDIA:      remark: tiles for sm_90a, input copied to column-major first:
// NVIDIA-SAME:   two_pass<columns = 4, threads = 128> {{[0-9.]+}} us, {{.*}}register_resident<columns = 2, threads = 128, {{[^>]*}}> {{[0-9.]+}} us
// TWICE:       [[@LINE+6]]:12: remark: tiles for {{sm_100a|gfx942}}, row-major input as it is:
// TWICE-SAME:    two_pass<columns = 64, threads = 256> {{[0-9.]+}} us (chosen), two_pass<columns = 128, threads = 512> {{[0-9.]+}} us
// TWICE:       remark: tiles for {{sm_100a|gfx942}}, input copied to column-major first:
func.func @eight_groups(%x: tensor<24576x2048xbf16>, %ends: tensor<8xi32>)
    -> (tensor<24576x2048x!fp8moe.e4m3, #col>, tensor<8x2048xf32>) {
  %c = fp8moe.relayout %x : tensor<24576x2048xbf16> -> tensor<24576x2048xbf16, #col>
  %q, %s = fp8moe.jagged_dynamic_quantize %c groups(%ends : tensor<8xi32>) along [0]
      rounding pow2 : tensor<24576x2048xbf16, #col>
      -> tensor<24576x2048x!fp8moe.e4m3, #col>, tensor<8x2048xf32>
  return %q, %s : tensor<24576x2048x!fp8moe.e4m3, #col>, tensor<8x2048xf32>
}

// Two groups give 64 panels of columns for more than 64 multiprocessors. On sm_100a and gfx942, the
// copy pays: the copied input has one row per column and group, enough for all. On sm_90a, the
// single-pass kernel deals tiles to all blocks.

// NVIDIA: [[@LINE+10]]:12: remark: tiles for sm_90a, row-major input as it is: {{.*}} single_pass_outer<columns = 64, stages = 13> {{[0-9.]+}} us (chosen)
// NVIDIA:      remark: tiles for sm_90a, input copied to column-major first:
// NVIDIA-SAME:   two_pass<columns = 4, threads = 128> {{[0-9.]+}} us, {{.*}}register_resident<columns = 1, threads = 256, {{[^>]*}}> {{[0-9.]+}} us
// TWICE:  [[@LINE+7]]:12: remark: tiles for {{sm_100a|gfx942}}, column-major input as it is:
// TWICE-SAME: {{.*}}register_resident<columns = 1, threads = {{[0-9]+}}, {{[^>]*}}> {{[0-9.]+}} us (chosen)
// TWICE:  remark: tiles for {{sm_100a|gfx942}}, input copied to row-major first:
// TWICE-SAME: two_pass<columns = 64, threads = 256> {{[0-9.]+}} us, two_pass<columns = 128, threads = 512> {{[0-9.]+}} us
func.func @two_groups(%x: tensor<24576x2048xbf16>, %ends: tensor<2xi32>)
    -> (tensor<24576x2048x!fp8moe.e4m3, #col>, tensor<2x2048xf32>) {
  %c = fp8moe.relayout %x : tensor<24576x2048xbf16> -> tensor<24576x2048xbf16, #col>
  %q, %s = fp8moe.jagged_dynamic_quantize %c groups(%ends : tensor<2xi32>) along [0]
      rounding pow2 : tensor<24576x2048xbf16, #col>
      -> tensor<24576x2048x!fp8moe.e4m3, #col>, tensor<2x2048xf32>
  return %q, %s : tensor<24576x2048x!fp8moe.e4m3, #col>, tensor<2x2048xf32>
}

// A given tile decides the layout: this one exists for the row-major input only. The copy is
// removed, although it would pay on sm_100a and gfx942.

// CHECK-LABEL: func.func @eight_groups
// CHECK-NOT:     relayout
// CHECK:         return
// CHECK-LABEL: func.func @two_groups
// NVIDIA-NOT:    relayout
// TWICE:         fp8moe.relayout %arg0
// TWICE:         fp8moe.jagged_dynamic_quantize %0
// CHECK-LABEL: func.func @by_hand
// TWICE-NOT:     relayout
// CHECK:         jagged_dynamic_quantize %arg0 {{.*}}tiles [#fp8moe.two_pass<columns = 64, threads = 256>]
func.func @by_hand(%x: tensor<24576x2048xbf16>, %ends: tensor<2xi32>)
    -> (tensor<24576x2048x!fp8moe.e4m3, #col>, tensor<2x2048xf32>) {
  %c = fp8moe.relayout %x : tensor<24576x2048xbf16> -> tensor<24576x2048xbf16, #col>
  %q, %s = fp8moe.jagged_dynamic_quantize %c groups(%ends : tensor<2xi32>) along [0]
      rounding pow2 tiles [#fp8moe.two_pass<columns = 64, threads = 256>] : tensor<24576x2048xbf16, #col>
      -> tensor<24576x2048x!fp8moe.e4m3, #col>, tensor<2x2048xf32>
  return %q, %s : tensor<24576x2048x!fp8moe.e4m3, #col>, tensor<2x2048xf32>
}
