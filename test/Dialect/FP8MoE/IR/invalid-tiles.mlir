// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expects columns to be at least 1, found 0}}
func.func private @f() attributes {t = #fp8moe.two_pass<columns = 0, threads = 128>}

// -----

// expected-error @below {{expects a power of two from 32 to 1024 threads, found 96}}
func.func private @f() attributes {t = #fp8moe.two_pass<columns = 8, threads = 96>}

// -----

// expected-error @below {{expects a power of two from 32 to 1024 threads, found 2048}}
func.func private @f() attributes {t = #fp8moe.two_pass<columns = 8, threads = 2048>}

// -----

// expected-error @below {{expected ','}}
func.func private @f() attributes {t = #fp8moe.two_pass<columns = 8>}

// -----

// expected-error @below {{expects as many threads for each column, a power of two; found 128 threads for 3 columns}}
func.func private @f() attributes {t = #fp8moe.register_resident<columns = 3, threads = 128, chunks = 1, rounds = 1, blocks = 1>}

// -----

// expected-error @below {{expects rounds to be at least 1, found 0}}
func.func private @f() attributes {t = #fp8moe.register_resident<columns = 1, threads = 128, chunks = 1, rounds = 0, blocks = 1>}

// -----

// expected-error @below {{expects stages to be at least 1, found 0}}
func.func private @f() attributes {t = #fp8moe.single_pass_outer<columns = 64, stages = 0>}

// -----

// expected-error @below {{expects row_bytes to be at least 1, found 0}}
func.func private @f() attributes {t = #fp8moe.single_pass_both_axes<columns = 64, stages = 9, row_bytes = 0, row_stages = 4>}

// -----

// expected-error @below {{expects a choice for each of several axes, found 1}}
func.func private @f() attributes {t = #fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 8, threads = 256>]>]>}

// -----

// expected-error @below {{expects choices, such as #fp8moe.choice<[...]>, found 1 : i64}}
func.func private @f() attributes {t = #fp8moe.per_axis<[1, 2]>}

// -----

// expected-error @below {{expects a multiple of 64 up to 256 rows with schedule ping_pong, found 96}}
func.func private @f() attributes {t = #fp8moe.wgmma<rows = 96, columns = 64, stages = 4, schedule = ping_pong>}

// -----

// expected-error @below {{expects a multiple of 128 up to 256 rows with schedule cooperative, found 64}}
func.func private @f() attributes {t = #fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = cooperative>}

// -----

// expected-error @below {{expects a multiple of 16 up to 256 columns, found 264}}
func.func private @f() attributes {t = #fp8moe.wgmma<rows = 64, columns = 264, stages = 4, schedule = ping_pong>}

// -----

// expected-error @below {{expects at least 2 stages, so that copies and multiplications overlap, found 1}}
func.func private @f() attributes {t = #fp8moe.wgmma<rows = 64, columns = 64, stages = 1, schedule = ping_pong>}

// -----

// expected-error @below {{expects raster to be at least 1, found 0}}
func.func private @f() attributes {t = #fp8moe.wgmma<rows = 64, columns = 64, stages = 2, schedule = ping_pong, raster = 0>}

// -----

// expected-error @below {{expects stages to be at most 1048576, found 4611686018427387904}}
func.func private @f() attributes {t = #fp8moe.wgmma<rows = 64, columns = 64, stages = 4611686018427387904, schedule = ping_pong>}

// -----

// expected-error @below {{expects columns to be at most 1048576, found 9223372036854775807}}
func.func private @f() attributes {t = #fp8moe.single_pass_outer<columns = 9223372036854775807, stages = 2>}

// -----

// expected-error @below {{expects a bound: above, up_to or both}}
func.func private @f() attributes {t = #fp8moe.range<mean_length>}

// -----

// expected-error @below {{expects 0 <= above < up_to, found above 512 up_to 256}}
func.func private @f() attributes {t = #fp8moe.range<mean_length above 512 up_to 256>}

// -----

// expected-error @below {{expected one of [mean_length, group_bytes] for what decides between kernels at run time, got: rows}}
func.func private @f() attributes {t = #fp8moe.range<rows up_to 256>}

// -----

// expected-error @below {{expects bytes to compare with 'percent of l2', such as 'group_bytes', found 'mean_length'; write that, or a number alone}}
func.func private @f() attributes {t = #fp8moe.range<mean_length up_to 50 percent of l2>}

// -----

// expected-error @below {{expects at most 1000 percent of l2, found 1001; leave 'percent of l2' out for a number of bytes}}
func.func private @f() attributes {t = #fp8moe.range<group_bytes up_to 1001 percent of l2>}

// -----

// expected-error @below {{expects at most 1000 percent of l2, found 31457280; leave 'percent of l2' out for a number of bytes}}
func.func private @f() attributes {t = #fp8moe.range<group_bytes above 31457280 percent of l2>}

// -----

// expected-error @below {{expects 0 <= above < up_to, found above 60 up_to 50}}
func.func private @f() attributes {t = #fp8moe.range<group_bytes above 60 up_to 50 percent of l2>}

// -----

// expected-error @below {{expects a bound: above, up_to or both}}
func.func private @f() attributes {t = #fp8moe.range<group_bytes percent of l2>}

// -----

// expected-error @below {{expected 'of' in 'percent of l2'}}
func.func private @f() attributes {t = #fp8moe.range<group_bytes up_to 50 percent l2>}

// -----

// expected-error @below {{expected 'l2', the cache that 'percent of' is about}}
func.func private @f() attributes {t = #fp8moe.range<group_bytes up_to 50 percent of l1>}

// -----

// expected-error @below {{expects at least one alternative; leave 'tiles' out and fp8moe-select-tiles chooses}}
func.func private @f() attributes {t = #fp8moe.choice<[]>}

// -----

// expected-error @below {{expects no range where the least waves decide, found #fp8moe.range<mean_length up_to 256>}}
func.func private @f() attributes {t = #fp8moe.choice<least_waves [#fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong> for mean_length up_to 256 wave 5]>}

// -----

// expected-error @below {{expects the time of a wave in nanoseconds, such as 'wave 40000', behind #fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong>}}
func.func private @f() attributes {t = #fp8moe.choice<least_waves [#fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong>]>}

// -----

// expected-error @below {{expects the time of a wave only behind 'least_waves', found 'wave 5'}}
func.func private @f() attributes {t = #fp8moe.choice<[#fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong> wave 5]>}

// -----

// expected-error @below {{expects wave to be at least 0, found -1}}
func.func private @f() attributes {t = #fp8moe.choice<least_waves [#fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong> wave -1]>}

// -----

// expected-error @below {{expects a multiple of 128 up to 256 rows, found 64}}
func.func private @f() attributes {t = #fp8moe.mfma<rows = 64, columns = 256>}

// -----

// expected-error @below {{expects a multiple of 64 up to 256 columns, found 320}}
func.func private @f() attributes {t = #fp8moe.mfma<rows = 256, columns = 320>}

// -----

// Each of these tiles is legal by itself, but not with the others or for its operation.

func.func @waves(%x: tensor<?x128xbf16>) {
  // expected-error @below {{expects ranges to decide between its tiles, found 'least_waves', which counts those of a matmul; remove it and the times of waves}}
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      tiles least_waves [#fp8moe.two_pass<columns = 4, threads = 128> wave 5]
      : tensor<?x128xbf16> -> tensor<?x128x!fp8moe.e4m3>, tensor<?xf32>
  return
}

// -----

func.func @waves_of_axis(%x: tensor<?x128xbf16>) {
  // expected-error @below {{expects ranges to decide between the tiles of an axis, found 'least_waves'; remove it and the times of waves}}
  %q:2, %s:2 = fp8moe.dynamic_quantize %x along [0, 1] rounding pow2
      tiles [#fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                               #fp8moe.choice<least_waves [#fp8moe.two_pass<columns = 4, threads = 128> wave 5]>]>]
      : tensor<?x128xbf16> -> tensor<?x128x!fp8moe.e4m3>, tensor<?x128x!fp8moe.e4m3>, tensor<128xf32>, tensor<?xf32>
  return
}

// -----

func.func @one_axis(%x: tensor<?x128xbf16>) {
  // expected-error @below {{along 1 axis has 2 choices in #fp8moe.per_axis<[...]>; write one without it}}
  %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
      tiles [#fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128>]>,
                               #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128>]>]>]
      : tensor<?x128xbf16> -> tensor<?x128x!fp8moe.e4m3>, tensor<?xf32>
  return
}

// -----

func.func @three_axes(%x: tensor<?x128xbf16>) {
  // expected-error @below {{along 2 axes has 3 choices in #fp8moe.per_axis<[...]>; write one for each}}
  %q:2, %s:2 = fp8moe.dynamic_quantize %x along [0, 1] rounding pow2
      tiles [#fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                               #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128>]>,
                               #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128>]>]>]
      : tensor<?x128xbf16> -> tensor<?x128x!fp8moe.e4m3>, tensor<?x128x!fp8moe.e4m3>, tensor<128xf32>, tensor<?xf32>
  return
}

// -----

func.func @range_of_axes(%x: tensor<?x128xbf16>) {
  // expected-error @below {{expects #fp8moe.per_axis<[...]> as the last alternative, without a range: it takes what is left; ranges stand within it}}
  %q:2, %s:2 = fp8moe.dynamic_quantize %x along [0, 1] rounding pow2
      tiles [#fp8moe.per_axis<[#fp8moe.choice<[#fp8moe.two_pass<columns = 64, threads = 256>]>,
                               #fp8moe.choice<[#fp8moe.two_pass<columns = 4, threads = 128>]>]> for mean_length up_to 4]
      : tensor<?x128xbf16> -> tensor<?x128x!fp8moe.e4m3>, tensor<?x128x!fp8moe.e4m3>, tensor<128xf32>, tensor<?xf32>
  return
}

// -----

func.func @rescaled_threads(%x: tensor<?x128xbf16>) {
  %q:2, %s:2 = fp8moe.dynamic_quantize %x along [0, 1] rounding pow2
      // expected-error @below {{expects a multiple of 32 up to 1024 threads, found 100}}
      tiles [#fp8moe.rescaled_both_axes<threads = 100, chunks = 1, blocks = 8>]
      : tensor<?x128xbf16> -> tensor<?x128x!fp8moe.e4m3>, tensor<?x128x!fp8moe.e4m3>, tensor<128xf32>, tensor<?xf32>
  return
}

// -----

func.func @range_of_matmul(%a: tensor<?x64xbf16>, %b: tensor<64x64xbf16>) {
  // expected-error @below {{decides between tiles by waves, found #fp8moe.range<mean_length up_to 100>; write 'tiles least_waves [...]', or one tile}}
  %o = fp8moe.linear %a, %b
      tiles [#fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong> for mean_length up_to 100]
      : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
  return
}

// -----

func.func @undecided_matmul(%a: tensor<?x64xbf16>, %b: tensor<2x64x64xbf16>, %ends: tensor<2xi32>) {
  // expected-error @below {{has 2 tiles, and nothing decides between them; write 'tiles least_waves [...]' with the time of a wave behind each, or one tile}}
  %o = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      tiles [#fp8moe.mfma<rows = 256, columns = 256>, #fp8moe.mfma<rows = 128, columns = 128>]
      : tensor<?x64xbf16>, tensor<2x64x64xbf16> -> tensor<?x64xbf16>
  return
}

// -----

// expected-error @below {{expects wave to be at most 1099511627776 ns, found 9223372036854775807}}
func.func private @f() attributes {t = #fp8moe.choice<least_waves [#fp8moe.wgmma<rows = 64, columns = 64, stages = 4, schedule = ping_pong> wave 9223372036854775807]>}
