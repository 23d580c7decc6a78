//===- QuantizeFamily.h - Families of quantize kernels ----------*- C++ -*-===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEFAMILY_H
#define FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEFAMILY_H

#include "fp8moe/Kernels/Model/KernelFamily.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"

namespace mlir::fp8moe {

/// A family of quantize kernels. Its name is that of its tile attribute.
class QuantizeFamily : public KernelFamily {
public:
  explicit QuantizeFamily(StringRef name) : name(name) {}

  StringRef getName() const final { return name; }
  bool owns(TileAttrInterface tile) const final {
    return getTileKind(tile) == name;
  }
  bool isGeneral() const override { return false; }

private:
  StringRef name;
};

/// A family whose kernels quantize along one axis.
class AxisQuantizeFamily : public QuantizeFamily {
public:
  using QuantizeFamily::QuantizeFamily;

  static bool classof(const KernelFamily *family) {
    return family->getClassID() == TypeID::get<AxisQuantizeFamily>();
  }
  TypeID getClassID() const final { return TypeID::get<AxisQuantizeFamily>(); }
  TypeID getWorkID() const final { return TypeID::get<QuantizeWork>(); }

  /// Appends the legal tiles for a quantization on a GPU, with their costs.
  /// Appends nothing for layouts that the kernels do not support. `nominal` has
  /// assumed sizes where `known` has kDynamic.
  virtual void addTiles(const QuantizeWork &known, const QuantizeWork &nominal,
                        const TargetInfo &target,
                        SmallVectorImpl<QuantizeTileCost> &tiles) const = 0;

  bool supports(const KernelWork &work, const TargetInfo &target) const final;
  void addCandidates(MLIRContext *context, const KernelWork &work,
                     const TargetInfo &target,
                     SmallVectorImpl<KernelCandidate> &candidates) const final;

protected:
  /// Returns how often the input is read and from where, for reports.
  virtual StringRef describeReads(const QuantizeTileCost &) const {
    return "streamed once through shared memory";
  }
  /// Returns the name of the work tiles, in the plural, for reports.
  virtual StringRef getWorkTileName() const { return "blocks"; }
};

/// Returns the rows of Families.def that are AxisQuantizeFamily.
ArrayRef<const AxisQuantizeFamily *> getAxisQuantizeFamilies();

/// A family whose kernels quantize along both axes. They are no candidates for
/// a work: getBothAxesAlternatives compares them.
class BothAxesFamily : public QuantizeFamily {
public:
  using QuantizeFamily::QuantizeFamily;

  static bool classof(const KernelFamily *family) {
    return family->getClassID() == TypeID::get<BothAxesFamily>();
  }
  TypeID getClassID() const final { return TypeID::get<BothAxesFamily>(); }
  TypeID getWorkID() const final { return getClassID(); }
  bool supports(const KernelWork &, const TargetInfo &) const final {
    return false;
  }
  void addCandidates(MLIRContext *, const KernelWork &, const TargetInfo &,
                     SmallVectorImpl<KernelCandidate> &) const final {}

  /// Returns the legal tile for the quantizations along both axes, with its
  /// cost. Returns none when the kernels do not support them.
  virtual std::optional<QuantizeTileCost>
  getTile(const QuantizeWork &columns, const QuantizeWork &rows,
          const TargetInfo &target) const = 0;
  /// Returns the range of groups that the tile is for. Null where predicted
  /// times alone decide.
  virtual RangeAttr getRange(const QuantizeWork &columns,
                             const TargetInfo &target) const {
    return {};
  }
};

} // namespace mlir::fp8moe

#endif // FP8MOE_LIB_KERNELS_QUANTIZE_QUANTIZEFAMILY_H
