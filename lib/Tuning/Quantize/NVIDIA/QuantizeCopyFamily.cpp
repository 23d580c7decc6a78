//===- QuantizeCopyFamily.cpp - Quantized rows and their transpose --------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Target/NVIDIA.h"
#include "fp8moe/Tuning/Common/NominalSizes.h"
#include "fp8moe/Tuning/KernelFamily.h"
#include "fp8moe/Tuning/Quantize/QuantizeCopy.h"
#include "fp8moe/Tuning/Quantize/QuantizeTiles.h"

using namespace mlir;
using namespace mlir::fp8moe;

/// Chunks that a thread can hold, where one block or two share the registers of
/// a multiprocessor.
static constexpr int64_t kMostChunks = 7, kFewChunks = 4;
/// Words of shared memory at equal distances from a multiple of it are in the
/// same bank.
static constexpr int64_t kBankRowBytes = 128;
/// Two blocks of so many threads have 64 registers for each of them.
static constexpr int64_t kMostBlocks = 2;
static constexpr int64_t kMostLineWarps = 2;
/// What hardware takes for itself, and what the kernel needs besides the tile.
static constexpr int64_t kOtherSharedBytes = 2048;

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

int64_t QuantizeCopyTile::getPitch() const {
  return llvm::alignTo(columns, kBankRowBytes);
}

/// What so many blocks share.
static bool fits(const QuantizeCopyTile &tile, int64_t blocks,
                 const TargetInfo &target) {
  return blocks * (tile.getSharedBytes() + kOtherSharedBytes) <=
         target.sharedMemoryPerBlock;
}

int64_t QuantizeCopyTile::getResidentBlocks(const TargetInfo &target) const {
  return fits(*this, kMostBlocks, target) ? kMostBlocks : 1;
}

std::optional<QuantizeCopyTile>
QuantizeCopyTile::get(const QuantizeCopyWork &work, const TargetInfo &target) {
  int64_t columns = work.input.getDimSize(work.axis);
  // Any tile begins where something does that is not divided.
  int64_t padding = kMostLines;
  if (GroupPaddingAttr groups = work.copyLayout.groups)
    padding = groups.getPad();
  if (ShapedType::isDynamic(columns) || columns < kOutputChunk ||
      columns % kOutputChunk)
    return std::nullopt;
  QuantizeCopyTile tile{kMostLines, columns, 1, 0};
  while (padding % tile.lines || !fits(tile, /*blocks=*/1, target)) {
    tile.lines /= 2;
    if (tile.lines < kLeastLines)
      return std::nullopt;
  }
  int64_t most = tile.getResidentBlocks(target) > 1 ? kFewChunks : kMostChunks;
  for (; tile.lineWarps <= kMostLineWarps; tile.lineWarps *= 2) {
    tile.chunks = llvm::divideCeil(
        columns, kOutputChunk * nvidia::kWarpThreads * tile.lineWarps);
    if (tile.chunks <= most)
      return tile;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The family
//===----------------------------------------------------------------------===//

std::optional<QuantizeCopyDims> QuantizeCopyWork::getDims() const {
  if (input.getRank() < 2 || input.getRank() > 3 ||
      !from.isContiguousAlong(axis) || !dataLayout.isContiguousAlong(axis))
    return std::nullopt;
  QuantizeCopyDims dims{copyLayout.order.back(), std::nullopt};
  if (dims.line == axis || !copyLayout.isContiguousAlong(dims.line))
    return std::nullopt;
  for (int64_t dim : llvm::seq(input.getRank()))
    if (dim != axis && dim != dims.line)
      dims.segment = dim;
  return dims;
}

namespace {
class QuantizeCopyFamily : public KernelFamily {
public:
  StringRef getName() const override { return "quantize_copy"; }
  TypeID getWorkID() const override { return TypeID::get<QuantizeCopyWork>(); }
  bool supports(const KernelWork &work,
                const TargetInfo &target) const override;
  void
  addCandidates(MLIRContext *, const KernelWork &work, const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override;
  bool isGeneral() const override { return false; }
};
} // namespace

/// Groups of lines begin at whole tiles.
bool QuantizeCopyFamily::supports(const KernelWork &work,
                                  const TargetInfo &target) const {
  if (target.kind != TargetKind::NVVM)
    return false;
  const auto &known = cast<QuantizeCopyWork>(work);
  std::optional<QuantizeCopyDims> dims = known.getDims();
  if (!dims || !known.input.getElementType().isBF16())
    return false;
  if (GroupPaddingAttr padding = known.copyLayout.groups)
    if (dims->segment || padding.getDim() != dims->line)
      return false;
  return QuantizeCopyTile::get(known, target).has_value();
}

void QuantizeCopyFamily::addCandidates(
    MLIRContext *, const KernelWork &work, const TargetInfo &target,
    SmallVectorImpl<KernelCandidate> &candidates) const {
  const auto &known = cast<QuantizeCopyWork>(work);
  QuantizeCopyDims dims = *known.getDims();
  auto getSize = [&](std::optional<int64_t> dim, int64_t nominal) {
    int64_t size = dim ? known.input.getDimSize(*dim) : 1;
    return ShapedType::isDynamic(size) ? nominal : size;
  };
  int64_t lines = getSize(dims.segment, kNominalSegments) *
                  getSize(dims.line, kNominalTokens);
  // Read in bf16, written twice in FP8, and a scale.
  constexpr int64_t kElementBytes = 2 + 1 + 1;
  int64_t bytes = lines * (known.input.getDimSize(known.axis) * kElementBytes +
                           static_cast<int64_t>(sizeof(float)));
  candidates.push_back({this, {}, estimateTraffic(bytes, target), ""});
}

namespace mlir::fp8moe {
const KernelFamily &getQuantizeCopyFamily() {
  static const QuantizeCopyFamily family;
  return family;
}
} // namespace mlir::fp8moe
