//===- RegisterResidentLaunch.cpp - Launches of their tiles ---------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Quantize/GeneralLaunch.h"
#include "Kernels/Quantize/RegisterResident/RegisterResidentTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

namespace mlir::fp8moe {
FailureOr<Value> launchRegisterResident(const KernelInstance &instance,
                                        Value when, ProgramLowering &lowering) {
  const auto &quantize = cast<QuantizeInstance>(instance);
  auto tile = cast<RegisterResidentTileAttr>(instance.tile);
  launchGeneral(
      quantize, "quantize_register_resident", tile.getThreads(),
      [&](QuantizeKernel &kernel) { buildRegisterResident(kernel, tile); },
      [&](const HostSize &segments, const HostSize &columns) {
        return register_resident::countWorkTiles(
            tile, segments, columns, quantize.operands.problem.jagged);
      },
      when, lowering);
  return Value();
}
} // namespace mlir::fp8moe
