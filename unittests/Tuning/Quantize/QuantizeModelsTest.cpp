//===- QuantizeModelsTest.cpp - What the host counts as the compiler ------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fp8moe/Tuning/Quantize/QuantizeModels.h"

#include "../Common/HostSizes.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fp8moe;

TEST(QuantizeModelsTest, MeanLengthsOnTheHostAreThoseOfTheCompiler) {
  HostSizes sizes;
  for (int i = 0; i < 1000; ++i)
    for (bool jagged : {false, true}) {
      int64_t rows = sizes.draw(1 << 20) - 1, segments = sizes.draw(300);
      EXPECT_EQ(computeMeanLength(jagged, sizes.getKnown(rows),
                                  sizes.getKnown(segments))
                    .getKnown(),
                computeMeanLength(jagged, rows, segments));
    }
  EXPECT_EQ(sizes.countOperations(), 0);
  EXPECT_EQ(computeMeanLength<int64_t>(/*jagged=*/true, 17, 4), 5);
  EXPECT_EQ(computeMeanLength<int64_t>(/*jagged=*/false, 17, 4), 17);
}
