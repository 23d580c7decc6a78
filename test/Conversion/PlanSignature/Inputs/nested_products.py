"""Prints a program whose size is squared 30 times: `branches` computes it in both branches of an
scf.if, `plan` in a host program.
"""

import sys

COUNT = 30
BRANCH = """
    %t{i} = fp8moe.transpose %x{i} [1, 0] : tensor<?x1xbf16> -> tensor<1x?xbf16>
    %y{i} = fp8moe.linear %x{i}, %t{i} : tensor<?x1xbf16>, tensor<1x?xbf16> -> tensor<?x?xbf16>
    %z{i} = fp8moe.reshape %y{i} : tensor<?x?xbf16> -> tensor<?xbf16>
    %x{next} = fp8moe.reshape %z{i} : tensor<?xbf16> -> tensor<?x1xbf16>"""
BRANCHES = """
func.func @f(%x0: tensor<?x1xbf16>) -> tensor<?x1xbf16> {{
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x0, %c0 : tensor<?x1xbf16>
  %isEmpty = arith.cmpi eq, %m, %c0 : index
  %r = scf.if %isEmpty -> tensor<?x1xbf16> {{{products}
    scf.yield %x{count} : tensor<?x1xbf16>
  }} else {{{products}
    scf.yield %x{count} : tensor<?x1xbf16>
  }}
  return %r : tensor<?x1xbf16>
}}"""
PLAN = """
llvm.func @k(%x: !llvm.ptr, %size: i64) {{
  llvm.return
}}
fp8moe_plan.program @f {{
  %x = fp8moe_plan.input "x" align 4 : memref<?xf32>
  %x0 = fp8moe_plan.dim %x, 0 : memref<?xf32>{products}
  %c1 = arith.constant 1 : index
  fp8moe_plan.launch @k grid(%c1, %c1, %c1) block(1, 1, 1) shared 0 args(%x, %x{count}) : memref<?xf32>, index
}}"""
program, product = {"branches": (BRANCHES, BRANCH), "plan": (PLAN, "\n  %x{next} = arith.muli %x{i}, %x{i} : index")}[sys.argv[1]]
products = "".join(product.format(i=i, next=i + 1) for i in range(COUNT))
print(program.format(products=products, count=COUNT))
