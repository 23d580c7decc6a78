//===- TwoPassKernel.cpp - Kernels that read twice ------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Kind Inner: input and output are contiguous along the rows, so each slice
// (the rows of one column of one segment) is read and written by one subgroup:
// once for the magnitude, and, from the cache, once more to quantize. Nothing
// is shared between subgroups. TwoPassOuter.cpp has the other kinds.
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/QuantizeKernel.h"
#include "Kernels/Quantize/QuantizeLaunch.h"
#include "Kernels/Quantize/TwoPass/TwoPassTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

static void quantizeSlice(QuantizeKernel &kernel, Value slice) {
  KernelBuilder &b = kernel.b;
  SegmentView segment =
      kernel.createSegment(b.divU(slice, kernel.sizes.parallel));
  Value column = b.remU(slice, kernel.sizes.parallel);
  Plane input = kernel.getInputPlane(segment, Along::Rows);

  Team team = kernel.getSubgroupTeam();
  Value scale = kernel.math.createScale(kernel.reduceSubgroup(
      kernel.createSliceMagnitude(input, column, segment.rows, team)));
  b.createIf(b.equal(team.thread, 0),
             [&] { kernel.storeScale(segment, column, scale); });
  if (kernel.problem.scalesOnly)
    return;
  Plane output = kernel.getOutputPlane(segment, Along::Rows);
  kernel.createSliceQuantize(input, output, column, scale, segment.rows, team);
  kernel.createSliceZeroFill(output, column, segment.zeroRows, team);
}

static void buildTwoPassInner(QuantizeKernel &kernel, TwoPassTileAttr tile) {
  KernelBuilder &b = kernel.b;
  Value slices = b.mul(kernel.getNumSegments(), kernel.sizes.parallel);
  b.forEachWorkTile(b.ceilDiv(slices, tile.getColumns()), [&](Value workTile) {
    Value slice = b.add(b.mul(workTile, tile.getColumns()), b.getSubgroup());
    b.createIf(b.less(slice, slices), [&] { quantizeSlice(kernel, slice); });
  });
}

namespace mlir::fp8moe {
FailureOr<Value> launchTwoPass(const KernelInstance &instance, Value when,
                               ProgramLowering &lowering) {
  const auto &quantize = cast<QuantizeInstance>(instance);
  QuantizeLaunch launch(quantize, quantize.operands, lowering);
  auto tile = cast<TwoPassTileAttr>(instance.tile);
  QuantizeKind kind = quantize.kind;
  bool scalesOnly = launch.problem.scalesOnly;
  StringRef prefix = scalesOnly ? "scale_" : "quantize_two_pass_";
  // Rows of no group have no scales.
  HostSize workTiles = two_pass::countWorkTiles(
      tile, kind, launch.getSegments(), launch.getColumns(),
      launch.problem.jagged && !scalesOnly);
  auto build = [&](QuantizeKernel &kernel) {
    if (kind == QuantizeKind::Inner)
      buildTwoPassInner(kernel, tile);
    else
      buildTwoPassOuter(kernel, tile, kind);
  };
  launch.launchGeneral(quantize, (prefix + stringifyQuantizeKind(kind)).str(),
                       tile.getThreads(), workTiles, build, when);
  return Value();
}
} // namespace mlir::fp8moe
