// RUN: fp8moe-opt %s --split-input-file --verify-diagnostics

// transpose

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects a permutation of the dimensions of 'tensor<4x8xf32>', found [0]}}
  %0 = fp8moe.transpose %x [0] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects a permutation of the dimensions of 'tensor<4x8xf32>', found []}}
  %0 = fp8moe.transpose %x [] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects a permutation of the dimensions of 'tensor<4x8xf32>', found [1, 1]}}
  %0 = fp8moe.transpose %x [1, 1] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects a permutation of the dimensions of 'tensor<4x8xf32>', found [-1, 0]}}
  %0 = fp8moe.transpose %x [-1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error @below {{expects a permutation of the dimensions of 'tensor<f32>', found [0]}}
  %0 = fp8moe.transpose %x [0] : tensor<f32> -> tensor<f32>
  return
}

// -----

// A transpose is a view, so its result cannot be row-major.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects the view to have type 'tensor<8x4xf32, #fp8moe.strided<[1, 0]>>', found 'tensor<8x4xf32>'}}
  %0 = fp8moe.transpose %x [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects the view to have type 'tensor<8x4xf32, #fp8moe.strided<[1, 0]>>', found 'tensor<8x4xf16, #fp8moe.strided<[1, 0]>>'}}
  %0 = fp8moe.transpose %x [1, 0] : tensor<4x8xf32> -> tensor<8x4xf16, #fp8moe.strided<[1, 0]>>
  return
}

// -----

// The padding must follow its dimension.
func.func @f(%x: tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>) {
  // expected-error @below {{expects the view to have type 'tensor<8x8xf32, #fp8moe.strided<[1, 0], groups<dim = 1, pad = 2>>>', found 'tensor<8x8xf32, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 2>>>'}}
  %0 = fp8moe.transpose %x [1, 0] : tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
      -> tensor<8x8xf32, #fp8moe.strided<[1, 0], groups<dim = 0, pad = 2>>>
  return
}

// -----

func.func @f(%x: tensor<4x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>) {
  // expected-error @below {{cannot view 'tensor<4x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>' with permuted dimensions; blocked layouts have a fixed order, use fp8moe.relayout first}}
  %0 = fp8moe.transpose %x [1, 0] : tensor<4x8xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
      -> tensor<8x4xf8E8M0FNU, #fp8moe.scale_blocked<128x4>>
  return
}

// -----

// A view is as aligned as its input, which promises only the size of an element.
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{promises an alignment of 16 bytes, but only 4 follow from the input of type 'tensor<4x8xf32>'; use fp8moe.relayout for an aligned copy}}
  %0 = fp8moe.transpose %x [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32, #fp8moe.strided<[1, 0], align = 16>>
  return
}

// -----

func.func @f(%x: tensor<*xf32>) {
  // expected-error @below {{invalid kind of type specified: expected builtin.tensor, but found 'tensor<*xf32>'}}
  %0 = fp8moe.transpose %x [1, 0] : tensor<*xf32> -> tensor<8x4xf32>
  return
}

// -----

// An encoding of another dialect is no layout.
func.func @f(%x: tensor<4x8xf32, "row-major">) {
  // expected-error @below {{operand #0 must be ranked tensor whose encoding, if any, is a layout, but got 'tensor<4x8xf32, "row-major">'}}
  %0 = fp8moe.transpose %x [0, 1] : tensor<4x8xf32, "row-major"> -> tensor<4x8xf32, "row-major">
  return
}

// -----

#csr = #sparse_tensor.encoding<{map = (d0, d1) -> (d0 : dense, d1 : compressed)}>
func.func @f(%x: tensor<4x8xf32, #csr>) {
  // expected-error @below {{operand #0 must be ranked tensor whose encoding, if any, is a layout, but got 'tensor<4x8xf32, #sparse_tensor.encoding<{ map = (d0, d1) -> (d0 : dense, d1 : compressed) }>>'}}
  %0 = fp8moe.relayout %x : tensor<4x8xf32, #csr> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{result #0 must be ranked tensor whose encoding, if any, is a layout, but got 'tensor<4x8xf32, #fp8moe.groups<dim = 0, pad = 2>>'}}
  %0 = fp8moe.relayout %x : tensor<4x8xf32> -> tensor<4x8xf32, #fp8moe.groups<dim = 0, pad = 2>>
  return
}

// -----

// reshape

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{keeps the element type, found 'f32' and 'f16'}}
  %0 = fp8moe.reshape %x : tensor<4x8xf32> -> tensor<32xf16>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{only merges or splits runs of dimensions (a split has at most one '?'), found [4, 8] to [33]}}
  %0 = fp8moe.reshape %x : tensor<4x8xf32> -> tensor<33xf32>
  return
}

// -----

// A reshape either merges or splits. 4x6 to 3x8 would do both at once.
func.func @f(%x: tensor<4x6xf32>) {
  // expected-error @below {{only merges or splits runs of dimensions (a split has at most one '?'), found [4, 6] to [3, 8]}}
  %0 = fp8moe.reshape %x : tensor<4x6xf32> -> tensor<3x8xf32>
  return
}

// -----

// A split into two dynamic sizes is ambiguous.
func.func @f(%x: tensor<?xf32>) {
  // expected-error @below {{only merges or splits runs of dimensions (a split has at most one '?'), found [?] to [?, ?]}}
  %0 = fp8moe.reshape %x : tensor<?xf32> -> tensor<?x?xf32>
  return
}

// -----

// The reshape is ambiguous: a merged 4 could belong to the first or to the last dimension.
func.func @f(%x: tensor<?x4x?xf32>) {
  // expected-error @below {{could merge or split in several ways, found [?, 4, ?] to [?, ?]; give more static sizes, or reshape in steps with one '?' each}}
  %0 = fp8moe.reshape %x : tensor<?x4x?xf32> -> tensor<?x?xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error @below {{only merges or splits runs of dimensions (a split has at most one '?'), found [] to [1]}}
  %0 = fp8moe.reshape %x : tensor<f32> -> tensor<1xf32>
  return
}

// -----

// The result would have more elements than an i64 counts.
func.func @f(%x: tensor<?xi8>) {
  // expected-error @below {{only merges or splits runs of dimensions (a split has at most one '?'), found [?] to [?, 4611686018427387904, 4611686018427387904]}}
  %0 = fp8moe.reshape %x : tensor<?xi8> -> tensor<?x4611686018427387904x4611686018427387904xi8>
  return
}

// -----

// The verifier's search for a reshape is exponential unless it remembers dead ends. Without that,
// this test would not end.
func.func @f(%x: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x2xi8>) {
  // expected-error @below {{only merges or splits runs of dimensions (a split has at most one '?'), found [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2] to [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3]}}
  %0 = fp8moe.reshape %x : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x2xi8>
      -> tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x3xi8>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32, #fp8moe.strided<[1, 0]>>) {
  // expected-error @below {{would have to move bytes: no strides describe this view of 'tensor<4x8xf32, #fp8moe.strided<[1, 0]>>'; use fp8moe.contiguous first}}
  %0 = fp8moe.reshape %x : tensor<4x8xf32, #fp8moe.strided<[1, 0]>> -> tensor<32xf32>
  return
}

// -----

// Each row of 8 elements is followed by 8 others, so the rows cannot merge.
func.func @f(%x: tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [16, 1]>>) {
  // expected-error @below {{would have to move bytes: no strides describe this view of 'tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [16, 1]>>'; use fp8moe.contiguous first}}
  %0 = fp8moe.reshape %x : tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [16, 1]>> -> tensor<32xf32>
  return
}

// -----

// Overlapping rows are legal only for one row. A split into 64 proves that there are more.
func.func @f(%x: tensor<?x8xf32, #fp8moe.strided<[1, 0], strides = [1, 1]>>) {
  // expected-error @below {{would have to move bytes: no strides describe this view of 'tensor<?x8xf32, #fp8moe.strided<[1, 0], strides = [1, 1]>>'; use fp8moe.contiguous first}}
  %0 = fp8moe.reshape %x : tensor<?x8xf32, #fp8moe.strided<[1, 0], strides = [1, 1]>> -> tensor<?x64x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>) {
  // expected-error @below {{would have to move bytes: no strides describe this view of 'tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>'; use fp8moe.contiguous first}}
  %0 = fp8moe.reshape %x : tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>> -> tensor<32xf32>
  return
}

// -----

func.func @f(%x: tensor<12x4xf32, #fp8moe.strided<[1, 0]>>) {
  // expected-error @below {{expects the view to have type 'tensor<3x4x4xf32, #fp8moe.strided<[2, 0, 1]>>', found 'tensor<3x4x4xf32>'}}
  %0 = fp8moe.reshape %x : tensor<12x4xf32, #fp8moe.strided<[1, 0]>> -> tensor<3x4x4xf32>
  return
}

// -----

// The expected type in the message must be legal: outer strides are not smaller than inner ones.
func.func @f(%x: tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [32, 2]>>) {
  // expected-error @below {{expects the view to have type 'tensor<1x4x8xf32, #fp8moe.strided<[0, 1, 2], strides = [128, 32, 2]>>', found 'tensor<1x4x8xf32>'}}
  %0 = fp8moe.reshape %x : tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [32, 2]>> -> tensor<1x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<8x64xbf16>) {
  // expected-error @below {{promises an alignment of 16 bytes, but only 2 follow from the input of type 'tensor<8x64xbf16>'; use fp8moe.relayout for an aligned copy}}
  %0 = fp8moe.reshape %x : tensor<8x64xbf16> -> tensor<512xbf16, #fp8moe.strided<[0], align = 16>>
  return
}

// -----

// A row of unknown length has no known alignment.
func.func @f(%x: tensor<8x?xbf16, #fp8moe.strided<[0, 1], align = 16>>) {
  // expected-error @below {{promises an alignment of 16 bytes, but only 2 follow from the input of type 'tensor<8x?xbf16, #fp8moe.strided<[0, 1], align = 16>>'; use fp8moe.relayout for an aligned copy}}
  %0 = fp8moe.reshape %x : tensor<8x?xbf16, #fp8moe.strided<[0, 1], align = 16>> -> tensor<8x4x?xbf16, #fp8moe.strided<[0, 1, 2], align = 16>>
  return
}

// -----

func.func @f(%x: tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>) {
  // expected-error @below {{expects the input to have packed groups, found #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>; use fp8moe.relayout with 'groups' to pack them first}}
  %0 = fp8moe.reshape %x : tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>> -> tensor<64xf32>
  return
}

// -----

func.func @f(%x: tensor<64xf32>) {
  // expected-error @below {{expects the result to have packed groups, found #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>; use fp8moe.relayout with 'groups' to pack them first}}
  %0 = fp8moe.reshape %x : tensor<64xf32> -> tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
  return
}

// -----

func.func @f(%x: tensor<4x8xi8, #fp8moe.scale_blocked<128x4>>) {
  // expected-error @below {{expects the input to have a strided layout or none, found #fp8moe.scale_blocked<128x4>}}
  %0 = fp8moe.reshape %x : tensor<4x8xi8, #fp8moe.scale_blocked<128x4>> -> tensor<32xi8>
  return
}

// -----

// contiguous

func.func @f(%x: tensor<4x8xf32, #fp8moe.strided<[1, 0]>>) {
  // expected-error @below {{expects the copy to have type 'tensor<4x8xf32>', found 'tensor<4x8xf32, #fp8moe.strided<[1, 0]>>'}}
  %0 = fp8moe.contiguous %x : tensor<4x8xf32, #fp8moe.strided<[1, 0]>> -> tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error @below {{expects the copy to have type 'tensor<?x8xf32>', found 'tensor<4x8xf32>'}}
  %0 = fp8moe.contiguous %x : tensor<?x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>) {
  // expected-error @below {{expects the input to have packed groups, found #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>; use fp8moe.relayout with 'groups' to pack them first}}
  %0 = fp8moe.contiguous %x : tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>> -> tensor<8x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xi8, #fp8moe.scale_blocked<128x4>>) {
  // expected-error @below {{expects the input to have a strided layout or none, found #fp8moe.scale_blocked<128x4>}}
  %0 = fp8moe.contiguous %x : tensor<4x8xi8, #fp8moe.scale_blocked<128x4>> -> tensor<4x8xi8>
  return
}

// -----

// relayout

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{keeps the element type, found 'f32' and 'bf16'; use fp8moe.quantize or fp8moe.dequantize to convert}}
  %0 = fp8moe.relayout %x : tensor<4x8xf32> -> tensor<4x8xbf16>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{keeps the shape, found rank 2 and 1; use fp8moe.reshape first}}
  %0 = fp8moe.relayout %x : tensor<4x8xf32> -> tensor<32xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects dimension 1 of the result to be 8, found ?}}
  %0 = fp8moe.relayout %x : tensor<4x8xf32> -> tensor<4x?xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{cannot choose the unknown strides of the result of type 'tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>'; give all strides, or leave them out for dense ones}}
  %0 = fp8moe.relayout %x : tensor<4x8xf32> -> tensor<4x8xf32, #fp8moe.strided<[0, 1], strides = [?, 1]>>
  return
}

// -----

func.func @f(%x: tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>) {
  // expected-error @below {{cannot change one padding of groups into another (#fp8moe.groups<dim = 0, pad = 2> to #fp8moe.groups<dim = 0, pad = 4>); pack the groups in between}}
  %0 = fp8moe.relayout %x : tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
      -> tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 4>>>
  return
}

// -----

func.func @f(%x: tensor<1x8xi8>, %ends: tensor<1xi32>) {
  // expected-error @below {{cannot pad or pack the groups of blocked scales; let fp8moe.mx_quantize write them padded}}
  %0 = fp8moe.relayout %x groups(%ends : tensor<1xi32>) : tensor<1x8xi8>
      -> tensor<128x8xi8, #fp8moe.scale_blocked<128x4, groups<dim = 0, pad = 128>>>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @below {{needs the group offsets to pad or pack groups; add 'groups(%offsets : tensor<Exi32>)'}}
  %0 = fp8moe.relayout %x : tensor<4x8xf32> -> tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<4xi32>) {
  // expected-error @below {{has group offsets, but neither side alone has padded groups; remove 'groups(...)'}}
  %0 = fp8moe.relayout %x groups(%ends : tensor<4xi32>) : tensor<4x8xf32> -> tensor<4x8xf32, #fp8moe.strided<[1, 0]>>
  return
}

// -----

// The padded extent is round_up(4 + 3 * 1, 2) = 8.
func.func @f(%x: tensor<4x8xf32>, %ends: tensor<3xi32>) {
  // expected-error @below {{expects dimension 0 of the result to be 8, found 6}}
  %0 = fp8moe.relayout %x groups(%ends : tensor<3xi32>) : tensor<4x8xf32> -> tensor<6x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
  return
}

// -----

// The padded extent is unknown, as the number of groups is.
func.func @f(%x: tensor<4x8xf32>, %ends: tensor<?xi32>) {
  // expected-error @below {{expects dimension 0 of the result to be ?, found 8}}
  %0 = fp8moe.relayout %x groups(%ends : tensor<?xi32>) : tensor<4x8xf32> -> tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
  return
}

// -----

func.func @f(%x: tensor<6x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>, %ends: tensor<3xi32>) {
  // expected-error @below {{expects dimension 0 of the input to be the padded extent of the result, 8, found 6}}
  %0 = fp8moe.relayout %x groups(%ends : tensor<3xi32>) : tensor<6x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>> -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<3xi32, #fp8moe.strided<[0], strides = [2]>>) {
  // expected-error @below {{expects the group offsets to be dense row-major, found #fp8moe.strided<[0], strides = [2]>}}
  %0 = fp8moe.relayout %x groups(%ends : tensor<3xi32, #fp8moe.strided<[0], strides = [2]>>) : tensor<4x8xf32>
      -> tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<3x1xi32>) {
  // expected-error @below {{operand #1 must be 1-D tensor of i32 group ends whose encoding, if any, is a layout, but got 'tensor<3x1xi32>'}}
  %0 = fp8moe.relayout %x groups(%ends : tensor<3x1xi32>) : tensor<4x8xf32>
      -> tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %ends: tensor<3xi64>) {
  // expected-error @below {{operand #1 must be 1-D tensor of i32 group ends whose encoding, if any, is a layout, but got 'tensor<3xi64>'}}
  %0 = fp8moe.relayout %x groups(%ends : tensor<3xi64>) : tensor<4x8xf32>
      -> tensor<8x8xf32, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 2>>>
  return
}

// -----

func.func @f(%x: tensor<?x64xbf16>, %ends: tensor<0xi32>) {
  // expected-error @below {{expects the offsets of at least one group, found 'tensor<0xi32>'}}
  %r = fp8moe.relayout %x groups(%ends : tensor<0xi32>)
      : tensor<?x64xbf16> -> tensor<?x64xbf16, #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>>
  return
}
