//===- Passes.td - Tensor-level passes ---------------------*- tablegen -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_TRANSFORMS_PASSES_TD
#define FP8MOE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ResolveFp8Types : Pass<"fp8moe-resolve-fp8-types", "::mlir::ModuleOp"> {
  let summary = "Give !fp8moe.e4m3 and !fp8moe.e5m2 the target's builtin types";
  let description = [{
    Replaces the target-neutral FP8 types everywhere (values, function types,
    attributes) by the builtin types that the target's hardware computes with. It runs
    before anything folds the largest FP8 value. IR that names a builtin type keeps it,
    and is refused when the target's hardware lacks that flavour; the CPU has both.

    Needs `fp8moe.target` on the module.

    Example, for gfx942:
    ```mlir
    // before
    func.func private @f(tensor<?x2048x!fp8moe.e4m3>)
    // after
    func.func private @f(tensor<?x2048xf8E4M3FNUZ>)
    ```
  }];
}

def VerifyLayouts : Pass<"fp8moe-verify-layouts"> {
  let summary = "Reject operations that could lose a tensor's layout";
  let description = [{
    A tensor's encoding says where its elements lie, and some upstream operations and
    passes drop it silently. Only these operations may have tensor operands or results:

    - every operation of the `fp8moe` dialect,
    - `func.func`, `func.call`, `func.return` (layouts are part of the function type),
    - `scf.if`, `scf.for`, `scf.yield` (types agree by their own rules),
    - `tensor.dim`, which reads a size only, and `tensor.extract`, which reads an element,
    - `tensor.cast` between types with the same encoding and element type.

    Everything else is an error at the operation. So is a tensor whose known sizes make more
    bytes than signed 64-bit integers count.
  }];
}

def SelectPrecision : Pass<"fp8moe-select-precision", "::mlir::ModuleOp"> {
  let summary = "Decide which matmuls are worth FP8";
  let description = [{
    Replaces `undecided` in the `precision` of every matmul by `bf16` or `fp8`, with the
    predicted times and the reason. A decision that is there is kept. Method and model are
    in docs/users/precision.md.

    `policy`:

    - `cost`: the least predicted time of each function, with the quantizations and copies
      of operands. Each of these counts once for all matmuls that share it. bf16 is kept
      where FP8 gains less than 13%.
    - `torchao`: by the weights' N and K alone, with torchao's thresholds for `recipe`.
    - `all`, `none`: FP8 wherever N and K are multiples of 16, or nowhere.

    `recipe` says which elements share a scale, where a matmul does not name another than
    `rowwise` itself. `rowwise` and `mxfp8` can be applied; `tensorwise` only
    decided. `mxfp8` needs kernels whose matrix instructions take scales of blocks, and
    leaves matmuls in bf16, with a warning, on GPUs without them. `filter-fqns` keeps in bf16 every matmul whose name has one of these in
    it. Rows that are not known count as `tokens`, or else with their nominal number.

    Needs `fp8moe.target` on the module, or `for`.

    Example, for sm_90a:
    ```mlir
    // before
    %y = fp8moe.linear %x, %t precision <undecided, "layers.0.attention.wk", forward> ...
    // after
    %y = fp8moe.linear %x, %t precision <bf16, "layers.0.attention.wk", forward,
        bf16_ns = 70500, fp8_ns = 91300, reason = "FP8 is predicted to take 1.30x the time"> ...
    ```
  }];
  let options = [
    Option<"recipe", "recipe", "std::string", "\"rowwise\"",
           "rowwise, tensorwise or mxfp8">,
    Option<"policy", "policy", "std::string", "\"cost\"",
           "cost, torchao, all or none">,
    ListOption<"filterFqns", "filter-fqns", "std::string",
               "Keep matmuls in bf16 whose names have one of these in them">,
    Option<"tokens", "tokens", "int64_t", "0",
           "Rows that an unknown number of them counts as (0: the nominal number)">,
    Option<"chip", "for", "std::string", "\"\"",
           "The chip whose times decide (default: the module's target)">,
    Option<"warnIfEmpty", "warn-if-empty", "bool", "true",
           "Warn of a module that has nothing to decide">,
  ];
  let statistics = [
    Statistic<"numFP8", "matmuls-fp8", "Matmuls decided to be FP8">,
    Statistic<"numBF16", "matmuls-bf16", "Matmuls decided to stay bf16">,
  ];
}

def ApplyPrecision
    : InterfacePass<"fp8moe-apply-precision", "::mlir::FunctionOpInterface"> {
  let summary = "Quantize the operands of matmuls that were decided to be FP8";
  let description = [{
    A bf16 matmul with the decision `fp8` becomes one of FP8 operands. These are quantized
    along the dimension that it contracts, per group where groups are contracted. Scales are
    powers of two, or by recipe `mxfp8` those of blocks, written by `mx_quantize`. Matmuls of
    a block that quantize one tensor alike, perhaps through transposes, share the
    quantization. `fp8moe-fuse-quantize` joins those along two axes. Matmuls in bf16 and
    undecided ones stay.

    Needs `fp8moe.target` on the module, for the flavour of FP8.

    Example:
    ```mlir
    // before
    %y = fp8moe.linear %x, %w precision <fp8, "w1", forward>
        : tensor<?x64xbf16>, tensor<64x32xbf16> -> tensor<?x32xbf16>
    // after
    %xq, %xs = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    %wq, %ws = fp8moe.dynamic_quantize %w along [0] rounding pow2 : tensor<64x32xbf16>
        -> tensor<64x32xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<32xf32>
    %y = fp8moe.linear %xq, %wq scales(%xs, %ws : tensor<?xf32>, tensor<32xf32>)
        direction quantize precision <fp8, "w1", forward>
        : tensor<?x64xf8E4M3FN>, tensor<64x32xf8E4M3FN, #fp8moe.strided<[1, 0]>>
        -> tensor<?x32xbf16>
    ```
  }];
  let statistics = [
    Statistic<"numApplied", "matmuls-quantized", "Matmuls that became FP8">,
    Statistic<"numShared", "quantizations-shared",
              "Quantizations that several matmuls read, each counted once less">,
  ];
}

def ExpandMXMatmuls : InterfacePass<"fp8moe-expand-mx-matmuls", "::mlir::FunctionOpInterface"> {
  let summary = "Dequantize the operands of MX matmuls where no instruction takes their scales";
  let description = [{
    Where no matrix instruction takes scales of blocks, a matmul of MX operands (G9)
    multiplies the bf16 that they stand for, which `mx_dequantize` writes. Targets with such
    instructions and the CPU keep the matmul as it is.

    Needs `fp8moe.target` on the module.

    Example, for sm_90a:
    ```mlir
    // before
    %y = fp8moe.linear %a, %b scales(%sa, %sb : tensor<256x4xf8E8M0FNU>, tensor<64x4xf8E8M0FNU>)
        : tensor<256x128xf8E4M3FN>, tensor<128x64xf8E4M3FN> -> tensor<256x64xbf16>
    // after
    %x = fp8moe.mx_dequantize %a by %sa along 1
        : tensor<256x128xf8E4M3FN>, tensor<256x4xf8E8M0FNU> -> tensor<256x128xbf16>
    %w = fp8moe.mx_dequantize %b by %sb along 0
        : tensor<128x64xf8E4M3FN>, tensor<64x4xf8E8M0FNU> -> tensor<128x64xbf16>
    %y = fp8moe.linear %x, %w
        : tensor<256x128xbf16>, tensor<128x64xbf16> -> tensor<256x64xbf16>
    ```
  }];
  let statistics = [
    Statistic<"numExpanded", "matmuls-expanded", "MX matmuls that became bf16">,
  ];
}

def UnrollLoops : InterfacePass<"fp8moe-unroll-loops", "::mlir::FunctionOpInterface"> {
  let summary = "Unroll loops for targets whose programs have none";
  let description = [{
    A program of a GPU launches kernels in one order. An `scf.for` whose number of
    iterations is known becomes these iterations, up to 4096 operations, and branches whose
    conditions are known then go away. Other loops stay, for the lowering to refuse. On the
    CPU nothing changes.

    Needs `fp8moe.target` on the module.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def FoldViews : InterfacePass<"fp8moe-fold-views", "::mlir::FunctionOpInterface"> {
  let summary = "Compose transposes and reshapes, and move them below kernels";
  let description = [{
    Erases operations whose results are not read. Then a chain of views becomes the shortest
    equal chain: at most a reshape, a transpose and a reshape, mostly one of them. Views that
    undo each other vanish. Copies inside a chain move to its end, or vanish when views of
    the tensor before the copy show the same bytes. No copy becomes two.

    A kernel that works on slices of a transposed tensor, or of a plain copy of one, reads
    the tensor itself. Its results are transposed instead, and keep their types.

    A kernel that reads a reshape reads the tensor in its own shape in two cases: the program
    views the results back into it, or the reshape needs a copy that the tensor itself does
    not. The results are reshaped instead, and fold with the program's views. Merged
    dimensions that the kernel reduces over stay merged. `mx_quantize` is the exception, as
    its blocks stay within an innermost dimension whose size is a multiple of 32. Its block
    scales then have another layout, and are copied when that spares a copy of the data.

    Copies that pad packed data, pack padded data, or go to tiles and back become
    one or none where that keeps every bit (docs/design/layouts.md).

    Example, weights `[E, N, K]` cast as a matrix:
    ```mlir
    // before
    %m = fp8moe.reshape %w : tensor<8x64x128xbf16> -> tensor<512x128xbf16>
    %q, %s = fp8moe.mx_quantize %m along [0] mode rceil : tensor<512x128xbf16>
        -> tensor<512x128xf8E4M3FN>, tensor<128x16xf8E8M0FNU>
    %r = fp8moe.reshape %q : tensor<512x128xf8E4M3FN> -> tensor<8x64x128xf8E4M3FN>
    // after, with %s unused
    %r, %s = fp8moe.mx_quantize %w along [1] mode rceil : tensor<8x64x128xbf16>
        -> tensor<8x64x128xf8E4M3FN>, tensor<8x128x2xf8E8M0FNU>
    ```
  }];
}

def FuseQuantize : InterfacePass<"fp8moe-fuse-quantize", "::mlir::FunctionOpInterface"> {
  let summary = "Fuse scales, quantize casts and the padding of groups";
  let description = [{
    Within a block, for operations that read the same tensor (or copies of it):

    - Copies that pack a tensor which was padded in several ways share one padding, when
      that is predicted to take less time.
    - `scale` and the `quantize` by it become `dynamic_quantize`, `jagged_scale` and the
      `quantize` with the same groups `jagged_dynamic_quantize`. Other users of the scales
      read those of the fused operation.
    - Results of an earlier operation of the block are not computed again. Data in another
      layout are a copy of the first ones, when that is predicted to take less time.
    - Two quantizations along one axis each become one along both, which reads the tensor
      once. The cost model must predict less time on some card of the target, and no more on
      the target's own. A jagged one stays first, and columns come before rows. One that
      no kernel does at once is split.
    - MX quantizations along two axes become one, where a kernel of the target reads the
      tensor once for both.
    - Copies that pad the groups of jagged data go away when nobody reads it packed and
      the cost model predicts no more time: the quantization writes the padded layout. The
      same holds for copies that pack what was written padded.
    - Copies of block scales to tiles, or from them, go away likewise.

    Needs `fp8moe.target` on the module.

    Example:
    ```mlir
    // before
    %s = fp8moe.scale %x along 1 rounding pow2 fp8 f8E4M3FN : tensor<?x64xbf16> -> tensor<?xf32>
    %q = fp8moe.quantize %x by %s along 1
        : tensor<?x64xbf16>, tensor<?xf32> -> tensor<?x64xf8E4M3FN>
    // after
    %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2
        : tensor<?x64xbf16> -> tensor<?x64xf8E4M3FN>, tensor<?xf32>
    ```
  }];
  let options = [
    Option<"explain", "explain", "bool", "true",
           "Say in remarks what could be fused and is not, and why">,
  ];
  let statistics = [
    Statistic<"numFused", "fused", "Operations that became part of another one">,
  ];
}

def PlaceLayouts : InterfacePass<"fp8moe-place-layouts", "::mlir::FunctionOpInterface"> {
  let summary = "Choose the layout of every tensor, and the copies that remain";
  let description = [{
    Assigns layouts so that the predicted time on the module's target is least, bytes
    moved breaking ties; then deletes, inserts, merges and moves copies accordingly.
    Layouts of arguments, results and calls stay as typed. What has become equal without
    the copies is merged, and branches and loops that only pass on a tensor go away. The
    method and its contract are in docs/design/layouts.md.

    Where uses prefer different layouts, each reads the tensor or a copy of it, so that the
    sum of kernels and copies is least. Uses of the same copy share it. Of two copies that
    pad, pack or tile one tensor alike, one may serve both. Values that flow through `scf.if`
    and `scf.for` have one layout on all paths. Without a gain nothing changes.

    On GPUs a dense or K-grouped matmul may be given a result by columns: it becomes the
    one with exchanged operands, whose rows these are.

    When too many layouts depend on each other for an exact answer, a remark says how much
    less time another placement might take.

    Needs `fp8moe.target` on the module.

    Example, the copy that `.t().contiguous().t()` leaves behind:
    ```mlir
    // before
    %t = fp8moe.transpose %x [1, 0]
        : tensor<?x64xbf16> -> tensor<64x?xbf16, #fp8moe.strided<[1, 0]>>
    %c = fp8moe.relayout %t
        : tensor<64x?xbf16, #fp8moe.strided<[1, 0]>> -> tensor<64x?xbf16>
    %v = fp8moe.transpose %c [1, 0]
        : tensor<64x?xbf16> -> tensor<?x64xbf16, #fp8moe.strided<[1, 0]>>
    %s = fp8moe.scale %v along 0 rounding pow2 fp8 f8E4M3FN
        : tensor<?x64xbf16, #fp8moe.strided<[1, 0]>> -> tensor<64xf32>
    // after
    %s = fp8moe.scale %x along 0 rounding pow2 fp8 f8E4M3FN
        : tensor<?x64xbf16> -> tensor<64xf32>
    ```

    Two uses that disagree, one of them twice: one copy.
    ```mlir
    // before
    %c0 = fp8moe.relayout %q : tensor<?x64xf8E4M3FN>
        -> tensor<?x64xf8E4M3FN, #fp8moe.strided<[1, 0]>>
    %c1 = fp8moe.relayout %q : tensor<?x64xf8E4M3FN>
        -> tensor<?x64xf8E4M3FN, #fp8moe.strided<[1, 0]>>
    return %c0, %q, %c1
    // after
    return %c0, %q, %c0
    ```
  }];
  let options = [
    Option<"verifyOptimal", "verify-optimal", "bool", "false",
           "Compare with every possible placement, for functions with at most "
           "100000 of them; an error when a better one exists">,
  ];
  let statistics = [
    Statistic<"numFound", "relayouts-found", "Copies before the pass">,
    Statistic<"numKept", "relayouts-kept", "Copies after the pass">,
    Statistic<"bytesBefore", "bytes-before",
              "Predicted bytes moved before, dynamic sizes at their nominal value">,
    Statistic<"bytesAfter", "bytes-after",
              "Predicted bytes moved after, dynamic sizes at their nominal value">,
  ];
}

def SettleLayouts : InterfacePass<"fp8moe-settle-layouts", "::mlir::FunctionOpInterface"> {
  let summary = "Run the layout passes until nothing changes";
  let description = [{
    Runs `fp8moe-fold-views`, `fp8moe-fuse-quantize` and `fp8moe-place-layouts` in turns.
    Copies that placement removes let views compose and quantizations fuse, which allows other
    layouts. A pass that changed nothing preserves all analyses, so no round is needed after
    it. Layouts are placed again only if something has changed since.

    Each pass changes a program only for less predicted time or fewer operations. A remark
    says so if there is no end within ten rounds. Remarks about quantizations that were not
    fused describe the end only.

    Needs `fp8moe.target` on the module.
  }];
  let options = [
    Option<"verifyOptimal", "verify-optimal", "bool", "false",
           "As of `fp8moe-place-layouts`">,
  ];
}

def PadGroups : InterfacePass<"fp8moe-pad-groups", "::mlir::FunctionOpInterface"> {
  let summary = "Pad the groups that K-grouped matmuls contract";
  let description = [{
    A kernel that contracts over jagged groups masks the data of neighbouring groups. It need
    not where every group begins at a multiple of the kernel's stage, with zeros up to the
    next one. So quantizations write groups padded to 128 elements. The target must have a
    kernel for a 2D x 2D `grouped_matmul` of FP8 operands. Both operands must be jagged
    data, perhaps transposed, that nothing else reads. Only types change, and no
    copy is made. Operands in bf16,
    and those that are padded already or come from elsewhere, stay as they are. On a target
    without such a kernel, as on the CPU, nothing is padded. Predicted times are not asked.

    The promise `align = 16` says that the pitch suits TMA copies whatever the
    number of rows is.

    Needs `fp8moe.target` on the module.

    Example, for sm_90a, both operands alike:
    ```mlir
    // before
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
        rounding pow2 : tensor<?x64xbf16>
        -> tensor<?x64xf8E4M3FN, #fp8moe.strided<[1, 0]>>, tensor<8x64xf32>
    // after
    %q, %s = fp8moe.jagged_dynamic_quantize %x groups(%ends : tensor<8xi32>) along [0]
        rounding pow2 : tensor<?x64xbf16>
        -> tensor<?x64xf8E4M3FN,
                  #fp8moe.strided<[1, 0], align = 16, groups<dim = 0, pad = 128>>>,
           tensor<8x64xf32>
    ```
  }];
  let statistics = [
    Statistic<"numPadded", "matmuls-padded", "Matmuls whose operands are padded">,
  ];
}

def VerifyKernels : Pass<"fp8moe-verify-kernels"> {
  let summary = "Reject kernels that the target cannot run on their layouts";
  let description = [{
    Runs when layouts are final, and checks three things of every operation:

    - the module's target has a kernel for it, which takes the layouts of its tensors;
    - each tile that the operation names is legal for these layouts;
    - the tiles together take every size.

    Calls that inlining left are errors on every target, as programs are lowered one function
    at a time. The host plan checks values that only a call knows, such as the pitch of a
    tensor with unknown sizes.

    Needs `fp8moe.target` on the module.

    Example, for sm_90a, whose TMA copies want pitches of 16 bytes:
    ```
    x.mlir:3:8: error: 'fp8moe.grouped_matmul' op on sm_90a expects every stride of the first
    operand but that of the contracted dimension to be a multiple of 16 bytes, found ...
    ```
  }];
}

def SelectTiles : InterfacePass<"fp8moe-select-tiles", "::mlir::FunctionOpInterface"> {
  let summary = "Write the tiles of every kernel";
  let description = [{
    Gives every quantization and matmul the legal tiles of least predicted time, for its
    layouts on the module's target. Where a deciding size is not known when compiling, there
    are several tiles, each with its range of sizes. A kernel that does not take every
    address, pitch and size is followed by one that does. An operation along several axes that no kernel does at once is split.

    Nothing later chooses: the conversion makes what the choice says. A choice that is there
    is kept, and must be legal; what takes everything is added where it lacks. Operations
    without a kernel on the target are left to `fp8moe-verify-kernels`. The CPU has no tiles;
    nothing changes there.

    `print-candidates` emits remarks with the predicted time of each tile of a quantization.
    There is one remark for the input as it is, and one for a copy to each other order of its
    dimensions. They show the alternatives of placement and selection. For a matmul the
    remark lists all tiles.

    Needs `fp8moe.target` on the module.

    Example, for sm_90a:
    ```mlir
    // before
    %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<2048xf32>
    // after
    %q, %s = fp8moe.dynamic_quantize %x along [0] rounding pow2
        tiles [#fp8moe.two_pass<columns = 32, threads = 128>]
        : tensor<?x2048xbf16> -> tensor<?x2048xf8E4M3FN>, tensor<2048xf32>
    ```
  }];
  let options = [
    Option<"printCandidates", "print-candidates", "bool", "false",
           "Remark on the predicted time of every tile">,
  ];
  let statistics = [
    Statistic<"numSelected", "tiles-selected", "Tiles that were written">,
  ];
}

def SweepTiles : Pass<"fp8moe-sweep-tiles", "::mlir::ModuleOp"> {
  let summary = "Add a function for every tile that a kernel can have";
  let description = [{
    Clones every public function once for each legal tile of each of its quantizations, scales
    and grouped matmuls. So one artifact has a program for every candidate, and they can be
    measured beside each other. Runs after `fp8moe-select-tiles`. The functions themselves
    stay, with the tiles that the model chose. A clone's name says which tile differs:
    `FUNCTION/N/two_pass,columns=C,threads=T`, where N counts the quantizations of the
    function from 0. Those of scales are named `FUNCTION/sN/...`, those of a
    `grouped_matmul` `FUNCTION/mN/...` with the kind and the fields of its tile.

    Needs `fp8moe.target` on the module.

    Example:
    ```mlir
    // before
    func.func @rows(%x: tensor<?x64xf32>) -> (tensor<?x64xf8E4M3FN>, tensor<?xf32>) {
      %q, %s = fp8moe.dynamic_quantize %x along [1] rounding pow2 tiles [#fp8moe.two_pass<columns = 4, threads = 128>] ...
    }
    // after, in addition
    func.func @"rows/0/two_pass,columns=4,threads=128"(...)
    func.func @"rows/0/two_pass,columns=8,threads=256"(...)
    ```
  }];
  let dependentDialects = ["::mlir::fp8moe::FP8MoEDialect"];
}

def ReportCopies : InterfacePass<"fp8moe-report-copies", "::mlir::FunctionOpInterface"> {
  let summary = "Say of every copy that is left why it stays";
  let description = [{
    Emits a remark (category `fp8moe-layout`, name `copy-kept`) at the line of every copy.
    It says which layout is needed and which one there is. It gives the reason: a layout that
    a kernel cannot read or write, or predicted times. It ends with the condition under which
    the copy would go. Nothing changes.

    Needs `fp8moe.target` on the module, where there are remarks.

    ```
    x.mlir:4:8: remark: [Missed] copy-kept | Category:fp8moe-layout | Remark="copy kept: result
    #0 of the function takes column-major, but argument #0 is row-major; it would go if
    argument #0 were column-major, or result #0 of the function took row-major"
    ```
  }];
}

def ReportTraffic : InterfacePass<"fp8moe-report-traffic", "::mlir::FunctionOpInterface"> {
  let summary = "Print the predicted traffic of every kernel";
  let description = [{
    A remark on every kernel gives the bytes of the sectors that it touches, and their ratio
    to the bytes of its tensors. A remark on the function gives the sums and the predicted
    time. Dynamic sizes count with their nominal value. Nothing changes.

    Needs `fp8moe.target` on the module, and is run on its functions, as all passes on these:
    `--pass-pipeline='builtin.module(fp8moe-attach-target{chip=CHIP},func.func(fp8moe-report-traffic))'`.

    ```
    x.mlir:4:8: remark: moves 100728832 bytes in whole sectors, 1.00 of the least
    ```
  }];
}

#endif // FP8MOE_TRANSFORMS_PASSES_TD
