# Target fp8moe_llvm: LLVM, MLIR and lld, for whatever compiles.
#
# By default these are the distribution's shared libraries. With FP8MOE_STATIC_LLVM each binary holds what it uses of their
# archives, so that it runs where no LLVM is installed, and beside other copies of LLVM in one process.

option(FP8MOE_STATIC_LLVM "Link LLVM, MLIR and lld into each binary" OFF)
add_library(fp8moe_llvm INTERFACE)
fp8moe_install(fp8moe_llvm development)
if(NOT FP8MOE_STATIC_LLVM)
  target_link_libraries(fp8moe_llvm INTERFACE MLIR LLVM)
  # Those who build on an installed fp8moe need LLVM's headers, too.
  separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  list(TRANSFORM definitions REPLACE "^-D" "")
  target_include_directories(fp8moe_llvm SYSTEM INTERFACE
    "$<INSTALL_INTERFACE:${LLVM_INCLUDE_DIRS}>" "$<INSTALL_INTERFACE:${MLIR_INCLUDE_DIRS}>")
  target_compile_definitions(fp8moe_llvm INTERFACE "$<INSTALL_INTERFACE:${definitions}>")
  return()
endif()

# The back ends that artifacts need. lld names those of every target of LLVM, which would be two thirds of a binary: empty
# functions stand for the others.
set(code_generators X86 NVPTX AMDGPU)
set(others ${LLVM_TARGETS_TO_BUILD})
list(REMOVE_ITEM others ${code_generators})
set(stubs "/* Targets of LLVM that are left out. */\n")
foreach(target ${others})
  foreach(part TargetInfo Target TargetMC AsmPrinter AsmParser Disassembler)
    string(APPEND stubs "void LLVMInitialize${target}${part}(void) {}\n")
  endforeach()
endforeach()
# LLVMExtensions registers Polly (by its mangled name), which has no archive.
string(APPEND stubs "void _Z18getPollyPluginInfov(void) {}\n")
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/llvm-stubs.c CONTENT "${stubs}")
add_library(fp8moe_llvm_stubs OBJECT ${PROJECT_BINARY_DIR}/llvm-stubs.c ${PROJECT_SOURCE_DIR}/cmake/arc4random.c)
set_target_properties(fp8moe_llvm_stubs PROPERTIES C_VISIBILITY_PRESET hidden)

find_library(FP8MOE_ZLIB_ARCHIVE libz.a REQUIRED)
find_library(FP8MOE_ZSTD_ARCHIVE libzstd.a REQUIRED)

# The distribution's archives name shared libraries as what they need. Here all archives stand beside each other, and the
# linker takes what is used.
get_property(mlir_archives GLOBAL PROPERTY MLIR_ALL_LIBS)
set(archives)
foreach(library ${mlir_archives} lldELF lldCommon ${LLVM_AVAILABLE_LIBS})
  if(TARGET ${library} AND NOT library MATCHES "Test|Polly")
    get_target_property(type ${library} TYPE)
    if(type STREQUAL STATIC_LIBRARY)
      list(APPEND archives ${library})
      set_target_properties(${library} PROPERTIES INTERFACE_LINK_LIBRARIES "")
    endif()
  endif()
endforeach()
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES
  "LLVMDemangle;${FP8MOE_ZLIB_ARCHIVE};${FP8MOE_ZSTD_ARCHIVE};${CMAKE_DL_LIBS};m")
target_link_libraries(fp8moe_llvm INTERFACE ${archives})
target_sources(fp8moe_llvm INTERFACE
  "$<$<IN_LIST:$<TARGET_PROPERTY:TYPE>,EXECUTABLE;SHARED_LIBRARY;MODULE_LIBRARY>:$<TARGET_OBJECTS:fp8moe_llvm_stubs>>")
target_link_options(fp8moe_llvm INTERFACE -static-libstdc++ -Wl,--gc-sections -Wl,--icf=all -Wl,--exclude-libs,ALL)
