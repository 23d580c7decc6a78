# Build rules shared by every directory of the project.

separate_arguments(FP8MOE_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")

# Flags of every C++ target of the project.
add_library(fp8moe_options INTERFACE)
target_compile_definitions(fp8moe_options INTERFACE ${FP8MOE_LLVM_DEFINITIONS})
# For what says the version, alone: a new one compiles little anew.
set(FP8MOE_VERSION_DEFINITION FP8MOE_VERSION="${PROJECT_VERSION}")
target_compile_options(fp8moe_options INTERFACE -Wall -Wextra -Werror=return-type
  -Wno-unused-parameter)
if(NOT LLVM_ENABLE_RTTI)
  target_compile_options(fp8moe_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)
endif()
if(NOT FP8MOE_SANITIZER STREQUAL none)
  # An object of its own, as the precompiled header is none of C.
  add_library(fp8moe_sanitizer_options OBJECT ${PROJECT_BINARY_DIR}/sanitizers/Options.c)
  target_sources(fp8moe_options INTERFACE
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:$<TARGET_OBJECTS:fp8moe_sanitizer_options>>)
endif()

# MLIR's headers dominate compile time, so what uses them shares one precompiled
# header. Without the times of files in it, ccache knows it again in another
# checkout, and what was compiled with it.
function(fp8moe_use_mlir_pch target)
  set(no_times "$<$<CXX_COMPILER_ID:Clang,AppleClang>:SHELL:-Xclang -fno-pch-timestamp>")
  if(NOT TARGET fp8moe_pch)
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/pch.cpp CONTENT "")
    add_library(fp8moe_pch OBJECT ${PROJECT_BINARY_DIR}/pch.cpp)
    target_link_libraries(fp8moe_pch PRIVATE fp8moe_options)
    target_compile_options(fp8moe_pch PRIVATE ${no_times})
    target_precompile_headers(fp8moe_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch.h)
  endif()
  target_compile_options(${target} PRIVATE ${no_times})
  # It is for code of libraries, which code of executables may be as well.
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM fp8moe_pch)
endfunction()

# fp8moe_add_library(NAME source... [DEPENDS target...] [LINK_LIBS lib...])
# A static library of the compiler, built against the MLIR shared library.
function(fp8moe_add_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK_LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC $<BUILD_INTERFACE:fp8moe_options> ${ARG_LINK_LIBS} fp8moe_llvm)
  add_dependencies(${name} fp8moe-headers ${ARG_DEPENDS})
  fp8moe_use_mlir_pch(${name})
  fp8moe_install(${name} development)
endfunction()

# fp8moe_add_tool(NAME source... [LINK_LIBS lib...])
function(fp8moe_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE fp8moe_options ${ARG_LINK_LIBS} fp8moe_llvm)
  target_compile_definitions(${name} PRIVATE ${FP8MOE_VERSION_DEFINITION})
  add_dependencies(${name} fp8moe-headers)
  fp8moe_use_mlir_pch(${name})
  set_target_properties(${name} PROPERTIES INSTALL_RPATH ${LLVM_LIBRARY_DIR})
endfunction()

# Every generated header is a part of fp8moe-headers, so that libraries depend on
# one name.
add_custom_target(fp8moe-headers)
function(fp8moe_tablegen_target name)
  add_public_tablegen_target(${name})
  add_dependencies(fp8moe-headers ${name})
endfunction()
