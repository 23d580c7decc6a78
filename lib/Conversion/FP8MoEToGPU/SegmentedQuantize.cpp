//===- SegmentedQuantize.cpp - Quantize segments of a matrix --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Conversion/FP8MoEToGPU/SegmentedQuantize.h"
#include "QuantizeKernel.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Columns of a strip: 128 bytes of bf16 input in one row, or (SlicesToStrips)
/// 128 bytes of output.
static constexpr int64_t kStripColumns = 64;
static constexpr int64_t kWideStripColumns = 128;

/// Whether the rows of a buffer are contiguous and its columns are not. A
/// single column is contiguous with any stride, but has nothing to go along.
static bool isAlongRows(int64_t rowStride, int64_t columnStride,
                        int64_t columns) {
  return rowStride == 1 && (columnStride != 1 || columns == 1);
}

QuantizeSchedule fp8moe::chooseQuantizeSchedule(const QuantizeProblem &problem,
                                                const TargetHooks &hooks) {
  const QuantizeSizes<int64_t> &sizes = problem.sizes;
  bool fromRows = isAlongRows(sizes.inReduced, sizes.inKept, sizes.kept);
  bool toRows = isAlongRows(sizes.outReduced, sizes.outKept, sizes.kept);
  QuantizeSchedule schedule;
  if (fromRows && toRows) {
    schedule.kind = QuantizeSchedule::Slices;
    schedule.columnsPerBlock = schedule.threads / hooks.getSubgroupSize();
  } else if (fromRows) {
    schedule.kind = QuantizeSchedule::SlicesToStrips;
    schedule.columnsPerBlock = kWideStripColumns;
  } else {
    schedule.kind =
        toRows ? QuantizeSchedule::StripsToSlices : QuantizeSchedule::Strips;
    schedule.columnsPerBlock = kStripColumns;
  }
  return schedule;
}

gpu::GPUFuncOp fp8moe::buildSegmentedQuantize(Location loc,
                                              gpu::GPUModuleOp module,
                                              StringRef name,
                                              const QuantizeProblem &problem,
                                              const TargetHooks &hooks) {
  unsigned dynamicSizes = 0;
  for (auto member : QuantizeSizes<int64_t>::members())
    dynamicSizes += ShapedType::isDynamic(problem.sizes.*member);
  QuantizeSchedule schedule = chooseQuantizeSchedule(problem, hooks);
  KernelBuilder b(loc, module, name, problem.jagged ? 4 : 3, dynamicSizes,
                  schedule.threads, hooks);
  QuantizeKernel kernel(b, problem);
  if (schedule.kind == QuantizeSchedule::Slices)
    buildQuantizeSlices(kernel, schedule);
  else
    buildQuantizeStrips(kernel, schedule);
  return b.getKernel();
}
