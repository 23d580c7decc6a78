//===- MatrixInstruction.cpp - What multiplies matrices -------------------===//
//
// Part of the fp8moe project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChipTables.h"

using namespace mlir::fp8moe;

static constexpr MatrixElement e4m3 = MatrixElement::E4M3;
static constexpr MatrixElement e5m2 = MatrixElement::E5M2;
static constexpr MatrixElement bf16 = MatrixElement::BF16;

/// PTX ISA 8.3, "wgmma.mma_async": m64nNk32 for FP8, m64nNk16 for bf16, N a
/// multiple of 8 from 8 to 256.
constexpr MatrixInstructionInfo mlir::fp8moe::hopperMatrix[] = {
    {MatrixInstruction::Wgmma, e4m3, e4m3, 64, 8},
    {MatrixInstruction::Wgmma, e4m3, e5m2, 64, 8},
    {MatrixInstruction::Wgmma, e5m2, e4m3, 64, 8},
    {MatrixInstruction::Wgmma, e5m2, e5m2, 64, 8},
    {MatrixInstruction::Wgmma, bf16, bf16, 64, 8},
};

/// PTX ISA 8.7, "tcgen05.mma": kind::f8f6f4 and kind::f16 with cta_group::1 and
/// M of 128, N a multiple of 16 from 16 to 256, K of 32 bytes.
constexpr MatrixInstructionInfo mlir::fp8moe::blackwellMatrix[] = {
    {MatrixInstruction::Tcgen05, e4m3, e4m3, 128, 16},
    {MatrixInstruction::Tcgen05, e4m3, e5m2, 128, 16},
    {MatrixInstruction::Tcgen05, e5m2, e4m3, 128, 16},
    {MatrixInstruction::Tcgen05, e5m2, e5m2, 128, 16},
    {MatrixInstruction::Tcgen05, bf16, bf16, 128, 16},
};

/// "AMD Instinct MI300" instruction set architecture reference, matrix core
/// instructions: V_MFMA_F32_32X32X16_{FP8,BF8}_{FP8,BF8} and
/// V_MFMA_F32_32X32X8_BF16.
constexpr MatrixInstructionInfo mlir::fp8moe::cdna3Matrix[] = {
    {MatrixInstruction::Mfma, e4m3, e4m3, 32, 32},
    {MatrixInstruction::Mfma, e4m3, e5m2, 32, 32},
    {MatrixInstruction::Mfma, e5m2, e4m3, 32, 32},
    {MatrixInstruction::Mfma, e5m2, e5m2, 32, 32},
    {MatrixInstruction::Mfma, bf16, bf16, 32, 32},
};

/// "AMD CDNA 4" instruction set architecture reference, matrix core
/// instructions: V_MFMA_F32_16X16X128_F8F6F4 without scales and
/// V_MFMA_F32_16X16X32_BF16. The small sizes draw less power.
constexpr MatrixInstructionInfo mlir::fp8moe::cdna4Matrix[] = {
    {MatrixInstruction::Mfma, e4m3, e4m3, 16, 16},
    {MatrixInstruction::Mfma, e4m3, e5m2, 16, 16},
    {MatrixInstruction::Mfma, e5m2, e4m3, 16, 16},
    {MatrixInstruction::Mfma, e5m2, e5m2, 16, 16},
    {MatrixInstruction::Mfma, bf16, bf16, 16, 16},
};
