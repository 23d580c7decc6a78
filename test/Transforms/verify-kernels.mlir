// RUN: fp8moe-opt %s --fp8moe-verify-kernels --split-input-file --verify-diagnostics

#ecol = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @row_major_weights(%a: tensor<?x64xf8E4M3FN>, %b: tensor<2x64x32xf8E4M3FN>, %ends: tensor<2xi32>,
                             %sa: tensor<?xf32>, %sb: tensor<2x32xf32>) -> tensor<?x32xbf16> {
  // expected-error @below {{on sm_90a expects the second operand to be contiguous along the contracted dimension 1, found 'tensor<2x64x32xf8E4M3FN>'; run the layout passes, or fp8moe.relayout it first}}
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<2x32xf32>) direction quantize
      : tensor<?x64xf8E4M3FN>, tensor<2x64x32xf8E4M3FN> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

#ecol = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @contraction_of_1000(%a: tensor<?x1000xf8E4M3FN>, %b: tensor<2x1000x32xf8E4M3FN, #ecol>, %ends: tensor<2xi32>,
                               %sa: tensor<?xf32>, %sb: tensor<2x32xf32>) -> tensor<?x32xbf16> {
  // expected-error @below {{on sm_90a expects every stride of the first operand but that of the contracted dimension to be a multiple of 16 bytes, found 1000 elements of 1 bytes along dimension 0 of 'tensor<?x1000xf8E4M3FN>'; make the size of dimension 1 a multiple of 16, or give the layout strides that are, such as 1008 instead of 1000}}
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<2x32xf32>) direction quantize
      : tensor<?x1000xf8E4M3FN>, tensor<2x1000x32xf8E4M3FN, #ecol> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

// The remedy from the message: strides that are multiples of 1008 are accepted.
#rows = #fp8moe.strided<[0, 1], strides = [1008, 1]>
#columns = #fp8moe.strided<[0, 2, 1], strides = [32256, 1, 1008]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @contraction_of_1000_apart(%a: tensor<?x1000xf8E4M3FN, #rows>, %b: tensor<2x1000x32xf8E4M3FN, #columns>,
                                     %ends: tensor<2xi32>, %sa: tensor<?xf32>, %sb: tensor<2x32xf32>) -> tensor<?x32xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<2x32xf32>) direction quantize
      : tensor<?x1000xf8E4M3FN, #rows>, tensor<2x1000x32xf8E4M3FN, #columns> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

// bf16 elements have two bytes, so 1004 of them are no multiple of 16 bytes.
#ecol = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @bf16(%a: tensor<?x1004xbf16>, %b: tensor<2x1004x32xbf16, #ecol>, %ends: tensor<2xi32>) -> tensor<?x32xbf16> {
  // expected-error @below {{a multiple of 16 bytes, found 1004 elements of 2 bytes along dimension 0 of 'tensor<?x1004xbf16>'; make the size of dimension 1 a multiple of 8, or give the layout strides that are, such as 1008 instead of 1004}}
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<?x1004xbf16>, tensor<2x1004x32xbf16, #ecol> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

// A bf16 B may be N-major. Then its columns are the pitch.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @bf16_along_columns(%a: tensor<?x64xbf16>, %b: tensor<2x64x32xbf16>, %c: tensor<2x64x36xbf16>, %ends: tensor<2xi32>)
    -> (tensor<?x32xbf16>, tensor<?x36xf32>) {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<?x64xbf16>, tensor<2x64x32xbf16> -> tensor<?x32xbf16>
  // expected-error @below {{on sm_90a expects every stride of the second operand but that of the last dimension to be a multiple of 16 bytes, found 36 elements of 2 bytes along dimension 1 of 'tensor<2x64x36xbf16>'; make the size of dimension 2 a multiple of 8, or give the layout strides that are, such as 40 instead of 36}}
  %z = fp8moe.grouped_matmul %a, %c groups(%ends : tensor<2xi32>)
      : tensor<?x64xbf16>, tensor<2x64x36xbf16> -> tensor<?x36xf32>
  return %y, %z : tensor<?x32xbf16>, tensor<?x36xf32>
}
}

// -----

// Any other order of B is an error.
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @bf16_along_experts(%a: tensor<?x64xbf16>, %b: tensor<8x64x32xbf16, #fp8moe.strided<[1, 2, 0]>>, %ends: tensor<8xi32>)
    -> tensor<?x32xbf16> {
  // expected-error @below {{on sm_90a expects the second operand to be contiguous along the contracted dimension 1 or along dimension 2, found 'tensor<8x64x32xbf16, #fp8moe.strided<[1, 2, 0]>>'; run the layout passes, or fp8moe.relayout it first}}
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<8xi32>)
      : tensor<?x64xbf16>, tensor<8x64x32xbf16, #fp8moe.strided<[1, 2, 0]>> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

// wgrad reads both bf16 operands MN-major. Where groups divide rows, A must be K-major.
#columns = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @bf16_weight_gradient(%a: tensor<64x?xbf16, #columns>, %b: tensor<?x32xbf16>, %ends: tensor<2xi32>) -> tensor<2x64x32xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<64x?xbf16, #columns>, tensor<?x32xbf16> -> tensor<2x64x32xbf16>
  return %y : tensor<2x64x32xbf16>
}
func.func @bf16_along_grouped_rows(%a: tensor<?x64xbf16, #columns>, %b: tensor<2x64x32xbf16>, %ends: tensor<2xi32>) -> tensor<?x32xbf16> {
  // expected-error @below {{on sm_90a expects the first operand to be contiguous along the contracted dimension 1, found 'tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>'}}
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<?x64xbf16, #columns>, tensor<2x64x32xbf16> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

// wgrad contracts over rows, whose dynamic number the host checks.
#col = #fp8moe.strided<[1, 0]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @weight_gradient(%a: tensor<64x?xf8E4M3FN>, %b: tensor<?x32xf8E4M3FN, #col>, %ends: tensor<2xi32>,
                           %sa: tensor<2x64xf32>, %sb: tensor<2x32xf32>, %c: tensor<2x64x32xf32, #fp8moe.strided<[0, 2, 1]>>)
    -> (tensor<2x64x32xbf16>, tensor<2x64x32xf32, #fp8moe.strided<[0, 2, 1]>>) {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<2x64xf32>, tensor<2x32xf32>) direction quantize
      : tensor<64x?xf8E4M3FN>, tensor<?x32xf8E4M3FN, #col> -> tensor<2x64x32xbf16>
  // expected-error @below {{on sm_90a expects the result to be contiguous along the last dimension 2, found 'tensor<2x64x32xf32, #fp8moe.strided<[0, 2, 1]>>'; fp8moe.relayout such a result instead}}
  %z = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<2x64xf32>, tensor<2x32xf32>) direction quantize
      accumulate(%c : tensor<2x64x32xf32, #fp8moe.strided<[0, 2, 1]>>)
      : tensor<64x?xf8E4M3FN>, tensor<?x32xf8E4M3FN, #col> -> tensor<2x64x32xf32, #fp8moe.strided<[0, 2, 1]>>
  return %y, %z : tensor<2x64x32xbf16>, tensor<2x64x32xf32, #fp8moe.strided<[0, 2, 1]>>
}
}

// -----

// TMA also stores the result: 20 bf16 are 40 bytes, no multiple of 16.
#ecol = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
func.func @narrow_result(%a: tensor<?x64xf8E4M3FN>, %b: tensor<2x64x20xf8E4M3FN, #ecol>, %ends: tensor<2xi32>,
                         %sa: tensor<?xf32>, %sb: tensor<2x20xf32>) -> (tensor<?x20xbf16>, tensor<?x20xf32>) {
  %f32 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<2x20xf32>) direction quantize
      : tensor<?x64xf8E4M3FN>, tensor<2x64x20xf8E4M3FN, #ecol> -> tensor<?x20xf32>
  // expected-error @below {{on sm_90a expects every stride of the result but that of the last dimension to be a multiple of 16 bytes, found 20 elements of 2 bytes along dimension 0 of 'tensor<?x20xbf16>'; make the size of dimension 1 a multiple of 8, or give the layout strides that are, such as 24 instead of 20}}
  %bf16 = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<2x20xf32>) direction quantize
      : tensor<?x64xf8E4M3FN>, tensor<2x64x20xf8E4M3FN, #ecol> -> tensor<?x20xbf16>
  return %bf16, %f32 : tensor<?x20xbf16>, tensor<?x20xf32>
}
}

// -----

// The CPU accepts any layout.
module attributes {fp8moe.target = #fp8moe.target<"cpu">} {
func.func @on_cpu(%a: tensor<?x1000xf8E4M3FN>, %b: tensor<2x1000x32xf8E4M3FN>, %ends: tensor<2xi32>,
                  %sa: tensor<?xf32>, %sb: tensor<2x32xf32>) -> tensor<?x32xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      scales(%sa, %sb : tensor<?xf32>, tensor<2x32xf32>) direction quantize
      : tensor<?x1000xf8E4M3FN>, tensor<2x1000x32xf8E4M3FN> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

// On AMD, bf16 operands may be K-major or MN-major, too.
#experts_last = #fp8moe.strided<[1, 2, 0]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
func.func @row_major_weights_on_gfx942(%a: tensor<?x1008xbf16>, %b: tensor<2x1008x32xbf16>, %ends: tensor<2xi32>) -> tensor<?x32xbf16> {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<?x1008xbf16>, tensor<2x1008x32xbf16> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

func.func @experts_last_on_gfx942(%a: tensor<?x1008xbf16>, %b: tensor<2x1008x32xbf16, #experts_last>, %ends: tensor<2xi32>) -> tensor<?x32xbf16> {
  // expected-error @below {{on gfx942 expects the second operand to be contiguous along the contracted dimension 1 or along dimension 2, found 'tensor<2x1008x32xbf16, #fp8moe.strided<[1, 2, 0]>>'; run the layout passes, or fp8moe.relayout it first}}
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<?x1008xbf16>, tensor<2x1008x32xbf16, #experts_last> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

// A lane loads 16 bytes, so rows must begin at multiples of 16 bytes.
#ecol = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"gfx950">} {
func.func @contraction_of_1004_on_gfx950(%a: tensor<?x1004xbf16>, %b: tensor<2x1004x32xbf16, #ecol>, %ends: tensor<2xi32>) -> tensor<?x32xbf16> {
  // expected-error @below {{on gfx950 expects every stride of the first operand but that of the contracted dimension to be a multiple of 16 bytes, found 1004 elements of 2 bytes along dimension 0 of 'tensor<?x1004xbf16>'; make the size of dimension 1 a multiple of 8, or give the layout strides that are, such as 1008 instead of 1004}}
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<?x1004xbf16>, tensor<2x1004x32xbf16, #ecol> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

// On AMD, results may have any pitch (20 bf16 are 40 bytes), but must be row-major.
#ecol = #fp8moe.strided<[0, 2, 1]>
module attributes {fp8moe.target = #fp8moe.target<"gfx942">} {
func.func @results_on_gfx942(%a: tensor<32x64xbf16>, %b: tensor<2x64x20xbf16, #ecol>, %ends: tensor<2xi32>)
    -> (tensor<32x20xbf16>, tensor<32x20xbf16, #fp8moe.strided<[1, 0]>>) {
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<32x64xbf16>, tensor<2x64x20xbf16, #ecol> -> tensor<32x20xbf16>
  // expected-error @below {{on gfx942 expects the result to be contiguous along the last dimension 1, found 'tensor<32x20xbf16, #fp8moe.strided<[1, 0]>>'; fp8moe.relayout such a result instead}}
  %z = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<32x64xbf16>, tensor<2x64x20xbf16, #ecol> -> tensor<32x20xbf16, #fp8moe.strided<[1, 0]>>
  return %y, %z : tensor<32x20xbf16>, tensor<32x20xbf16, #fp8moe.strided<[1, 0]>>
}
}

// -----

// There is no kernel on sm_100a, whatever the layouts.
module attributes {fp8moe.target = #fp8moe.target<"sm_100a">} {
func.func @no_kernel_on_sm_100a(%a: tensor<?x1004xbf16>, %b: tensor<2x1004x32xbf16>, %ends: tensor<2xi32>) -> tensor<?x32xbf16> {
  // expected-error @below {{'fp8moe.grouped_matmul' is not supported on target sm_100a yet; compile the function for sm_90a or gfx942 or gfx950 or 'cpu'}}
  %y = fp8moe.grouped_matmul %a, %b groups(%ends : tensor<2xi32>)
      : tensor<?x1004xbf16>, tensor<2x1004x32xbf16> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
}

// -----

// expected-error @below {{target}}
module {
}

// -----

// An operation for both axes needs a fallback with a choice for each axis.

module attributes {fp8moe.target = #fp8moe.target<"sm_90a">} {
  func.func @axes(%x: tensor<?x1024xbf16>, %ends: tensor<8xi32>)
      -> (tensor<?x1024xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<?x1024xf8E4M3FN>) {
    // expected-error@+1 {{along 2 axes expects #fp8moe.per_axis<[...]> with a choice for each as the last alternative; run fp8moe-select-tiles, or add it}}
    %q:2, %s:2 = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0, 1] rounding pow2
        tiles [#fp8moe.single_pass_both_axes<columns = 64, stages = 9, row_bytes = 2048, row_stages = 16>]
        : tensor<?x1024xbf16>
        -> tensor<?x1024xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<?x1024xf8E4M3FN>, tensor<8x1024xf32>, tensor<?xf32>
    return %q#0, %q#1 : tensor<?x1024xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<?x1024xf8E4M3FN>
  }
}
