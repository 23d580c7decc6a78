//===- KernelFamilyTest.cpp - Tests of the table of families --------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Matmul/Hopper/HopperTiles.h"
#include "Kernels/Quantize/QuantizeFamily.h"
#include "fp8moe/Dialect/FP8MoE/IR/FP8MoEDialect.h"
#include "fp8moe/Kernels/Model/KernelProblem.h"
#include "fp8moe/Kernels/Quantize/QuantizeTiles.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace mlir::fp8moe;

namespace {

const TargetInfo &getTarget(StringRef chip) { return *lookupTarget(chip); }

class KernelFamilyTest : public testing::Test {
protected:
  KernelFamilyTest() {
    context.loadDialect<FP8MoEDialect, func::FuncDialect>();
  }

  /// A row-major output reduced along rows. The input may be column-major.
  QuantizeWork jagged(bool fromRows) {
    QuantizeWork work;
    work.context = &context;
    work.jagged = true;
    work.segments = 8;
    work.rows = 16384;
    work.columns = 2048;
    work.inputRowStride = fromRows ? 1 : work.columns;
    work.inputColumnStride = fromRows ? work.rows : 1;
    work.outputColumnStride = work.rows;
    return work;
  }

  /// Returns the families of a work's candidates, in order.
  std::vector<std::string> rankFamilies(const KernelWork &work,
                                        StringRef chip) {
    std::vector<std::string> names;
    for (const KernelCandidate &candidate :
         rankTiles(&context, work, getTarget(chip)))
      if (names.empty() || names.back() != candidate.family->getName())
        names.push_back(candidate.family->getName().str());
    return names;
  }

  MLIRContext context;
};

using Names = std::vector<std::string>;

TEST_F(KernelFamilyTest, NamesAreDistinct) {
  std::set<StringRef> names;
  for (const KernelFamily *family : getKernelFamilies())
    EXPECT_TRUE(names.insert(family->getName()).second)
        << family->getName().str();
}

TEST_F(KernelFamilyTest, EveryTileHasOneFamily) {
  const TileAttrInterface tiles[] = {
      getWgmmaTile(&context, HopperMatmulConfig()),
      TwoPassTileAttr::get(&context, 1, 128),
      RegisterResidentTileAttr::get(&context, 1, 128, 1, 1, 1),
      SinglePassOuterTileAttr::get(&context, 64, 13),
      SinglePassBothAxesTileAttr::get(&context, 64, 9, 10240, 4),
      RescaledBothAxesTileAttr::get(&context, 320, 1, 3, /*fused=*/false)};
  std::set<const KernelFamily *> owners;
  for (TileAttrInterface tile : tiles) {
    const KernelFamily *owner = findKernelFamily(tile);
    ASSERT_TRUE(owner);
    EXPECT_TRUE(owners.insert(owner).second) << owner->getName().str();
    EXPECT_EQ(llvm::count_if(getKernelFamilies(),
                             [&](const KernelFamily *family) {
                               return family->owns(tile);
                             }),
              1);
    EXPECT_FALSE(tile.getFields().empty());
    EXPECT_FALSE(describeTile(tile).empty());
  }
}

/// A family that quantizes along one axis but has no tiles.
class OtherQuantizeFamily : public KernelFamily {
public:
  StringRef getName() const override { return "other"; }
  TypeID getWorkID() const override { return TypeID::get<QuantizeWork>(); }
  bool supports(const KernelWork &, const TargetInfo &) const override {
    return false;
  }
  void addCandidates(MLIRContext *, const KernelWork &, const TargetInfo &,
                     SmallVectorImpl<KernelCandidate> &) const override {}
  bool isGeneral() const override { return false; }
};

/// The class of a family is independent of the class of its work.
TEST_F(KernelFamilyTest, FamiliesOfOneWorkMayHaveOtherClasses) {
  OtherQuantizeFamily other;
  EXPECT_FALSE(isa<AxisQuantizeFamily>(static_cast<KernelFamily &>(other)));
  std::vector<std::string> names;
  for (const AxisQuantizeFamily *family : getAxisQuantizeFamilies())
    names.push_back(family->getName().str());
  EXPECT_EQ(names,
            (Names{"two_pass", "register_resident", "single_pass_outer"}));
}

TEST_F(KernelFamilyTest, CandidatesComeInTheOrderOfTheTable) {
  EXPECT_EQ(rankFamilies(jagged(/*fromRows=*/false), "sm_90a"),
            (Names{"two_pass", "single_pass_outer"}));
  EXPECT_EQ(rankFamilies(jagged(/*fromRows=*/true), "sm_90a"),
            (Names{"two_pass", "register_resident"}));
  EXPECT_EQ(rankFamilies(jagged(/*fromRows=*/true), "gfx942"),
            (Names{"two_pass", "register_resident"}));
  EXPECT_EQ(rankFamilies(MatmulWork(), "sm_90a"), Names{"hopper_matmul"});
  EXPECT_EQ(rankFamilies(MatmulWork(), "gfx942"), Names{"cdna_matmul"});
  EXPECT_EQ(rankFamilies(MatmulWork(), "sm_100a"), Names{});
}

TEST_F(KernelFamilyTest, CandidatesAreThoseOfTheModels) {
  QuantizeWork work = jagged(/*fromRows=*/true);
  const TargetInfo &target = getTarget("sm_90a");
  for (auto [candidate, tile] :
       llvm::zip_equal(rankTiles(&context, work, target),
                       rankQuantizeTiles(work, target))) {
    EXPECT_EQ(candidate.tile, tile.tile);
    EXPECT_EQ(candidate.cost, tile.cost);
    EXPECT_FALSE(candidate.reason.empty());
  }
}

TEST_F(KernelFamilyTest, OneKernelTakesBothAxes) {
  QuantizeWork columns = jagged(/*fromRows=*/false), rows;
  rows.context = &context;
  rows.rows = columns.columns;
  rows.columns = columns.rows;
  rows.inputColumnStride = rows.outputColumnStride = columns.columns;
  auto getNames = [&](StringRef chip) {
    Names names;
    for (const BothAxesAlternative &entry :
         getBothAxesAlternatives({columns, rows}, getTarget(chip)))
      names.push_back(findKernelFamily(entry.tile.tile)->getName().str());
    return names;
  };
  EXPECT_EQ(getNames("sm_90a"), Names{"single_pass_both_axes"});
  EXPECT_EQ(getNames("gfx942"), Names{});
  EXPECT_EQ(getNames("sm_100a"), Names{});
}

TEST_F(KernelFamilyTest, EveryGPUHasGeneralFamiliesForQuantizations) {
  for (const TargetInfo &target : knownTargets()) {
    if (!target.isGPU())
      continue;
    for (bool fromRows : {false, true})
      EXPECT_TRUE(llvm::any_of(rankTiles(&context, jagged(fromRows), target),
                               [](const KernelCandidate &entry) {
                                 return entry.family->isGeneral();
                               }))
          << target.chip.str();
  }
}

/// Kernels whose design follows from strides cost the bytes that they move, and
/// more if they transpose.
TEST_F(KernelFamilyTest, ConversionsCostTheirBytes) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
      R"(func.func @f(%x: tensor<4096x4096xbf16>, %q: tensor<4096x4096xf8E4M3FN>,
                      %s: tensor<4096xf32>)
             -> (tensor<4096x4096xf8E4M3FN>, tensor<4096x128xf8E8M0FNU>, tensor<4096x4096xbf16>) {
           %d, %b = fp8moe.mx_quantize %x along [1] mode rceil : tensor<4096x4096xbf16>
               -> tensor<4096x4096xf8E4M3FN>, tensor<4096x128xf8E8M0FNU>
           %y = fp8moe.dequantize %q by %s along 1 direction quantize
               : tensor<4096x4096xf8E4M3FN>, tensor<4096xf32> -> tensor<4096x4096xbf16>
           return %d, %b, %y : tensor<4096x4096xf8E4M3FN>, tensor<4096x128xf8E8M0FNU>,
                               tensor<4096x4096xbf16>
         })",
      &context);
  ASSERT_TRUE(module);
  const TargetInfo &target = getTarget("sm_100a");
  constexpr int64_t kElements = 4096 * 4096;
  auto columns = StridedLayout::getDense({4096, 4096}, {1, 0});
  auto check = [&](Operation *op, int64_t otherBytes) {
    const KernelProblem *problem = findKernelProblem(op);
    ASSERT_TRUE(problem);
    Cost cost = *problem->estimate(op, {}, target);
    EXPECT_EQ(cost.bytes, 3 * kElements + otherBytes);
    EXPECT_EQ(cost.copies, 0);
    AssumedLayout assumed{op->getOperand(0), &columns};
    Cost transposed = *problem->estimate(op, assumed, target);
    EXPECT_EQ(transposed.bytes, cost.bytes);
    EXPECT_LT(cost.time, transposed.time);
  };
  module->walk([&](MXQuantizeOp op) { check(op, kElements / 32); });
  module->walk([&](DequantizeOp op) { check(op, 4096 * 4); });

  module->walk([&](MXQuantizeOp op) {
    EXPECT_TRUE(succeeded(requireKernels(op, getTarget("gfx950"))));
    std::string message;
    ScopedDiagnosticHandler handler(
        &context, [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
    EXPECT_TRUE(failed(requireKernels(op, getTarget("gfx942"))));
    EXPECT_EQ(message,
              "'fp8moe.mx_quantize' is not supported on target gfx942 yet; "
              "compile the function for sm_90a or sm_100a or gfx950 or 'cpu'");
  });
}

/// For both axes, the input is read once if a kernel supports that.
TEST_F(KernelFamilyTest, BlocksAlongBothAxesReadOnce) {
  constexpr int64_t kElements = 4096 * 4096;
  auto getBytes = [&](StringRef layout) {
    std::string type = ("tensor<4096x4096xbf16" + layout + ">").str();
    std::string source = "func.func @f(%x: " + type + R"() {
        %q:4 = fp8moe.mx_quantize %x along [0, 1] mode ceil : )" +
                         type + R"( -> tensor<4096x4096xf8E4M3FN>,
            tensor<4096x4096xf8E4M3FN>, tensor<4096x128xf8E8M0FNU>,
            tensor<4096x128xf8E8M0FNU>
        return
      })";
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(source, &context);
    int64_t bytes = 0;
    if (module)
      module->walk([&](MXQuantizeOp op) {
        bytes =
            findKernelProblem(op)->estimate(op, {}, getTarget("sm_90a"))->bytes;
      });
    return bytes;
  };
  constexpr int64_t kScales = 2 * kElements / 32;
  EXPECT_EQ(getBytes(""), 4 * kElements + kScales);
  // No dimension is known to be contiguous, so each axis has a kernel.
  EXPECT_GT(getBytes(", #fp8moe.strided<[0, 1], strides = [?, ?]>"),
            4 * kElements + kScales);
}

/// Tests the table's answers about operations, on a chip with matmuls and on
/// one without.
TEST_F(KernelFamilyTest, ProblemsKnowTheirOperations) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
      R"(func.func @f(%x: tensor<256x128xbf16>, %ends: tensor<2xi32>,
                      %y: tensor<256x64xbf16>) -> tensor<2x128x64xbf16> {
           %q, %s = fp8moe.dynamic_quantize %x along [1] rounding none
               : tensor<256x128xbf16> -> tensor<256x128xf8E4M3FN>, tensor<256xf32>
           %t = fp8moe.transpose %x [1, 0] : tensor<256x128xbf16>
               -> tensor<128x256xbf16, #fp8moe.strided<[1, 0]>>
           %o = fp8moe.grouped_matmul %t, %y groups(%ends : tensor<2xi32>)
               : tensor<128x256xbf16, #fp8moe.strided<[1, 0]>>, tensor<256x64xbf16>
               -> tensor<2x128x64xbf16>
           return %o : tensor<2x128x64xbf16>
         })",
      &context);
  ASSERT_TRUE(module);
  const TargetInfo &hopper = getTarget("sm_90a"), &other = getTarget("gfx942"),
                   &blackwell = getTarget("sm_100a");
  module->walk([&](DynamicQuantizeOp op) {
    const KernelProblem *problem = findKernelProblem(op);
    ASSERT_TRUE(problem);
    EXPECT_TRUE(problem->estimate(op, {}, other));
    op.setTilesAttr(problem->choose(op, other));
    EXPECT_TRUE(succeeded(verifyKernels(op, other)));
  });
  module->walk([&](GroupedMatmulOp op) {
    EXPECT_TRUE(findKernelProblem(op));
    EXPECT_TRUE(succeeded(requireKernels(op, hopper)));
    using Dims = SmallVector<int64_t, 2>;
    auto getDims = [&](const TargetInfo &target) {
      return getKernelAccess(op, op.getA(), target).contiguousDims;
    };
    for (const TargetInfo *target : {&hopper, &other})
      EXPECT_EQ(getDims(*target), (Dims{1, 0}));
    EXPECT_EQ(getDims(blackwell), Dims());
    EXPECT_EQ(getBestGroupPadding(op, hopper), 0);
    std::string message;
    ScopedDiagnosticHandler handler(
        &context, [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
    EXPECT_TRUE(failed(requireKernels(op, blackwell)));
    EXPECT_EQ(message, "'fp8moe.grouped_matmul' is not supported on target "
                       "sm_100a yet; compile the function for sm_90a or "
                       "gfx942 or gfx950 or 'cpu'");
  });
  module->walk([&](TransposeOp op) { EXPECT_FALSE(findKernelProblem(op)); });
}

} // namespace
