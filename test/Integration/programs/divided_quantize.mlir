// Jagged quantizations of what is divided first: by a number of each row, and by one of each
// group and column. Rows of the input are contiguous, aligned and of known length, as the
// kernels of sm_90a need them; AMD's targets have none.
//
// A program of the numerics tests (test_divided_quantize.py).

#rows = #fp8moe.strided<[0, 1], align = 16>
#rows_of_8 = #fp8moe.strided<[0, 1], align = 8>
#rows_of_4 = #fp8moe.strided<[0, 1], align = 4>
#columns = #fp8moe.strided<[1, 0]>
#padded_16 = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 16>>
#padded_128 = #fp8moe.strided<[1, 0], groups<dim = 0, pad = 128>>

func.func @both_bf16_e4m3_pow2_256(
      %x: tensor<?x256xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"},
      %d1: tensor<?x256xf32> {fp8moe.name = "d1"})
      -> (tensor<?x256x!fp8moe.e4m3, #padded_128> {fp8moe.name = "q0"},
          tensor<?x256x!fp8moe.e4m3, #rows_of_8> {fp8moe.name = "q1"},
          tensor<?x256xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0, %d1 : tensor<?xf32>, tensor<?x256xf32>) along [0, 1] rounding pow2
      : tensor<?x256xbf16, #rows>
      -> tensor<?x256x!fp8moe.e4m3, #padded_128>, tensor<?x256x!fp8moe.e4m3, #rows_of_8>, tensor<?x256xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x256x!fp8moe.e4m3, #padded_128>, tensor<?x256x!fp8moe.e4m3, #rows_of_8>, tensor<?x256xf32>, tensor<?xf32>
}

func.func @both_bf16_e5m2_none_520(
      %x: tensor<?x520xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"},
      %d1: tensor<?x520xf32> {fp8moe.name = "d1"})
      -> (tensor<?x520x!fp8moe.e5m2, #padded_16> {fp8moe.name = "q0"},
          tensor<?x520x!fp8moe.e5m2, #rows_of_8> {fp8moe.name = "q1"},
          tensor<?x520xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0, %d1 : tensor<?xf32>, tensor<?x520xf32>) along [0, 1] rounding none
      : tensor<?x520xbf16, #rows>
      -> tensor<?x520x!fp8moe.e5m2, #padded_16>, tensor<?x520x!fp8moe.e5m2, #rows_of_8>, tensor<?x520xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x520x!fp8moe.e5m2, #padded_16>, tensor<?x520x!fp8moe.e5m2, #rows_of_8>, tensor<?x520xf32>, tensor<?xf32>
}

func.func @both_bf16_e4m3_pow2_1408(
      %x: tensor<?x1408xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"},
      %d1: tensor<?x1408xf32> {fp8moe.name = "d1"})
      -> (tensor<?x1408x!fp8moe.e4m3, #padded_128> {fp8moe.name = "q0"},
          tensor<?x1408x!fp8moe.e4m3, #rows_of_8> {fp8moe.name = "q1"},
          tensor<?x1408xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0, %d1 : tensor<?xf32>, tensor<?x1408xf32>) along [0, 1] rounding pow2
      : tensor<?x1408xbf16, #rows>
      -> tensor<?x1408x!fp8moe.e4m3, #padded_128>, tensor<?x1408x!fp8moe.e4m3, #rows_of_8>, tensor<?x1408xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x1408x!fp8moe.e4m3, #padded_128>, tensor<?x1408x!fp8moe.e4m3, #rows_of_8>, tensor<?x1408xf32>, tensor<?xf32>
}

func.func @both_bf16_e4m3_pow2_2832(
      %x: tensor<?x2832xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"},
      %d1: tensor<?x2832xf32> {fp8moe.name = "d1"})
      -> (tensor<?x2832x!fp8moe.e4m3, #padded_128> {fp8moe.name = "q0"},
          tensor<?x2832x!fp8moe.e4m3, #rows_of_8> {fp8moe.name = "q1"},
          tensor<?x2832xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0, %d1 : tensor<?xf32>, tensor<?x2832xf32>) along [0, 1] rounding pow2
      : tensor<?x2832xbf16, #rows>
      -> tensor<?x2832x!fp8moe.e4m3, #padded_128>, tensor<?x2832x!fp8moe.e4m3, #rows_of_8>, tensor<?x2832xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x2832x!fp8moe.e4m3, #padded_128>, tensor<?x2832x!fp8moe.e4m3, #rows_of_8>, tensor<?x2832xf32>, tensor<?xf32>
}

func.func @both_bf16_e5m2_none_8192(
      %x: tensor<?x8192xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"},
      %d1: tensor<?x8192xf32> {fp8moe.name = "d1"})
      -> (tensor<?x8192x!fp8moe.e5m2, #padded_128> {fp8moe.name = "q0"},
          tensor<?x8192x!fp8moe.e5m2, #rows_of_8> {fp8moe.name = "q1"},
          tensor<?x8192xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0, %d1 : tensor<?xf32>, tensor<?x8192xf32>) along [0, 1] rounding none
      : tensor<?x8192xbf16, #rows>
      -> tensor<?x8192x!fp8moe.e5m2, #padded_128>, tensor<?x8192x!fp8moe.e5m2, #rows_of_8>, tensor<?x8192xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x8192x!fp8moe.e5m2, #padded_128>, tensor<?x8192x!fp8moe.e5m2, #rows_of_8>, tensor<?x8192xf32>, tensor<?xf32>
}

func.func @both_bf16_e4m3_pow2_10248(
      %x: tensor<?x10248xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"},
      %d1: tensor<?x10248xf32> {fp8moe.name = "d1"})
      -> (tensor<?x10248x!fp8moe.e4m3, #padded_128> {fp8moe.name = "q0"},
          tensor<?x10248x!fp8moe.e4m3, #rows_of_8> {fp8moe.name = "q1"},
          tensor<?x10248xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0, %d1 : tensor<?xf32>, tensor<?x10248xf32>) along [0, 1] rounding pow2
      : tensor<?x10248xbf16, #rows>
      -> tensor<?x10248x!fp8moe.e4m3, #padded_128>, tensor<?x10248x!fp8moe.e4m3, #rows_of_8>, tensor<?x10248xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x10248x!fp8moe.e4m3, #padded_128>, tensor<?x10248x!fp8moe.e4m3, #rows_of_8>, tensor<?x10248xf32>, tensor<?xf32>
}

func.func @both_bf16_e5m2_none_packed_12288(
      %x: tensor<?x12288xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"},
      %d1: tensor<?x12288xf32> {fp8moe.name = "d1"})
      -> (tensor<?x12288x!fp8moe.e5m2, #columns> {fp8moe.name = "q0"},
          tensor<?x12288x!fp8moe.e5m2, #rows_of_8> {fp8moe.name = "q1"},
          tensor<?x12288xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0, %d1 : tensor<?xf32>, tensor<?x12288xf32>) along [0, 1] rounding none
      : tensor<?x12288xbf16, #rows>
      -> tensor<?x12288x!fp8moe.e5m2, #columns>, tensor<?x12288x!fp8moe.e5m2, #rows_of_8>, tensor<?x12288xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x12288x!fp8moe.e5m2, #columns>, tensor<?x12288x!fp8moe.e5m2, #rows_of_8>, tensor<?x12288xf32>, tensor<?xf32>
}

func.func @both_bf16_e4m3_pow2_packed_264(
      %x: tensor<?x264xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"},
      %d1: tensor<?x264xf32> {fp8moe.name = "d1"})
      -> (tensor<?x264x!fp8moe.e4m3, #columns> {fp8moe.name = "q0"},
          tensor<?x264x!fp8moe.e4m3, #rows_of_8> {fp8moe.name = "q1"},
          tensor<?x264xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0, %d1 : tensor<?xf32>, tensor<?x264xf32>) along [0, 1] rounding pow2
      : tensor<?x264xbf16, #rows>
      -> tensor<?x264x!fp8moe.e4m3, #columns>, tensor<?x264x!fp8moe.e4m3, #rows_of_8>, tensor<?x264xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x264x!fp8moe.e4m3, #columns>, tensor<?x264x!fp8moe.e4m3, #rows_of_8>, tensor<?x264xf32>, tensor<?xf32>
}

func.func @both_f32_e4m3_pow2_132(
      %x: tensor<?x132xf32, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"},
      %d1: tensor<?x132xf32> {fp8moe.name = "d1"})
      -> (tensor<?x132x!fp8moe.e4m3, #padded_128> {fp8moe.name = "q0"},
          tensor<?x132x!fp8moe.e4m3, #rows_of_4> {fp8moe.name = "q1"},
          tensor<?x132xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0, %d1 : tensor<?xf32>, tensor<?x132xf32>) along [0, 1] rounding pow2
      : tensor<?x132xf32, #rows>
      -> tensor<?x132x!fp8moe.e4m3, #padded_128>, tensor<?x132x!fp8moe.e4m3, #rows_of_4>, tensor<?x132xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x132x!fp8moe.e4m3, #padded_128>, tensor<?x132x!fp8moe.e4m3, #rows_of_4>, tensor<?x132xf32>, tensor<?xf32>
}

func.func @both_f32_e5m2_none_packed_72(
      %x: tensor<?x72xf32, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"},
      %d1: tensor<?x72xf32> {fp8moe.name = "d1"})
      -> (tensor<?x72x!fp8moe.e5m2, #columns> {fp8moe.name = "q0"},
          tensor<?x72x!fp8moe.e5m2, #rows_of_4> {fp8moe.name = "q1"},
          tensor<?x72xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0, %d1 : tensor<?xf32>, tensor<?x72xf32>) along [0, 1] rounding none
      : tensor<?x72xf32, #rows>
      -> tensor<?x72x!fp8moe.e5m2, #columns>, tensor<?x72x!fp8moe.e5m2, #rows_of_4>, tensor<?x72xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x72x!fp8moe.e5m2, #columns>, tensor<?x72x!fp8moe.e5m2, #rows_of_4>, tensor<?x72xf32>, tensor<?xf32>
}

func.func @both_bf16_e4m3_pow2_64(
      %x: tensor<?x64xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"},
      %d1: tensor<?x64xf32> {fp8moe.name = "d1"})
      -> (tensor<?x64x!fp8moe.e4m3, #padded_128> {fp8moe.name = "q0"},
          tensor<?x64x!fp8moe.e4m3, #rows_of_8> {fp8moe.name = "q1"},
          tensor<?x64xf32> {fp8moe.name = "s0"},
          tensor<?xf32> {fp8moe.name = "s1"}) {
  %q0, %q1, %s0, %s1 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0, %d1 : tensor<?xf32>, tensor<?x64xf32>) along [0, 1] rounding pow2
      : tensor<?x64xbf16, #rows>
      -> tensor<?x64x!fp8moe.e4m3, #padded_128>, tensor<?x64x!fp8moe.e4m3, #rows_of_8>, tensor<?x64xf32>, tensor<?xf32>
  return %q0, %q1, %s0, %s1 : tensor<?x64x!fp8moe.e4m3, #padded_128>, tensor<?x64x!fp8moe.e4m3, #rows_of_8>, tensor<?x64xf32>, tensor<?xf32>
}

func.func @columns_bf16_e4m3_pow2_64(
      %x: tensor<?x64xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"})
      -> (tensor<?x64x!fp8moe.e4m3, #padded_128> {fp8moe.name = "q0"},
          tensor<?x64xf32> {fp8moe.name = "s0"}) {
  %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0 : tensor<?xf32>) along [0] rounding pow2
      : tensor<?x64xbf16, #rows>
      -> tensor<?x64x!fp8moe.e4m3, #padded_128>, tensor<?x64xf32>
  return %q0, %s0 : tensor<?x64x!fp8moe.e4m3, #padded_128>, tensor<?x64xf32>
}

func.func @columns_bf16_e4m3_pow2_512(
      %x: tensor<?x512xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"})
      -> (tensor<?x512x!fp8moe.e4m3, #padded_128> {fp8moe.name = "q0"},
          tensor<?x512xf32> {fp8moe.name = "s0"}) {
  %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0 : tensor<?xf32>) along [0] rounding pow2
      : tensor<?x512xbf16, #rows>
      -> tensor<?x512x!fp8moe.e4m3, #padded_128>, tensor<?x512xf32>
  return %q0, %s0 : tensor<?x512x!fp8moe.e4m3, #padded_128>, tensor<?x512xf32>
}

func.func @columns_bf16_e4m3_pow2_packed_200(
      %x: tensor<?x200xbf16, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"})
      -> (tensor<?x200x!fp8moe.e4m3, #columns> {fp8moe.name = "q0"},
          tensor<?x200xf32> {fp8moe.name = "s0"}) {
  %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0 : tensor<?xf32>) along [0] rounding pow2
      : tensor<?x200xbf16, #rows>
      -> tensor<?x200x!fp8moe.e4m3, #columns>, tensor<?x200xf32>
  return %q0, %s0 : tensor<?x200x!fp8moe.e4m3, #columns>, tensor<?x200xf32>
}

func.func @columns_f32_e4m3_none_68(
      %x: tensor<?x68xf32, #rows> {fp8moe.name = "x"},
      %offsets: tensor<?xi32> {fp8moe.name = "offsets"},
      %d0: tensor<?xf32> {fp8moe.name = "d0"})
      -> (tensor<?x68x!fp8moe.e4m3, #padded_16> {fp8moe.name = "q0"},
          tensor<?x68xf32> {fp8moe.name = "s0"}) {
  %q0, %s0 = fp8moe.jagged_dynamic_quantize %x groups(%offsets : tensor<?xi32>)
      divided(%d0 : tensor<?xf32>) along [0] rounding none
      : tensor<?x68xf32, #rows>
      -> tensor<?x68x!fp8moe.e4m3, #padded_16>, tensor<?x68xf32>
  return %q0, %s0 : tensor<?x68x!fp8moe.e4m3, #padded_16>, tensor<?x68xf32>
}
