// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(func.func(fp8moe-select-tiles))"

// expected-error @below {{expects a multiple of 64 up to 256 rows with schedule ping_pong, found 96}}
func.func private @f() attributes {t = #fp8moe.gemm_tile<rows = 96, columns = 64, stages = 4, schedule = ping_pong>}

// -----

// expected-error @below {{expects a multiple of 128 up to 256 rows with schedule cooperative, found 64}}
func.func private @f() attributes {t = #fp8moe.gemm_tile<rows = 64, columns = 64, stages = 4, schedule = cooperative>}

// -----

// expected-error @below {{expects a multiple of 16 up to 256 columns, found 264}}
func.func private @f() attributes {t = #fp8moe.gemm_tile<rows = 64, columns = 264, stages = 4, schedule = ping_pong>}

// -----

// expected-error @below {{expects at least 2 stages, so that copies and multiplications overlap, found 1}}
func.func private @f() attributes {t = #fp8moe.gemm_tile<rows = 64, columns = 64, stages = 1, schedule = ping_pong>}

// -----

// expected-error @below {{expects a raster of at least 1 tile, found 0}}
func.func private @f() attributes {t = #fp8moe.gemm_tile<rows = 64, columns = 64, stages = 2, schedule = ping_pong, raster = 0>}

// -----

module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
  func.func @target(%a: tensor<?x64xbf16>, %b: tensor<2x64x64xbf16>, %ends: tensor<2xi32>)
      -> tensor<?x64xbf16> {
    // expected-error @below {{has a tile for matrix instructions of warpgroups, which target gfx942 does not have; remove the tile}}
    %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
        tile <rows = 64, columns = 64, stages = 4, schedule = ping_pong>
        : tensor<?x64xbf16>, tensor<2x64x64xbf16> -> tensor<?x64xbf16>
    return %o : tensor<?x64xbf16>
  }
}
