//===- Kernel.cpp - One matmul per jagged group ---------------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/CDNA/Kernel.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Waves of a SIMD: each may have half of its registers. LLVM would else keep
/// room for more, and spill.
static constexpr int64_t kWavesPerSIMD = 2;

CDNAMatmulKernel::CDNAMatmulKernel(KernelBuilder &b,
                                   const GroupedMatmulProblem &problem,
                                   const CDNAMatmulStrides<int64_t> &strides,
                                   const CDNAMatmulConfig &config)
    : b(b), problem(problem), config(config),
      mfma(config.edge, problem.bType, problem.aType) {
  unsigned pointer = 0, parameter = 0;
  if (!problem.dense)
    offsets = b.getPointer(pointer++, "group_ends");
  if (problem.hasScalesA || problem.hasBlockScales())
    scaleA = b.getPointer(pointer++, "scales_a");
  if (problem.hasScalesB || problem.hasBlockScales())
    scaleB = b.getPointer(pointer++, "scales_b");
  operandA = b.getPointer(pointer++, "a");
  operandB = b.getPointer(pointer++, "b");
  result = b.getPointer(pointer++, "result");
  if (problem.accumulates)
    addend = b.getPointer(pointer++, "addend");
  sizes = bindSizes(b, problem.sizes, parameter);
  this->strides = bindSizes(b, strides, parameter);

  shared = b.allocateShared(config.getSharedBytes(), "stages");
  thread = b.narrow(b.getThread());
  wave = b.uniform(b.divU(thread, CDNAMatmulConfig::kWaveLanes));
  lane = b.remU(thread, CDNAMatmulConfig::kWaveLanes);
  int64_t alongColumns = config.getWavesAlongColumns();
  waveRow = b.divU(wave, alongColumns);
  waveColumn = b.remU(wave, alongColumns);
  laneRow = b.remU(lane, config.edge);
  laneChunk = b.divU(lane, config.edge);
}

/// Whether the contraction of every tile is known to be a multiple of so many
/// bytes. Groups of it are multiples of their padding.
static bool isContractionMultipleOf(const CDNAMatmulKernel &kernel,
                                    int64_t bytes) {
  const GroupedMatmulProblem &problem = kernel.problem;
  int64_t size =
      problem.isMGrouped() ? problem.sizes.contraction : problem.padding;
  return !ShapedType::isDynamic(size) &&
         size * kernel.getElementBytes() % bytes == 0;
}

bool CDNAMatmulKernel::needsHeadMask() const {
  return !config.shiftsLines && !problem.isMGrouped() && needsTailMask();
}

bool CDNAMatmulKernel::needsTailMask() const {
  return !(problem.mnMajorA && problem.mnMajorB) &&
         !isContractionMultipleOf(*this, CDNAMatmulConfig::kChunkBytes);
}

bool CDNAMatmulKernel::hasWholeStages() const {
  return isContractionMultipleOf(*this, config.stepBytes);
}

void fp8moe::buildCDNAGroupedMatmul(KernelBuilder &b,
                                    const GroupedMatmulProblem &problem,
                                    const CDNAMatmulStrides<int64_t> &strides,
                                    const CDNAMatmulConfig &config) {
  b.getKernel()->setAttr("rocdl.waves_per_eu",
                         b.getI32IntegerAttr(kWavesPerSIMD));
  CDNAMatmulKernel kernel(b, problem, strides, config);
  createCDNATile(kernel, [&](const CDNATile &tile) {
    CDNAEpilogue epilogue(kernel, tile);
    epilogue.loadScales();
    epilogue.storeTile(createCDNAMainLoop(kernel, tile));
  });
}
