// RUN: fp8moe-opt %s --fp8moe-expand-fp8-casts --split-input-file | FileCheck %s

// Integer arithmetic casts f32 to f8E4M3FN. The mantissa is rounded, and the exponent rebiased by
// 127 - 7 (960 = 120 * 8). Subnormals use an f32 addition. Codes above the largest finite one
// become NaN.

// CHECK-LABEL: func @encode_fn(
// CHECK-SAME:    %[[X:.*]]: f32)
func.func @encode_fn(%x: f32) -> f8E4M3FN {
  // CHECK-NOT:  arith.truncf
  // CHECK:      %[[BITS:.*]] = arith.bitcast %[[X]] : f32 to i32
  // CHECK:      arith.constant 2147483647
  // CHECK:      %[[MAG:.*]] = arith.andi %[[BITS]]
  // CHECK:      %[[REBIAS:.*]] = arith.constant 960 : i32
  // CHECK:      %[[NORMAL:.*]] = arith.subi %{{.*}}, %[[REBIAS]]
  // CHECK:      %[[SUBNORMAL:.*]] = arith.subi
  // CHECK:      %[[CODE:.*]] = arith.select %{{.*}}, %[[SUBNORMAL]], %[[NORMAL]]
  // CHECK:      %[[LARGEST:.*]] = arith.constant 126 : i32
  // CHECK:      %[[OVER:.*]] = arith.cmpi ugt, %[[CODE]], %[[LARGEST]]
  // CHECK:      %[[NAN:.*]] = arith.constant 127 : i32
  // CHECK:      arith.select %[[OVER]], %[[NAN]]
  // CHECK:      arith.trunci
  // CHECK:      %[[Q:.*]] = arith.bitcast %{{.*}} : i8 to f8E4M3FN
  // CHECK:      return %[[Q]]
  %q = arith.truncf %x : f32 to f8E4M3FN
  return %q : f8E4M3FN
}

// -----

// f8E5M2 has an infinity, code 124, besides NaN.

// CHECK-LABEL: func @encode_e5m2(
func.func @encode_e5m2(%x: f32) -> f8E5M2 {
  // CHECK:      %[[INF:.*]] = arith.constant 124 : i32
  // CHECK:      arith.select %{{.*}}, %[[INF]]
  // CHECK:      %[[F32_INF:.*]] = arith.constant 2139095040 : i32
  // CHECK:      %[[IS_NAN:.*]] = arith.cmpi ugt, %{{.*}}, %[[F32_INF]]
  // CHECK:      %[[NAN:.*]] = arith.constant 127 : i32
  // CHECK:      arith.select %[[IS_NAN]], %[[NAN]]
  %q = arith.truncf %x : f32 to f8E5M2
  return %q : f8E5M2
}

// -----

// FNUZ types have no negative zero: code 128 is their NaN. A zero with a sign therefore becomes
// code 0.

// CHECK-LABEL: func @encode_fnuz(
func.func @encode_fnuz(%x: f32) -> f8E4M3FNUZ {
  // CHECK:      %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK:      %[[IS_ZERO:.*]] = arith.cmpi eq, %[[CODE:.*]], %[[ZERO]]
  // CHECK:      arith.select %[[IS_ZERO]], %[[CODE]]
  // CHECK:      %[[NAN:.*]] = arith.constant 128 : i32
  // CHECK:      arith.select %{{.*}}, %[[NAN]]
  %q = arith.truncf %x : f32 to f8E4M3FNUZ
  return %q : f8E4M3FNUZ
}

// -----

// CHECK-LABEL: func @decode(
// CHECK-SAME:    %[[Q:.*]]: f8E5M2FNUZ)
func.func @decode(%q: f8E5M2FNUZ) -> f32 {
  // CHECK-NOT:  arith.extf
  // CHECK:      %[[CODE:.*]] = arith.bitcast %[[Q]] : f8E5M2FNUZ to i8
  // CHECK:      arith.extui %[[CODE]] : i8 to i32
  // CHECK:      arith.uitofp
  // CHECK:      %[[X:.*]] = arith.bitcast %{{.*}} : i32 to f32
  // CHECK:      return %[[X]]
  %x = arith.extf %q : f8E5M2FNUZ to f32
  return %x : f32
}

// -----

// CHECK-LABEL: func @vectors(
func.func @vectors(%x: vector<4xf32>) -> vector<4xbf16> {
  // CHECK-NOT:  arith.truncf
  // CHECK:      arith.trunci %{{.*}} : vector<4xi32> to vector<4xi16>
  // CHECK:      arith.bitcast %{{.*}} : vector<4xi16> to vector<4xbf16>
  %q = arith.truncf %x : vector<4xf32> to vector<4xbf16>
  return %q : vector<4xbf16>
}

// -----

// bf16 is the upper half of an f32: a shift widens it.

// CHECK-LABEL: func @bf16_to_f64(
func.func @bf16_to_f64(%x: bf16) -> f64 {
  // CHECK:      %[[CODE:.*]] = arith.extui %{{.*}} : i16 to i32
  // CHECK:      %[[BITS:.*]] = arith.shli %[[CODE]]
  // CHECK:      %[[F32:.*]] = arith.bitcast %[[BITS]] : i32 to f32
  // CHECK:      arith.extf %[[F32]] : f32 to f64
  %y = arith.extf %x : bf16 to f64
  return %y : f64
}

// -----

// Casts that do not involve small types stay.

// CHECK-LABEL: func @other(
func.func @other(%x: f64) -> f32 {
  // CHECK:      arith.truncf %{{.*}} : f64 to f32
  %y = arith.truncf %x : f64 to f32
  return %y : f32
}
