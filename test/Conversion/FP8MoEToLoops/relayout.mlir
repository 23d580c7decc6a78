// RUN: fp8moe-opt %s --convert-fp8moe-to-loops --canonicalize --cse --split-input-file | FileCheck %s

// CHECK-LABEL: func @contiguous(
// CHECK-SAME:    %[[X:.*]]: memref<4x8xbf16, strided<[1, 4]>>, %[[R:.*]]: memref<4x8xbf16>)
func.func @contiguous(%x: tensor<4x8xbf16, #fp8moe.strided<[1, 0]>>) -> tensor<4x8xbf16> {
  // CHECK-DAG:  %[[C4:.*]] = arith.constant 4 : index
  // CHECK-DAG:  %[[C8:.*]] = arith.constant 8 : index
  // CHECK:      scf.for %[[I:[^ ]*]] = %{{.*}} to %[[C4]]
  // CHECK-NEXT:   scf.for %[[J:[^ ]*]] = %{{.*}} to %[[C8]]
  // CHECK-NEXT:     %[[E:.*]] = memref.load %[[X]][%[[I]], %[[J]]]
  // CHECK-NEXT:     memref.store %[[E]], %[[R]][%[[I]], %[[J]]]
  %c = fp8moe.contiguous %x : tensor<4x8xbf16, #fp8moe.strided<[1, 0]>> -> tensor<4x8xbf16>
  return %c : tensor<4x8xbf16>
}

// -----

// Each group is copied to its padded start, which the loop carries as its second value. Rows up to
// the next start are zeroed.

#padded = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>

// CHECK-LABEL: func @pad(
// CHECK-SAME:    %[[X:.*]]: memref<?x8xf32>, %[[ENDS:.*]]: memref<3xi32>, %[[R:.*]]: memref<?x8xf32>)
func.func @pad(%x: tensor<?x8xf32>, %ends: tensor<3xi32>) -> tensor<?x8xf32, #padded> {
  // CHECK-DAG:  %[[C0:.*]] = arith.constant 0 : index
  // CHECK-DAG:  %[[C16:.*]] = arith.constant 16 : index
  // CHECK:      %[[M:.*]] = memref.dim %[[X]], %[[C0]]
  // CHECK:      %[[P:.*]] = arith.muli %{{.*}}, %[[C16]]
  // CHECK:      %[[LAST:.*]]:2 = scf.for %[[G:[^ ]*]] = {{.*}} iter_args(%[[BEGIN:.*]] = %[[C0]], %[[START:.*]] = %[[C0]])
  // CHECK:        %[[RAW:.*]] = memref.load %[[ENDS]][%[[G]]]
  // CHECK:        %[[CAST:.*]] = arith.index_cast %[[RAW]] : i32 to index
  // CHECK:        %[[MAX:.*]] = arith.maxsi %[[CAST]], %[[BEGIN]]
  // CHECK:        %[[END:.*]] = arith.minsi %[[MAX]], %[[M]]
  // CHECK:        %[[LENGTH:.*]] = arith.subi %[[END]], %[[BEGIN]]
  // CHECK:        %[[SHIFT:.*]] = arith.subi %[[BEGIN]], %[[START]]
  // CHECK:        %[[STOP:.*]] = arith.addi %[[START]], %[[LENGTH]]
  // CHECK:        scf.for %[[I:[^ ]*]] = %[[START]] to %[[STOP]]
  // CHECK:          %[[FROM:.*]] = arith.addi %[[I]], %[[SHIFT]]
  // CHECK:          memref.load %[[X]][%[[FROM]],
  // CHECK:          memref.store %{{.*}}, %[[R]][%[[I]],
  // CHECK:        %[[NEXT:.*]] = arith.addi %[[START]], %{{.*}}
  // CHECK:        scf.for %{{.*}} = %[[STOP]] to %[[NEXT]]
  // CHECK:        scf.yield %[[END]], %[[NEXT]]
  // CHECK:      scf.for %{{.*}} = %[[LAST]]#1 to %[[P]]
  %p = fp8moe.relayout %x groups(%ends : tensor<3xi32>)
      : tensor<?x8xf32> -> tensor<?x8xf32, #padded>
  return %p : tensor<?x8xf32, #padded>
}

// -----

// Reads of padded groups stay within the tensor's extent, even if the offsets are wrong.

#padded = #fp8moe.strided<[0, 1], groups<dim = 0, pad = 16>>

// CHECK-LABEL: func @pack(
// CHECK-SAME:    %[[X:.*]]: memref<96x8xf32>, %{{.*}}: memref<3xi32>, %[[R:.*]]: memref<40x8xf32>)
func.func @pack(%x: tensor<96x8xf32, #padded>, %ends: tensor<3xi32>) -> tensor<40x8xf32> {
  // CHECK-DAG:  %[[C0:.*]] = arith.constant 0 : index
  // CHECK-DAG:  %[[C40:.*]] = arith.constant 40 : index
  // CHECK-DAG:  %[[P:.*]] = arith.constant 96 : index
  // CHECK:      %[[LAST:.*]]:2 = scf.for {{.*}} iter_args(%[[BEGIN:.*]] = %[[C0]], %[[START:.*]] = %[[C0]])
  // CHECK:        %[[LENGTH:.*]] = arith.subi %{{.*}}, %[[BEGIN]]
  // CHECK:        %[[LEFT:.*]] = arith.subi %[[P]], %[[START]]
  // CHECK:        %[[MIN:.*]] = arith.minsi %[[LENGTH]], %[[LEFT]]
  // CHECK:        arith.maxsi %[[MIN]], %[[C0]]
  // CHECK:      scf.for %{{.*}} = %[[LAST]]#0 to %[[C40]]
  %p = fp8moe.relayout %x groups(%ends : tensor<3xi32>)
      : tensor<96x8xf32, #padded> -> tensor<40x8xf32>
  return %p : tensor<40x8xf32>
}

// -----

// Blocked scales are one flat buffer. It is zeroed, then each scale goes to
// tile * 512 + row % 32 * 16 + row / 32 % 4 * 4 + column % 4.

#blocked = #fp8moe.scale_blocked<128x4>

// CHECK-LABEL: func @block(
// CHECK-SAME:    %[[X:.*]]: memref<200x6xf8E8M0FNU>, %[[R:.*]]: memref<2048xf8E8M0FNU>)
func.func @block(%x: tensor<200x6xf8E8M0FNU>) -> tensor<200x6xf8E8M0FNU, #blocked> {
  // CHECK-DAG:  %[[C512:.*]] = arith.constant 512 : index
  // CHECK-DAG:  %[[C2048:.*]] = arith.constant 2048 : index
  // CHECK:      scf.for %[[B:[^ ]*]] = %{{.*}} to %[[C2048]]
  // CHECK-NEXT:   memref.store %{{.*}}, %[[R]][%[[B]]]
  // CHECK:      scf.for %[[I:[^ ]*]] =
  // CHECK-NEXT:   scf.for %[[J:[^ ]*]] =
  // CHECK-NEXT:     %[[S:.*]] = memref.load %[[X]][%[[I]], %[[J]]]
  // CHECK:          %[[BYTE:.*]] = arith.muli %{{.*}}, %[[C512]]
  // CHECK-NEXT:     %[[AT:.*]] = arith.addi %[[BYTE]], %{{.*}}
  // CHECK-NEXT:     memref.store %[[S]], %[[R]][%[[AT]]]
  %r = fp8moe.relayout %x : tensor<200x6xf8E8M0FNU> -> tensor<200x6xf8E8M0FNU, #blocked>
  return %r : tensor<200x6xf8E8M0FNU, #blocked>
}
