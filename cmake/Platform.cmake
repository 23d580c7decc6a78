# Refuses machines for which the compiler is not built, before CMake looks for compilers there: pip builds the sdist where no
# wheel fits.
if(NOT DEFINED platform)
  cmake_host_system_information(RESULT platform QUERY OS_PLATFORM)
endif()
if(NOT DEFINED glibc)
  execute_process(COMMAND getconf GNU_LIBC_VERSION OUTPUT_VARIABLE glibc ERROR_QUIET)
endif()
if(NOT DEFINED musl)
  file(GLOB musl /lib/ld-musl-*.so.1)
endif()
set(elsewhere "The compiler runs on x86-64 Linux with glibc. Artifacts that it makes there run here by the package fp8moe-runtime "
  "(in the sources: pip install ./python-bindings/runtime)")
if(NOT platform STREQUAL "x86_64")
  message(FATAL_ERROR "fp8moe cannot be built for ${platform}. " ${elsewhere})
endif()
# A machine of glibc may have musl beside it.
if(musl AND NOT glibc)
  message(FATAL_ERROR "fp8moe cannot be built with musl, of which there is ${musl}. " ${elsewhere})
endif()
