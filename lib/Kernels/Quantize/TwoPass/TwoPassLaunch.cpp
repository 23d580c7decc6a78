//===- TwoPassLaunch.cpp - Launches of #fp8moe.two_pass -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/GeneralLaunch.h"
#include "Kernels/Quantize/TwoPass/TwoPassTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

void fp8moe::buildTwoPass(QuantizeKernel &kernel, TwoPassTileAttr tile,
                          QuantizeKind kind) {
  if (kind == QuantizeKind::Inner)
    buildTwoPassInner(kernel, tile);
  else
    buildTwoPassOuter(kernel, tile, kind);
}

namespace mlir::fp8moe {
FailureOr<Value> launchTwoPass(const KernelInstance &instance, Value when,
                               ProgramLowering &lowering) {
  const auto &quantize = cast<QuantizeInstance>(instance);
  auto tile = cast<TwoPassTileAttr>(instance.tile);
  QuantizeKind kind = quantize.kind;
  launchGeneral(
      quantize, ("quantize_two_pass_" + stringifyQuantizeKind(kind)).str(),
      tile.getThreads(),
      [&](QuantizeKernel &kernel) { buildTwoPass(kernel, tile, kind); },
      [&](const HostSize &segments, const HostSize &columns) {
        return two_pass::countWorkTiles(tile, kind, segments, columns,
                                        quantize.operands.problem.jagged);
      },
      when, lowering);
  return Value();
}
} // namespace mlir::fp8moe
