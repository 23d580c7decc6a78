// RUN: fp8moe-opt %s --verify-diagnostics --test-fp8moe-emit="chip=cpu kind=so output=%t"

llvm.func @k() {
  llvm.return
}
fp8moe_plan.program @p {
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{'fp8moe_plan.launch' op is cooperative, but target cpu runs one block; leave 'cooperative' out}}
  fp8moe_plan.launch @k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 cooperative
}
