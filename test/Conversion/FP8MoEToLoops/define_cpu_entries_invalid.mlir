// RUN: fp8moe-opt %s --fp8moe-define-cpu-entries --split-input-file --verify-diagnostics

// expected-error @below {{is the entry of @nothing, which is no function of this module}}
func.func private @kernel(!llvm.ptr) attributes {entry_of = @nothing}

// -----

// expected-error @below {{is the entry of @body, which must take memrefs and return nothing; run -convert-fp8moe-to-loops first}}
func.func private @kernel(!llvm.ptr) attributes {entry_of = @body}
func.func @body(%x: tensor<4xf32>) {
  return
}

// -----

// expected-error @below {{was declared with 1 parameters, but @body needs 2; its signature must not change after -fp8moe-plan-cpu-entries}}
func.func private @kernel(!llvm.ptr) attributes {entry_of = @body}
func.func @body(%x: memref<?xf32>) {
  return
}

// -----

// expected-error @below {{has a body already, but also the attribute 'entry_of'}}
func.func @kernel(%p: !llvm.ptr) attributes {entry_of = @body} {
  return
}
func.func @body(%x: memref<4xf32>) {
  return
}

// -----

// expected-error @below {{is the entry of @body, whose parameter 0 is a 'memref<4x8xf32, #fp8moe.strided<[1, 0]>>'; expected numbers in row-major order or with strides, without an offset or a memory space}}
func.func private @kernel(!llvm.ptr) attributes {entry_of = @body}
func.func @body(%x: memref<4x8xf32, #fp8moe.strided<[1, 0]>>) {
  return
}

// -----

// expected-error @below {{is a 'memref<4x8xf32, strided<[8, 1], offset: 3>>'; expected}}
func.func private @kernel(!llvm.ptr) attributes {entry_of = @body}
func.func @body(%x: memref<4x8xf32, strided<[8, 1], offset: 3>>) {
  return
}

// -----

// expected-error @below {{was declared with parameter 1 of type '!llvm.ptr', but @body needs 'i64' there; its signature must not change after -fp8moe-plan-cpu-entries}}
func.func private @kernel(!llvm.ptr, !llvm.ptr) attributes {entry_of = @body}
func.func @body(%x: memref<?xf32>) {
  return
}
