// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles))" \
// RUN: | FileCheck %s
// RUN: fp8moe-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles{print-candidates=true}))" \
// RUN:   2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#expert_columns = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // Fast accumulation gets ping-pong: one warpgroup writes while the other multiplies. With promoted
  // accumulation both share a tile. A given tile stays. `raster = 8` takes tiles in bands of eight rows.
  // CHECK-LABEL: func.func @tiles
  // REMARK: remark: tiles for sm_90a: wgmma<rows = 128, columns = 64, stages = 8, schedule = ping_pong, raster = 8> {{.*}} us, {{.*}} (chosen)
  func.func @tiles(%a: tensor<16640x5120xbf16>,
      %b: tensor<16x5120x8192xbf16, #expert_columns>, %q: tensor<16640x5120xf8E4M3FN>,
      %w: tensor<16x5120x8192xf8E4M3FN, #expert_columns>, %sq: tensor<16640xf32>,
      %sw: tensor<16x8192xf32>, %ends: tensor<16xi32>)
      -> (tensor<16640x8192xbf16>, tensor<16640x8192xbf16>, tensor<16640x8192xbf16>) {
    // CHECK: grouped_matmul {{.*}} tiles [#fp8moe.wgmma<rows = 128, columns = {{128|160}}, stages = {{[56]}}, schedule = ping_pong, raster = 8>]
    %fast = fp8moe.grouped_matmul %q, %w groups(%ends : tensor<16xi32>)
        scales(%sq, %sw : tensor<16640xf32>, tensor<16x8192xf32>)
        direction quantize accumulation fast
        : tensor<16640x5120xf8E4M3FN>, tensor<16x5120x8192xf8E4M3FN, #expert_columns>
        -> tensor<16640x8192xbf16>
    // CHECK: grouped_matmul {{.*}} accumulation promoted tiles [#fp8moe.wgmma<{{.*}} schedule = cooperative, raster = 12>]
    %promoted = fp8moe.grouped_matmul %q, %w groups(%ends : tensor<16xi32>)
        scales(%sq, %sw : tensor<16640xf32>, tensor<16x8192xf32>)
        direction quantize accumulation promoted
        : tensor<16640x5120xf8E4M3FN>, tensor<16x5120x8192xf8E4M3FN, #expert_columns>
        -> tensor<16640x8192xbf16>
    // CHECK: tiles [#fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong, raster = 2>]
    %by_hand = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<16xi32>)
        tiles [#fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong, raster = 2>]
        : tensor<16640x5120xbf16>, tensor<16x5120x8192xbf16, #expert_columns>
        -> tensor<16640x8192xbf16>
    return %fast, %promoted, %by_hand
        : tensor<16640x8192xbf16>, tensor<16640x8192xbf16>, tensor<16640x8192xbf16>
  }
}

// -----

// Much work gets large tiles, and small groups get small ones.

#expert_columns = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  // CHECK-LABEL: func.func @amd
  // REMARK: remark: tiles for gfx942: mfma<rows = 256, columns = 256> {{.*}} us (chosen), mfma<rows = 128, columns = 128> {{.*}} us
  func.func @amd(%a: tensor<65536x4096xbf16>, %b: tensor<8x4096x8192xbf16, #expert_columns>, %ends: tensor<8xi32>,
      %c: tensor<4096x2048xbf16>, %d: tensor<64x2048x1408xbf16, #expert_columns>, %small: tensor<64xi32>)
      -> (tensor<65536x8192xbf16>, tensor<4096x1408xbf16>) {
    // CHECK: tiles [#fp8moe.mfma<rows = 256, columns = 256>]
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
        : tensor<65536x4096xbf16>, tensor<8x4096x8192xbf16, #expert_columns> -> tensor<65536x8192xbf16>
    // CHECK: tiles [#fp8moe.mfma<rows = 128, columns = 128>]
    %p = fp8moe.grouped_matmul %c, %d groups(%small : tensor<64xi32>)
        : tensor<4096x2048xbf16>, tensor<64x2048x1408xbf16, #expert_columns> -> tensor<4096x1408xbf16>
    return %o, %p : tensor<65536x8192xbf16>, tensor<4096x1408xbf16>
  }
}

// -----

// A short K is bound by stores. The chosen tile stores whole cache lines, and neighbouring blocks
// store whole rows (`raster = 1`). Widths with 32-byte rows, such as 144, only suit results of a
// single wave.

#columns = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  // CHECK-LABEL: func.func @dense
  func.func @dense(%a: tensor<8192x256xbf16>, %b: tensor<256x8192xbf16, #columns>,
      %c: tensor<8192x320xbf16>, %d: tensor<320x8192xbf16, #columns>,
      %e: tensor<4096x7168xbf16>, %f: tensor<7168x576xbf16, #columns>)
      -> (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>, tensor<4096x576xbf16>) {
    // CHECK: tiles [#fp8moe.wgmma<rows = {{.*}}, columns = {{64|128|192|256}}, stages = {{.*}}, schedule = {{.*}}, raster = 1>]
    %short = fp8moe.linear %a, %b : tensor<8192x256xbf16>, tensor<256x8192xbf16, #columns> -> tensor<8192x8192xbf16>
    // CHECK: tiles [#fp8moe.wgmma<rows = 128, columns = {{128|160}}, stages = {{.*}}, schedule = ping_pong>]
    %waves = fp8moe.linear %c, %d : tensor<8192x320xbf16>, tensor<320x8192xbf16, #columns> -> tensor<8192x8192xbf16>
    // CHECK: tiles [#fp8moe.wgmma<rows = 128, columns = 144, {{.*}}>]
    %wave = fp8moe.linear %e, %f : tensor<4096x7168xbf16>, tensor<7168x576xbf16, #columns> -> tensor<4096x576xbf16>
    return %short, %waves, %wave : tensor<8192x8192xbf16>, tensor<8192x8192xbf16>, tensor<4096x576xbf16>
  }
}

// -----

// sm_100a has no kernel, so no tile is chosen. The lowering reports the error.

module attributes {fp8moe.target = #fp8moe.target<"sm_100a">} {
  // CHECK-LABEL: func.func @blackwell
  func.func @blackwell(%a: tensor<?x64xbf16>, %b: tensor<2x64x64xbf16>, %ends: tensor<2xi32>)
      -> tensor<?x64xbf16> {
    // CHECK-NOT: tile
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        : tensor<?x64xbf16>, tensor<2x64x64xbf16> -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}
