// The manifest has the tile of each grouped matmul and its predicted time. For a given tile it adds
// the model's choice, and for a dynamic number of rows, all tiles.

// RUN: rm -rf %t && fp8moe-compile %s --target=sm_90a -o %t --report | FileCheck %s --check-prefix=REPORT
// RUN: FileCheck %s --input-file=%t/sm_90a/manifest.json

// REPORT: tile wgmma<rows = {{[0-9]+}}, columns = {{[0-9]+}}, stages = {{[0-9]+}}, schedule = ping_pong>
// REPORT: tile wgmma<rows = 128, columns = 32, stages = 4, schedule = cooperative>

#expert_columns = #fp8moe.strided<[0, 2, 1]>

func.func @matmul(%a: tensor<4096x2048xbf16> {fp8moe.name = "a"},
    %b: tensor<4x2048x1024xbf16, #expert_columns> {fp8moe.name = "b"},
    %ends: tensor<4xi32> {fp8moe.name = "ends"})
    -> (tensor<4096x1024xbf16> {fp8moe.name = "x"}, tensor<4096x1024xbf16> {fp8moe.name = "y"}) {
  // CHECK:      "decisions"
  // CHECK:      "op": "fp8moe.grouped_matmul"
  // CHECK-NEXT: "predicted_ns": {{[1-9][0-9]*}}
  // CHECK:      "reason": "ping_pong: bound by multiplications, {{[0-9]+}} tiles of {{.*}} us in {{[0-9]+}} waves"
  // CHECK-NEXT: "tile": {
  // CHECK-NEXT:   "columns": {{[0-9]+}},
  // CHECK-NEXT:   "kind": "wgmma",
  // CHECK-NEXT:   "raster": 4,
  // CHECK-NEXT:   "rows": {{[0-9]+}},
  // CHECK-NEXT:   "schedule": "ping_pong",
  // CHECK-NEXT:   "stages": {{[0-9]+}}
  %x = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      : tensor<4096x2048xbf16>, tensor<4x2048x1024xbf16, #expert_columns>
      -> tensor<4096x1024xbf16>
  // CHECK:      "reason": "as given, the model prefers {{[0-9]+}}x{{[0-9]+}} at {{.*}} us"
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      tiles [#fp8moe.wgmma<rows = 128, columns = 32, stages = 4, schedule = cooperative>]
      : tensor<4096x2048xbf16>, tensor<4x2048x1024xbf16, #expert_columns>
      -> tensor<4096x1024xbf16>
  return %x, %y : tensor<4096x1024xbf16>, tensor<4096x1024xbf16>
}

func.func @any_rows(%a: tensor<?x2048xbf16, #fp8moe.strided<[0, 1], align = 16>> {fp8moe.name = "a"},
    %b: tensor<4x2048x1024xbf16, #expert_columns> {fp8moe.name = "b"},
    %ends: tensor<4xi32> {fp8moe.name = "ends"}) -> (tensor<?x1024xbf16> {fp8moe.name = "x"}) {
  // The predicted time is that of the tile that the host would choose, below a millisecond.
  // CHECK:      "predicted_ns": {{[1-9][0-9]?[0-9]?[0-9]?[0-9]?[0-9]?}},
  // CHECK-NEXT: "program": "any_rows"
  // CHECK: "reason": "by the number of rows, the least of waves times the time of a tile: {{[0-9]+}}x{{[0-9]+}} {{[a-z_]+}} ({{.*}} us), {{[0-9]+}}x{{[0-9]+}} {{[a-z_]+}} ({{.*}} us)
  %x = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<4xi32>)
      : tensor<?x2048xbf16, #fp8moe.strided<[0, 1], align = 16>>, tensor<4x2048x1024xbf16, #expert_columns>
      -> tensor<?x1024xbf16>
  return %x : tensor<?x1024xbf16>
}
