// Inputs are copied from files to the program's strides, whether these are static, dynamic or
// computed. The row-major outputs must equal the files of the inputs.

// DEFINE: %{tokens} = 3
// DEFINE: %{bytes} = 5280
// DEFINE: %{name} = between
// DEFINE: %{run} = fp8moe-run %t/cpu --program=%{name} --random=1 --tokens=%{tokens} --save-inputs=%t.in --outputs=%t.out \
// DEFINE:   && tail -c %{bytes} %t.in > %t.in.data && tail -c %{bytes} %t.out | cmp - %t.in.data
// RUN: rm -rf %t && fp8moe-compile %s --target=cpu -o %t
// RUN: %{run}

// The dynamic stride is computed from the static ones.
func.func @between(%x: tensor<33x5x8xf32, #fp8moe.strided<[0, 1, 2], strides = [?, 100, 1]>>) -> tensor<33x5x8xf32> {
  %r = fp8moe.contiguous %x : tensor<33x5x8xf32, #fp8moe.strided<[0, 1, 2], strides = [?, 100, 1]>> -> tensor<33x5x8xf32>
  return %r : tensor<33x5x8xf32>
}

// REDEFINE: %{name} = no_unit
// REDEFINE: %{bytes} = 960
// RUN: %{run}
func.func @no_unit(%x: tensor<6x40xf32, #fp8moe.strided<[0, 1], strides = [?, 2]>>) -> tensor<6x40xf32> {
  %r = fp8moe.contiguous %x : tensor<6x40xf32, #fp8moe.strided<[0, 1], strides = [?, 2]>> -> tensor<6x40xf32>
  return %r : tensor<6x40xf32>
}

// A stride follows from a dynamic size.
// REDEFINE: %{name} = computed
// REDEFINE: %{bytes} = 1536
// RUN: %{run}
func.func @computed(%x: tensor<4x?x32xf32>) -> tensor<4x?x32xf32> {
  %c = fp8moe.relayout %x : tensor<4x?x32xf32> -> tensor<4x?x32xf32, #fp8moe.strided<[0, 2, 1]>>
  %r = fp8moe.relayout %c : tensor<4x?x32xf32, #fp8moe.strided<[0, 2, 1]>> -> tensor<4x?x32xf32>
  return %r : tensor<4x?x32xf32>
}

// Two inputs are dense in different orders of dimensions.
// REDEFINE: %{name} = orders
// REDEFINE: %{bytes} = 13152
// RUN: %{run}
func.func @orders(%y: tensor<?x5x8xf32, #fp8moe.strided<[2, 1, 0]>>, %x: tensor<33x?x32xf32, #fp8moe.strided<[2, 0, 1]>>)
    -> (tensor<?x5x8xf32>, tensor<33x?x32xf32>) {
  %s = fp8moe.contiguous %y : tensor<?x5x8xf32, #fp8moe.strided<[2, 1, 0]>> -> tensor<?x5x8xf32>
  %r = fp8moe.contiguous %x : tensor<33x?x32xf32, #fp8moe.strided<[2, 0, 1]>> -> tensor<33x?x32xf32>
  return %s, %r : tensor<?x5x8xf32>, tensor<33x?x32xf32>
}
