# FP8MOE_SANITIZER builds everything of the project with a sanitizer of clang:
# `address` is AddressSanitizer with UndefinedBehaviorSanitizer, `thread` is
# ThreadSanitizer. LLVM's own libraries stay as they are.

set(FP8MOE_SANITIZER none CACHE STRING "Build with a sanitizer: none, address (and undefined behaviour), or thread")
set_property(CACHE FP8MOE_SANITIZER PROPERTY STRINGS none address thread)
if(NOT FP8MOE_SANITIZER MATCHES "^(none|address|thread)$")
  message(FATAL_ERROR "FP8MOE_SANITIZER is '${FP8MOE_SANITIZER}', expected none, address or thread")
endif()

if(FP8MOE_SANITIZER STREQUAL none)
  return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "FP8MOE_SANITIZER=${FP8MOE_SANITIZER} needs clang, but the compiler is ${CMAKE_CXX_COMPILER}; "
    "configure with the preset asan or tsan")
endif()

# Container annotations and user poisoning need both sides of a container compiled
# with the sanitizer, and libMLIR and libLLVM are not.
find_program(FP8MOE_SYMBOLIZER NAMES llvm-symbolizer llvm-symbolizer-22 HINTS /usr/lib/llvm-22/bin)
# A report ends the program by a signal, which no test takes for an error that it expects.
set(common abort_on_error=1)
if(FP8MOE_SYMBOLIZER)
  string(APPEND common :external_symbolizer_path=${FP8MOE_SYMBOLIZER})
endif()
# LLVM, which has no sanitizer, gives the thread that links first an alternate stack for signals; at the end of a thread
# AddressSanitizer unmaps whichever it has, in the belief that it is its own, and ends the process. (Fuzz targets, which have no
# other threads, turn them on again: without one there is no report of a stack that overflows.)
set(FP8MOE_ASAN_OPTIONS
  ${common}:detect_leaks=1:allow_user_poisoning=0:detect_container_overflow=0:use_sigaltstack=0)
set(FP8MOE_UBSAN_OPTIONS ${common}:print_stacktrace=1)
set(FP8MOE_LSAN_OPTIONS print_suppressions=0:suppressions=${PROJECT_SOURCE_DIR}/test/sanitizers/leaks.supp)
set(FP8MOE_TSAN_OPTIONS ${common}:second_deadlock_stack=1)
configure_file(test/sanitizers/Options.c.in ${PROJECT_BINARY_DIR}/sanitizers/Options.c @ONLY)

# Readable stacks, and the cheap checks of libstdc++.
add_compile_options(-fno-omit-frame-pointer -fno-optimize-sibling-calls)
add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)

if(FP8MOE_SANITIZER STREQUAL thread)
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
  return()
endif()

# vptr would need the type information of classes that libMLIR keeps for itself. A
# report ends the program, so that its test fails.
add_compile_options(-fsanitize=address,undefined,float-cast-overflow
  -fno-sanitize=vptr -fno-sanitize-recover=all)
# Counters of edges guide fp8moe-*-fuzzer; elsewhere nobody reads them.
add_compile_options(-fsanitize-coverage=inline-8bit-counters,pc-table)

# The extension of Python and the runtime's library get into processes that are not
# ours: the sanitizer's runtime is a shared library, one for all of a process.
set(runtime libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so)
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${runtime}
  OUTPUT_VARIABLE FP8MOE_ASAN_RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT EXISTS ${FP8MOE_ASAN_RUNTIME})
  message(FATAL_ERROR "${runtime} was not found; install libclang-rt-22-dev")
endif()
get_filename_component(folder ${FP8MOE_ASAN_RUNTIME} DIRECTORY)
add_link_options(-fsanitize=address,undefined -shared-libasan -Wl,-rpath,${folder})
