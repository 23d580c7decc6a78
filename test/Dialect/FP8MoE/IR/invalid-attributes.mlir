// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

// Syntax of layouts.

// expected-error @below {{expected '<'}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided>)

// -----

// expected-error @below {{expected '['}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<>>)

// -----

// expected-error @below {{expected integer value}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, ?]>>)

// -----

// expected-error @below {{expects 'strides', 'align' or 'groups', each at most once, found 'size'}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], size = 4>>)

// -----

// expected-error @below {{expects 'strides', 'align' or 'groups', each at most once, found 'align'}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], align = 16, align = 16>>)

// -----

// expected-error @below {{expects 'strides', 'align' or 'groups', each at most once, found 'strides'}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [8, 1], strides = [8, 1]>>)

// -----

// expected-error @below {{expects 'strides', 'align' or 'groups', each at most once, found 'groups'}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>, groups<dim = 0, pad = 2>>>)

// -----

// expected-error @below {{expected ','}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0>>>)

// -----

// expected-error @below {{expects one stride for each dimension; leave 'strides' out for dense ones}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = []>>)

// -----

// expected-error @below {{expects strides of at least 1 element, or '?', found -9223372036854775808}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [-9223372036854775808, 1]>>)

// -----

// expected-error @below {{integer value too large}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [99999999999999999999, 1]>>)

// -----

// expected-error @below {{expected integer value}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [8, x]>>)

// -----

// expected-error @below {{expected '>'}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1] strides = [8, 1]>>)

// -----

// Parameters of strided layouts.

// expected-error @below {{expects the order to name each dimension once, found []}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[]>>)

// -----

// expected-error @below {{expects the order to name each dimension once, found [0, 0]}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 0]>>)

// -----

// expected-error @below {{expects the order to name each dimension once, found [0, 2]}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 2]>>)

// -----

// expected-error @below {{expects the order to name each dimension once, found [-1, 0]}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[-1, 0]>>)

// -----

// expected-error @below {{expects one stride for each of the 2 dimensions, found 1}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [1]>>)

// -----

// expected-error @below {{expects strides of at least 1 element, found 0 for dimension 1}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [8, 0]>>)

// -----

// expected-error @below {{expects strides of at least 1 element, found -8 for dimension 0}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [-8, 1]>>)

// -----

// expected-error @below {{expects strides that do not decrease outwards, found 1 for dimension 0 outside a stride of 4}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [1, 4]>>)

// -----

// expected-error @below {{expects the alignment to be a power of two in bytes, found 0; leave 'align' out to promise nothing}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], align = 0>>)

// -----

// expected-error @below {{expects the alignment to be a power of two in bytes, found 24}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], align = 24>>)

// -----

// expected-error @below {{expects the alignment to be a power of two in bytes, found -16}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], align = -16>>)

// -----

// expected-error @below {{expects the alignment to be at most 1073741824 bytes, found 2147483648}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], align = 2147483648>>)

// -----

// expected-error @below {{expects the padded dimension to be >= 0, found -1}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], groups<dim = -1, pad = 2>>>)

// -----

// expected-error @below {{expects groups to be padded to at least 2, found 1; leave 'groups' out for packed groups}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 1>>>)

// -----

// expected-error @below {{expects groups to be padded to at most 2147483647, found 2147483648}}
func.func private @f(tensor<?x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2147483648>>>)

// -----

// Layouts that do not fit their tensor.

// expected-error @below {{layout is for tensors of rank 3, found rank 2}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1, 2]>>)

// -----

// expected-error @below {{layout is for tensors of rank 1, found rank 0}}
func.func private @f(tensor<f32, #fp8moe.strided<[0]>>)

// -----

// expected-error @below {{layout lets elements overlap: dimension 0 has stride 4, inside it lie 8 elements; with this stride dimension 1 may have a size of up to 4}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [4, 1]>>)

// -----

// Dimension 1 has an unknown stride, but its 16 pairs need at least 32 elements.
// expected-error @below {{layout lets elements overlap: dimension 0 has stride 8, inside it lie 32 elements; with this stride dimension 1 may have a size of up to 4}}
func.func private @f(tensor<4x16x2xf32, #fp8moe.strided<[0, 1, 2], strides = [8, ?, 1]>>)

// -----

// expected-error @below {{layout promises pitches that are multiples of 16 bytes, but that of dimension 0 is 200 bytes}}
func.func private @f(tensor<4x100xbf16, #fp8moe.strided<[0, 1], align = 16>>)

// -----

// Neutral FP8 types have one byte on every target.
// expected-error @below {{layout promises pitches that are multiples of 16 bytes, but that of dimension 0 is 100 bytes}}
func.func private @f(tensor<4x100x!fp8moe.e4m3, #fp8moe.strided<[0, 1], align = 16>>)

// -----

// expected-error @below {{layout promises pitches that are multiples of 32 bytes, but that of dimension 0 is 48 bytes}}
func.func private @f(tensor<?x8xf32, #fp8moe.strided<[0, 1], strides = [12, 1], align = 32>>)

// -----

// expected-error @below {{layout pads dimension 2 of a tensor of rank 2}}
func.func private @f(tensor<4x8xf32, #fp8moe.strided<[0, 1], groups<dim = 2, pad = 2>>>)

// -----

// expected-error @below {{layout pads groups along dimension 0 to multiples of 16, but its extent is 100}}
func.func private @f(tensor<100x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>)

// -----

// expected-error @below {{layout spans more elements than 64 bits count: dimension 0 has size 9223372036854775807 and stride 16}}
func.func private @f(tensor<9223372036854775807x8xf32, #fp8moe.strided<[0, 1], strides = [16, 1]>>)

// -----

// expected-error @below {{layout spans more elements than 64 bits count: dimension 1 has size 9223372036854775807 and stride 9223372036854775807}}
func.func private @f(tensor<9223372036854775807x9223372036854775807xi8, #fp8moe.strided<[1, 0]>>)

// -----

// Layouts of blocked scales.

// expected-error @below {{expects a tile of rows x columns, such as 128x4}}
func.func private @f(tensor<4x8xi8, #fp8moe.scale_blocked<>>)

// -----

// expected-error @below {{expects a tile of rows x columns, such as 128x4}}
func.func private @f(tensor<4x8xi8, #fp8moe.scale_blocked<128>>)

// -----

// expected-error @below {{expects a tile of rows x columns, such as 128x4}}
func.func private @f(tensor<4x8xi8, #fp8moe.scale_blocked<128x4x1>>)

// -----

// expected-error @below {{expected static shape}}
func.func private @f(tensor<4x8xi8, #fp8moe.scale_blocked<?x4>>)

// -----

// expected-error @below {{expected 'groups'}}
func.func private @f(tensor<4x8xi8, #fp8moe.scale_blocked<128x4, pad = 3>>)

// -----

// expected-error @below {{expects tiles of 128x4, the only ones that hardware reads, found 64x4}}
func.func private @f(tensor<4x8xi8, #fp8moe.scale_blocked<64x4>>)

// -----

// expected-error @below {{expects tiles of 128x4, the only ones that hardware reads, found 0x4}}
func.func private @f(tensor<4x8xi8, #fp8moe.scale_blocked<0x4>>)

// -----

// expected-error @below {{expects padded groups to be <dim = 0, pad = 128> (rows) or <dim = 1, pad = 4> (columns), found <dim = 0, pad = 64>}}
func.func private @f(tensor<128x8xi8, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 64>>>)

// -----

// expected-error @below {{expects padded groups to be <dim = 0, pad = 128> (rows) or <dim = 1, pad = 4> (columns), found <dim = 2, pad = 4>}}
func.func private @f(tensor<128x8xi8, #fp8moe.scale_blocked<128x4, groups<dim = 2, pad = 4>>>)

// -----

// expected-error @below {{blocked scales have rank 2 (rows, columns) or 3 (experts, rows, columns), found rank 1}}
func.func private @f(tensor<8xi8, #fp8moe.scale_blocked<128x4>>)

// -----

// expected-error @below {{blocked scales with padded groups have rank 2, found rank 3}}
func.func private @f(tensor<2x128x8xi8, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>)

// -----

// expected-error @below {{blocked scales are one-byte elements, found 'f32'}}
func.func private @f(tensor<128x8xf32, #fp8moe.scale_blocked<128x4>>)

// -----

// expected-error @below {{blocked scales are one-byte elements, found '!fp8moe.e4m3'}}
func.func private @f(tensor<128x8x!fp8moe.e4m3, #fp8moe.scale_blocked<128x4>>)

// -----

// expected-error @below {{layout pads groups along dimension 0 to multiples of 128, but its extent is 100}}
func.func private @f(tensor<100x8xi8, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>)

// -----

// Names of targets.

// expected-error @below {{unknown target 'sm_90' (did you mean 'sm_90a'?); known targets: cpu, cpu-fnuz, sm_90a, sm_100a, gfx942, gfx950}}
module attributes {fp8moe.target = #fp8moe.target<"sm_90">} {}

// -----

// expected-error @below {{unknown target ''; known targets: cpu, cpu-fnuz, sm_90a, sm_100a, gfx942, gfx950}}
module attributes {fp8moe.target = #fp8moe.target<"">} {}

// -----

// expected-error @below {{expected string}}
// expected-error @below {{failed to parse FP8MoE_TargetAttr parameter 'chip' which is to be a `::llvm::StringRef`}}
module attributes {fp8moe.target = #fp8moe.target<sm_90a>} {}

// -----

// expected-error @below {{expects 'fp8moe.target' to be a #fp8moe.target<"chip"> attribute, found "sm_90a"}}
module attributes {fp8moe.target = "sm_90a"} {}

// -----

// expected-error @below {{has the attribute 'fp8moe.target', which belongs on the module}}
func.func private @f() attributes {fp8moe.target = #fp8moe.target<"sm_90a">}

// -----

// expected-error @below {{has the attribute 'fp8moe.traget', which the dialect does not define; 'fp8moe.target' is the only one allowed here}}
module attributes {fp8moe.traget = #fp8moe.target<"sm_90a">} {}

// -----

// expected-error @below {{expects attributes of the dialect on arguments and results to be 'fp8moe.name' with a non-empty string, found 'fp8moe.name' = ""}}
func.func private @f(tensor<4xf32> {fp8moe.name = ""})

// -----

// expected-error @below {{expects attributes of the dialect on arguments and results to be 'fp8moe.name' with a non-empty string, found 'fp8moe.name' = 1 : i64}}
func.func private @f(tensor<4xf32> {fp8moe.name = 1})

// -----

// expected-error @below {{expects attributes of the dialect on arguments and results to be 'fp8moe.name' with a non-empty string, found 'fp8moe.nmae' = "x"}}
func.func private @f() -> (tensor<4xf32> {fp8moe.nmae = "x"})

// -----

// Enumerations and types.

// expected-error @below {{; expects one of none, pow2}}
// expected-error @below {{failed to parse FP8MoE_ScaleRoundingAttr parameter 'value' which is to be a `::mlir::fp8moe::ScaleRounding`}}
func.func private @f() attributes {rounding = #fp8moe<scale_rounding down>}

// -----

// expected-error @below {{unknown attribute `tile` in dialect `fp8moe`}}
func.func private @f() attributes {unknown = #fp8moe.tile<8>}

// -----

// expected-error @below {{unknown type `e3m4` in dialect `fp8moe`}}
func.func private @f(tensor<4x!fp8moe.e3m4>)

// -----

// expected-error @below {{unknown type `e4m4` in dialect `fp8moe`}}
func.func private @f(tensor<4x4x!fp8moe.e4m4, #fp8moe.strided<[1, 0]>>)

// -----

// expected-error @below {{unknown type `e4m4` in dialect `fp8moe`}}
func.func private @f(tensor<4x4x!fp8moe.e4m4, #fp8moe.scale_blocked<128x4>>)

// -----

// expected-error @below {{invalid memref element type}}
func.func private @f(memref<4x!fp8moe.e4m3>)

// -----

// expected-error @below {{failed to verify 'elementType': VectorElementTypeInterface instance}}
func.func private @f(vector<4x!fp8moe.e4m3>)

// -----

// expected-error @below {{has the 'fp8moe.name' "\FF", which is not UTF-8 or has a null character; callers find buffers by names in a manifest, which holds texts in UTF-8}}
func.func private @f(tensor<8xf32> {fp8moe.name = "\FF"})

// -----

// expected-error @below {{has the 'fp8moe.name' "a\00b", which is not UTF-8 or has a null character}}
func.func private @f() -> (tensor<8xf32> {fp8moe.name = "a\00b"})
