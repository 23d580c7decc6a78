// Functions without a body, and recursive ones, give the same error on every target.

// RUN: not fp8moe-compile %s --target=cpu --emit=mlir 2>&1 | FileCheck %s
// RUN: not fp8moe-compile %s --target=sm_90a --emit=mlir 2>&1 | FileCheck %s
// RUN: not fp8moe-compile %s --target=gfx942 --emit=mlir 2>&1 | FileCheck %s

func.func private @norm(tensor<?x64xbf16>) -> tensor<?x64xbf16>

func.func @external(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  // CHECK: external-function.mlir:[[@LINE+1]]:8: error: 'func.call' op calls 'norm', which has no body or calls itself, so it cannot be inlined; give it a body without recursion, or return here and take its results as arguments of another function
  %y = call @norm(%x) : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

func.func @recursive(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  // CHECK: external-function.mlir:[[@LINE+1]]:8: error: 'func.call' op calls 'recursive', which has no body or calls itself
  %y = call @recursive(%x) : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
