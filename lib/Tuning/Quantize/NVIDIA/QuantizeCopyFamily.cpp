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

/// What tiles may have. 32 neighbours in the copy fill a sector: 16 were less
/// than half as fast.
static constexpr int64_t kLines[] = {32, 64};
static constexpr int64_t kThreads[] = {1024, 512};
static constexpr int64_t kClusters[] = {1, 4, 2};
/// Longer lines are divided among clusters of four. One NVIDIA H100, 2026-11-27
/// (docs/lab/measurements.md): lines of 7168 elements gain 3%, those of
/// 1024 to 6144 lose 1% to half of their speed.
static constexpr int64_t kLongLine = 6144;
/// Chunks that a thread can hold, by the threads that share the registers of a
/// multiprocessor.
static constexpr int64_t kFewThreads = 512, kManyThreads = 1024;
static constexpr int64_t kChunksOfFew = 7, kChunksOfMany = 4;
/// The same of many where scales are not powers of two, alone and in a cluster.
static constexpr int64_t kScaledChunks = 3, kScaledChunksInCluster = 2;
/// Words of shared memory at equal distances from a multiple of it are in the
/// same bank.
static constexpr int64_t kBankRowBytes = 128;
static constexpr int64_t kMostLineWarps = 4;
/// What hardware takes of each block's shared memory for itself, and what the
/// kernel needs besides the tile.
static constexpr int64_t kReservedSharedBytes = 1024;
static constexpr int64_t kOtherSharedBytes = 1024;

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

int64_t QuantizeCopyTile::getPitch() const {
  return llvm::alignTo(columns, kBankRowBytes);
}

/// How many blocks share a multiprocessor, with a tile each.
static int64_t countResident(const QuantizeCopyTile &tile,
                             const TargetInfo &target) {
  int64_t bytes =
      tile.getSharedBytes() + kOtherSharedBytes + kReservedSharedBytes;
  return std::min((target.sharedMemoryPerBlock + kReservedSharedBytes) / bytes,
                  kManyThreads / tile.threads);
}

std::optional<QuantizeCopyTile>
QuantizeCopyTile::get(QuantizeCopyTileAttr attribute,
                      const QuantizeCopyWork &work, const TargetInfo &target) {
  QuantizeCopyTile tile{attribute.getLines(), attribute.getThreads(),
                        attribute.getCluster()};
  if (!llvm::is_contained(kLines, tile.lines) ||
      !llvm::is_contained(kThreads, tile.threads) ||
      !llvm::is_contained(kClusters, tile.cluster))
    return std::nullopt;
  GroupPaddingAttr groups = work.copyLayout.groups;
  int64_t columns = work.input.getDimSize(work.axis);
  // Nothing that does not fit is multiplied.
  if (ShapedType::isDynamic(columns) || columns < kOutputChunk ||
      columns > target.sharedMemoryPerBlock * tile.cluster ||
      columns % (kOutputChunk * tile.cluster) ||
      (groups && groups.getPad() % tile.lines))
    return std::nullopt;
  tile.columns = columns / tile.cluster;
  tile.residentBlocks = countResident(tile, target);
  if (tile.residentBlocks == 0)
    return std::nullopt;
  int64_t most = kChunksOfFew;
  if (tile.residentBlocks * tile.threads > kFewThreads) {
    most = tile.cluster > 1 ? kScaledChunksInCluster : kScaledChunks;
    if (work.powerOfTwo)
      most = kChunksOfMany;
  }
  for (; tile.lineWarps <= kMostLineWarps; tile.lineWarps *= 2) {
    tile.chunks = llvm::divideCeil(
        tile.columns, kOutputChunk * nvidia::kWarpThreads * tile.lineWarps);
    if (tile.chunks <= most)
      return tile;
  }
  return std::nullopt;
}

/// As measured (docs/lab/measurements.md, Tiles). Lines that are not
/// divided: 32 lines and 1024 threads are within 1% of the best tile. Divided
/// ones: 512 threads where two blocks share a multiprocessor; alone 1024,
/// between 6% faster and 2% slower than 512.
static QuantizeCopyTileAttr getPreferred(MLIRContext *context,
                                         const QuantizeCopyWork &work,
                                         const TargetInfo &target) {
  auto get = [&](int64_t threads, int64_t cluster) {
    return QuantizeCopyTileAttr::get(context, /*lines=*/32, threads, cluster);
  };
  if (work.input.getDimSize(work.axis) <= kLongLine)
    return get(/*threads=*/1024, /*cluster=*/1);
  QuantizeCopyTileAttr narrow = get(/*threads=*/512, /*cluster=*/4);
  std::optional<QuantizeCopyTile> tile =
      QuantizeCopyTile::get(narrow, work, target);
  return tile && tile->residentBlocks > 1
             ? narrow
             : get(/*threads=*/1024, /*cluster=*/4);
}

/// All that are legal, the preferred one first.
static SmallVector<QuantizeCopyTileAttr> findTiles(MLIRContext *context,
                                                   const QuantizeCopyWork &work,
                                                   const TargetInfo &target) {
  SmallVector<QuantizeCopyTileAttr> tiles;
  for (int64_t cluster : kClusters)
    for (int64_t lines : kLines)
      for (int64_t threads : kThreads) {
        auto tile = QuantizeCopyTileAttr::get(context, lines, threads, cluster);
        if (QuantizeCopyTile::get(tile, work, target))
          tiles.push_back(tile);
      }
  auto *preferred = llvm::find(tiles, getPreferred(context, work, target));
  if (preferred != tiles.end())
    std::rotate(tiles.begin(), preferred, preferred + 1);
  return tiles;
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
  bool owns(TileAttrInterface tile) const override {
    return isa<QuantizeCopyTileAttr>(tile);
  }
  bool supports(const KernelWork &work,
                const TargetInfo &target) const override;
  void
  addCandidates(MLIRContext *, const KernelWork &work, const TargetInfo &target,
                SmallVectorImpl<KernelCandidate> &candidates) const override;
  bool isGeneral() const override { return true; }
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
  return !findTiles(known.input.getContext(), known, target).empty();
}

/// All move the same bytes, so the first one is preferred.
void QuantizeCopyFamily::addCandidates(
    MLIRContext *context, const KernelWork &work, const TargetInfo &target,
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
  for (QuantizeCopyTileAttr tile : findTiles(context, known, target))
    candidates.push_back({this, tile, estimateTraffic(bytes, target), ""});
}

namespace mlir::fp8moe {
const KernelFamily &getQuantizeCopyFamily() {
  static const QuantizeCopyFamily family;
  return family;
}
} // namespace mlir::fp8moe
