// RUN: fp8moe-opt %s | fp8moe-opt | FileCheck %s
// RUN: fp8moe-opt %s --emit-bytecode | fp8moe-opt | FileCheck %s

gpu.module @kernels {
  // CHECK: gpu.func @k({{.*}}) kernel attributes {fp8moe_kernel.resident_blocks = 2 : i32}
  gpu.func @k(%a: f32, %b: f32, %word: i32, %condition: i1) kernel
      attributes {fp8moe_kernel.resident_blocks = 2 : i32} {
    // CHECK: fp8moe_kernel.pack_fp8 %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : f8E4M3FN
    %0 = fp8moe_kernel.pack_fp8 %a, %a, %b, %b : f8E4M3FN
    // Eight values are packed into two words.
    // CHECK: %{{.*}}:2 = fp8moe_kernel.pack_fp8
    // CHECK-SAME: times {{.*}} products own_scale : f8E5M2FNUZ
    %1:2 = fp8moe_kernel.pack_fp8 %a, %a, %a, %a, %b, %b, %b, %b
        times %a, %a, %a, %a, %b, %b, %b, %b products own_scale : f8E5M2FNUZ
    // CHECK: fp8moe_kernel.pack_fp8_pair %{{.*}}, %{{.*}} : f8E5M2
    %pair = fp8moe_kernel.pack_fp8_pair %a, %b : f8E5M2
    // CHECK: %first, %second, %third, %fourth = fp8moe_kernel.unpack_fp8 %{{.*}} : f8E5M2
    %2:4 = fp8moe_kernel.unpack_fp8 %word : f8E5M2
    // CHECK: fp8moe_kernel.permute_bytes %{{.*}}, %{{.*}}, %{{.*}}
    %3 = fp8moe_kernel.permute_bytes %word, %0, %word
    // CHECK: fp8moe_kernel.uniform %{{.*}}
    %4 = fp8moe_kernel.uniform %word
    // CHECK: fp8moe_kernel.ballot %{{.*}} : i64
    %5 = fp8moe_kernel.ballot %condition : i64
    // CHECK: fp8moe_kernel.vote_any %{{.*}}
    %6 = fp8moe_kernel.vote_any %condition
    // CHECK: %one, %other = fp8moe_kernel.exchange %{{.*}}, 16
    %7, %8 = fp8moe_kernel.exchange %word, 16
    // CHECK: fp8moe_kernel.subgroup_barrier
    fp8moe_kernel.subgroup_barrier
    gpu.return
  }
}
