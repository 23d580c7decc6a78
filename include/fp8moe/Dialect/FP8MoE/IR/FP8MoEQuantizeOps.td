//===- FP8MoEQuantizeOps.td - Scales and quantize casts ----*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_DIALECT_FP8MOE_IR_FP8MOEQUANTIZEOPS_TD
#define FP8MOE_DIALECT_FP8MOE_IR_FP8MOEQUANTIZEOPS_TD

include "fp8moe/Dialect/FP8MoE/IR/FP8MoEOpBase.td"

class FP8MoE_OneAxisOp<string mnemonic, list<Trait> traits>
    : FP8MoE_SliceOp<mnemonic, traits> {
  code axisDeclaration = [{
    ::llvm::SmallVector<int64_t, 2> getSliceAxes() { return {getAxis()}; }
    void setSliceAxes(::llvm::ArrayRef<int64_t> axes) { setAxis(axes.front()); }
  }];
  let extraClassDeclaration = axisDeclaration;
}

class FP8MoE_ScaleOpOf<string mnemonic, FP8MoE_Groups groups = FP8MoE_NoGroups>
    : FP8MoE_OneAxisOp<mnemonic, [FP8MoE_InferredType, FP8MoE_TiledOpInterface]> {
  let arguments = !con((ins FP8MoE_FloatTensor:$input), groups.operands,
    (ins FP8MoE_AxisAttr:$axis, FP8MoE_ScaleRoundingAttr:$rounding,
      FP8MoE_Fp8TypeAttr:$fp8Type, OptionalAttr<FP8MoE_KernelChoiceAttr>:$tiles));
  let results = (outs FP8MoE_ScaleTensor:$scale);
  let assemblyFormat = "$input " # groups.format # [{
    `along` $axis `rounding` `` $rounding `fp8` $fp8Type
    (`tiles` custom<KernelChoice>($tiles)^)? attr-dict `:` type($input) `->` type($scale)
  }];
  let extraClassDeclaration = axisDeclaration # [{
    ::std::optional<::mlir::fp8moe::ScaleRounding> getScaleRounding() {
      return getRounding();
    }
  }];
}

def FP8MoE_ScaleOp : FP8MoE_ScaleOpOf<"scale"> {
  let summary = "scales from the largest magnitude along a dimension";
  let semantics = [{
    One f32 scale for each slice along `axis`: `f32(f64(FP8_MAX) / max(f64(amax), 1e-12))`,
    rounded as `rounding` says. A NaN in a slice makes its scale the NaN 0x7FC00000; an
    infinity without NaN makes it 0; a zero slice has `f32(FP8_MAX / 1e-12)`.

    Shapes: input of any rank, in any strided layout; the result is the input's shape
    without `axis`, dense row-major.
  }];
  let example = [{
    func.func @rowwise_scale(%x: tensor<?x2048xbf16>) -> tensor<?xf32> {
      %s = fp8moe.scale %x along 1 rounding pow2 fp8 !fp8moe.e4m3
          : tensor<?x2048xbf16> -> tensor<?xf32>
      return %s : tensor<?xf32>
    }
  }];
}

def FP8MoE_JaggedScaleOp : FP8MoE_ScaleOpOf<"jagged_scale", FP8MoE_JaggedGroups> {
  let summary = "scales from the largest magnitude in each jagged group";
  let semantics = [{
    As `fp8moe.scale`, with slices cut by jagged groups along `axis`. An empty group has the
    scales of a zero slice; rows of no group have none.

    Shapes: input `[M, N]` with `axis = 0` (groups are row ranges) or `[N, M]` with
    `axis = 1` (column ranges), offsets `[E]`, result `[E, N]`.
  }];
  let example = [{
    func.func @expert_scales(%x: tensor<?x2048xbf16>, %ends: tensor<64xi32>)
        -> tensor<64x2048xf32> {
      %s = fp8moe.jagged_scale %x groups(%ends : tensor<64xi32>) along 0 rounding pow2
          fp8 !fp8moe.e4m3 : tensor<?x2048xbf16> -> tensor<64x2048xf32>
      return %s : tensor<64x2048xf32>
    }
  }];
}

/// An operation that reads scales of slices.
class FP8MoE_CastOp<string mnemonic, Type from, Type to, dag direction = (ins),
                   string directionFormat = ""> : FP8MoE_OneAxisOp<mnemonic, []> {
  let arguments = !con((ins from:$input, FP8MoE_ScaleTensor:$scale,
    Optional<FP8MoE_Offsets>:$offsets, FP8MoE_AxisAttr:$axis), direction);
  let results = (outs to:$result);
  let assemblyFormat = [{
    $input `by` $scale `along` $axis (`groups` `(` $offsets^ `:` type($offsets) `)`)?
  }] # directionFormat # " attr-dict `:` type($input) `,` type($scale) `->` type($result)";
  let extraClassDeclaration = axisDeclaration # [{
    ::mlir::OpOperand *getScaleOperand() { return &getScaleMutable(); }
    void getEqualSizes(
        ::llvm::SmallVectorImpl<::mlir::fp8moe::EqualSizes> &pairs);
  }];
}

def FP8MoE_QuantizeOp : FP8MoE_CastOp<"quantize", FP8MoE_FloatTensor, FP8MoE_Fp8Tensor> {
  let summary = "FP8 cast with given scales";
  let semantics = [{
    `q = cast(clamp(f32(x) * scale, -FP8_MAX, FP8_MAX))`, round to nearest even; the scale is
    that of the element's slice along `axis`. NaN in, NaN out. With `groups`, slices are cut
    by jagged groups along `axis`, and elements of no group become zero.

    Shapes: as `fp8moe.scale` and `fp8moe.jagged_scale`; the result has the input's shape
    and any strided layout with packed groups.
  }];
  let example = [{
    func.func @cast(%x: tensor<?x2048xbf16>, %s: tensor<?xf32>)
        -> tensor<?x2048x!fp8moe.e4m3> {
      %q = fp8moe.quantize %x by %s along 1
          : tensor<?x2048xbf16>, tensor<?xf32> -> tensor<?x2048x!fp8moe.e4m3>
      return %q : tensor<?x2048x!fp8moe.e4m3>
    }
  }];
}

def FP8MoE_DequantizeOp
    : FP8MoE_CastOp<"dequantize", FP8MoE_Fp8Tensor, FP8MoE_FloatTensor,
                    (ins FP8MoE_ScaleDirectionAttr:$direction),
                    "`direction` `` $direction"> {
  let summary = "back from FP8";
  let semantics = [{
    `out = cast(f32(q) * d)` with `d = f32(1 / s)` for `quantize` scales and the scale itself
    for `dequantize` ones. With `groups`, elements of no group become zero.

    Shapes: as `fp8moe.quantize`.
  }];
  let example = [{
    func.func @back(%q: tensor<?x2048x!fp8moe.e4m3>, %s: tensor<?xf32>)
        -> tensor<?x2048xbf16> {
      %x = fp8moe.dequantize %q by %s along 1 direction quantize
          : tensor<?x2048x!fp8moe.e4m3>, tensor<?xf32> -> tensor<?x2048xbf16>
      return %x : tensor<?x2048xbf16>
    }
  }];
}

class FP8MoE_DynamicOp<string mnemonic, FP8MoE_Groups groups = FP8MoE_NoGroups>
    : FP8MoE_SliceOp<mnemonic, [FP8MoE_TiledOpInterface, SameVariadicResultSize]> {
  let arguments = !con((ins FP8MoE_FloatTensor:$input), groups.operands,
    (ins DenseI64ArrayAttr:$axes, FP8MoE_ScaleRoundingAttr:$rounding,
      OptionalAttr<FP8MoE_KernelChoiceAttr>:$tiles));
  let results = (outs Variadic<FP8MoE_Fp8Tensor>:$quantized,
                      Variadic<FP8MoE_ScaleTensor>:$scales);
  let assemblyFormat = "$input " # groups.format # [{
    `along` $axes `rounding` `` $rounding (`tiles` custom<KernelChoice>($tiles)^)?
    attr-dict `:` type($input)
    `->` custom<DataAndScaleTypes>(type($quantized), type($scales))
  }];
  let extraClassDeclaration = [{
    /// GPUs have a kernel for one axis, besides that of the tile both_axes, which is
    /// chosen when tiles are. On the CPU, where there are no launches and time is not
    /// tuned, an operation counts once.
    int64_t getNumPasses(const ::mlir::fp8moe::TargetInfo &target) {
      return target.isGPU() ? getAxes().size() : 1;
    }
    ::std::optional<::mlir::fp8moe::ScaleRounding> getScaleRounding() {
      return getRounding();
    }
  }];
}

def FP8MoE_DynamicQuantizeOp : FP8MoE_DynamicOp<"dynamic_quantize"> {
  let summary = "scales and FP8 data in one step";
  let semantics = [{
    `fp8moe.scale` and `fp8moe.quantize` of the same tensor, fused. With two axes the input is
    read once and quantized both ways. Results come as all data, then all scales:
    `q0, s0` or `q0, q1, s0, s1`.

    Shapes, for each axis: data of the input's shape in any strided layout; scales of the
    input's shape without the axis, dense row-major. 3D weights `[E, K, N]` along 1 have
    scales `[E, N]` (forward) and along 2 `[E, K]` (dgrad).
  }];
  let example = [{
    func.func @forward_weights(%w: tensor<64x2048x1408xbf16, #fp8moe.strided<[0, 2, 1]>>)
        -> (tensor<64x2048x1408x!fp8moe.e4m3, #fp8moe.strided<[0, 2, 1]>>,
            tensor<64x1408xf32>) {
      %q, %s = fp8moe.dynamic_quantize %w along [1] rounding pow2
          : tensor<64x2048x1408xbf16, #fp8moe.strided<[0, 2, 1]>>
          -> tensor<64x2048x1408x!fp8moe.e4m3, #fp8moe.strided<[0, 2, 1]>>,
             tensor<64x1408xf32>
      return %q, %s : tensor<64x2048x1408x!fp8moe.e4m3, #fp8moe.strided<[0, 2, 1]>>,
                      tensor<64x1408xf32>
    }
  }];
}

def FP8MoE_JaggedDynamicQuantizeOp
    : FP8MoE_DynamicOp<"jagged_dynamic_quantize", FP8MoE_JaggedGroups> {
  let summary = "scales and FP8 data of each jagged group";
  let semantics = [{
    `fp8moe.jagged_scale` and `fp8moe.quantize` of the same tensor, fused. `axes[0]` is the
    jagged axis. A second axis adds an ordinary quantization of every whole slice along
    it (rows of no group included), from the same read. Results: `q0, s0` or
    `q0, q1, s0, s1`.

    Elements of no group are zero in the jagged data. The jagged data may have padded
    groups (`groups<dim = axes[0], pad = P>` in its layout). Its extent along the jagged
    axis is then the padded one, and padding is zero.

    Shapes: input `[M, N]` with `axes[0] = 0` or `[N, M]` with `axes[0] = 1`, offsets `[E]`,
    jagged scales `[E, N]`.
  }];
  let example = [{
    func.func @weight_gradient_operand(%x: tensor<?x2048xbf16>, %ends: tensor<64xi32>)
        -> (tensor<?x2048x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<64x2048xf32>) {
      %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<64xi32>)
          along [0] rounding pow2 : tensor<?x2048xbf16>
          -> tensor<?x2048x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>, tensor<64x2048xf32>
      return %q, %s : tensor<?x2048x!fp8moe.e4m3, #fp8moe.strided<[1, 0]>>,
                      tensor<64x2048xf32>
    }
  }];
}

def FP8MoE_MXQuantizeOp : FP8MoE_SliceOp<"mx_quantize", [SameVariadicResultSize]> {
  let summary = "FP8 data with one power-of-two scale per 32 elements (MXFP8)";
  let semantics = [{
    OCP Microscaling: each block of 32 elements along an axis has one scale byte b of type
    `f8E8M0FNU`, meaning 2^(b-127). Data is `x / 2^(b-127)`, saturating, round to nearest
    even. The last block may be short. A zero block has byte 0; a NaN or infinity in a
    block makes its byte 255 and the whole block NaN.

    With two axes the input is read once and quantized both ways. Results come as all data,
    then all scales: `q0, s0` or `q0, q1, s0, s1`. With `square` (weights), the largest
    magnitude is that of 32 x 32 elements, so both axes have the same data and
    dequantize alike. Each of the 32 slices of a block along an axis has its scale byte.

    Shapes: the input has rank 2 or 3, and data has its shape in any strided layout. Scales
    have the other dimensions of the input in order, and `ceil(size / 32)` last: `[M, K/32]`
    along 1 of `[M, K]`, `[K, M/32]` along 0, `[E, K, N/32]` along 1 of `[E, N, K]`. Scales are
    dense row-major or `#fp8moe.scale_blocked<128x4>`. Two axes, and those of square blocks,
    are the last two dimensions.

    With `groups` the input has rank 2, groups are row ranges, and blocked scales have padded
    groups. Along 1 each group's scale rows start at a multiple of 128
    (`groups<dim = 0, pad = 128>`). Along 0 blocks start at each group's first row, and each group's scale columns
    at a multiple of 4 (`groups<dim = 1, pad = 4>`). The padded extent of M is
    `P = round_up(M + E * 127, 128)`, that of the columns `P / 32`. Rows of no group are zero.
  }];
  let example = [{
    func.func @mx_rows(%x: tensor<?x2048xbf16>)
        -> (tensor<?x2048x!fp8moe.e4m3>, tensor<?x64xf8E8M0FNU>) {
      %q, %s = fp8moe.mx_quantize %x along [1] mode rceil : tensor<?x2048xbf16>
          -> tensor<?x2048x!fp8moe.e4m3>, tensor<?x64xf8E8M0FNU>
      return %q, %s : tensor<?x2048x!fp8moe.e4m3>, tensor<?x64xf8E8M0FNU>
    }
  }];
  let arguments = (ins FP8MoE_FloatTensor:$input, Optional<FP8MoE_Offsets>:$offsets,
    DenseI64ArrayAttr:$axes, FP8MoE_MXModeAttr:$mode, UnitAttr:$square);
  let results = (outs Variadic<FP8MoE_Fp8Tensor>:$quantized,
                      Variadic<FP8MoE_BlockScaleTensor>:$scales);
  let assemblyFormat = [{
    $input `along` $axes `mode` `` $mode (`square` $square^)?
    (`groups` `(` $offsets^ `:` type($offsets) `)`)? attr-dict `:` type($input)
    `->` custom<DataAndScaleTypes>(type($quantized), type($scales))
  }];
  let extraClassDeclaration = [{
    /// The axis of an operation that is known to have one.
    int64_t getAxis() {
      assert(getAxes().size() == 1 && "expected one axis");
      return getAxes().front();
    }
    /// The data and the scale bytes along axis number `index`.
    ::mlir::TypedValue<::mlir::RankedTensorType> getData(unsigned index) {
      return ::llvm::cast<::mlir::TypedValue<::mlir::RankedTensorType>>(
          getQuantized()[index]);
    }
    ::mlir::TypedValue<::mlir::RankedTensorType> getBlockScales(unsigned index) {
      return ::llvm::cast<::mlir::TypedValue<::mlir::RankedTensorType>>(
          getScales()[index]);
    }
    /// Whether one kernel of a GPU can quantize along both axes from one read.
    bool isReadOnce();
    /// On the CPU, where there are no launches, an operation counts once.
    int64_t getNumPasses(const ::mlir::fp8moe::TargetInfo &target) {
      return target.isGPU() && !isReadOnce() ? getAxes().size() : 1;
    }
  }];
}

def FP8MoE_MXDequantizeOp : FP8MoE_OneAxisOp<"mx_dequantize", []> {
  let summary = "back from FP8 with one power-of-two scale per 32 elements (MXFP8)";
  let semantics = [{
    `out = cast(f32(q) * 2^(b-127))` with the scale byte b of the element's block along
    `axis`: an f32 product, rounded to the output's type. Byte 255 makes its block NaN. With
    `groups`, rows of no group become zero.

    Shapes: data and scales as `fp8moe.mx_quantize` writes them along one axis; the result
    has the shape of the data and any strided layout.
  }];
  let example = [{
    func.func @mx_back(%q: tensor<?x2048x!fp8moe.e4m3>, %s: tensor<?x64xf8E8M0FNU>)
        -> tensor<?x2048xbf16> {
      %x = fp8moe.mx_dequantize %q by %s along 1
          : tensor<?x2048x!fp8moe.e4m3>, tensor<?x64xf8E8M0FNU> -> tensor<?x2048xbf16>
      return %x : tensor<?x2048xbf16>
    }
  }];
  let arguments = (ins FP8MoE_Fp8Tensor:$input, FP8MoE_BlockScaleTensor:$scale,
    Optional<FP8MoE_Offsets>:$offsets, FP8MoE_AxisAttr:$axis);
  let results = (outs FP8MoE_FloatTensor:$result);
  let assemblyFormat = [{
    $input `by` $scale `along` $axis (`groups` `(` $offsets^ `:` type($offsets) `)`)?
    attr-dict `:` type($input) `,` type($scale) `->` type($result)
  }];
  let extraClassDeclaration = axisDeclaration # [{
    ::mlir::OpOperand *getScaleOperand() { return &getScaleMutable(); }
    /// The sizes that scales of such data must have.
    ::llvm::SmallVector<::mlir::OpFoldResult>
    getScaleSizes(::mlir::fp8moe::SizeBuilder size);
  }];
}

#endif // FP8MOE_DIALECT_FP8MOE_IR_FP8MOEQUANTIZEOPS_TD
