# What `cmake --install` lays out, by component:
#
#   runtime       libfp8moe_runtime, its header, a package for CMake and pkg-config
#   tools         fp8moe-compile, fp8moe-run, fp8moe-opt, fp8moe-lsp-server
#   development   the dialect, the compiler and their headers
#   python        the Python package, as wheels hold it; not installed by default

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(FP8MOE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/FP8MoE)

# fp8moe_install(TARGET COMPONENT [NAME]): as FP8MoE::NAME, by default TARGET's own name.
# What links LLVM's archives goes into wheels alone, not into what others build on.
function(fp8moe_install target component)
  if(FP8MOE_STATIC_LLVM AND component STREQUAL development)
    return()
  endif()
  if(ARGC GREATER 2)
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${ARGV2})
  endif()
  install(TARGETS ${target} EXPORT FP8MoE-${component}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endfunction()

# fp8moe_install_package(): headers, and the files by which CMake and pkg-config find the rest.
function(fp8moe_install_package)
  install(FILES ${PROJECT_SOURCE_DIR}/include/fp8moe-c/Runtime.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fp8moe-c COMPONENT runtime)
  install(EXPORT FP8MoE-runtime NAMESPACE FP8MoE:: DESTINATION ${FP8MOE_CMAKE_DIR} COMPONENT runtime)
  if(NOT FP8MOE_RUNTIME_ONLY AND NOT FP8MOE_STATIC_LLVM)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ ${PROJECT_BINARY_DIR}/include/
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
      FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.inc" PATTERN "*.def" PATTERN "CMakeFiles" EXCLUDE)
    install(EXPORT FP8MoE-development NAMESPACE FP8MoE:: DESTINATION ${FP8MOE_CMAKE_DIR} COMPONENT development)
  endif()

  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/FP8MoEConfig.cmake.in
    ${PROJECT_BINARY_DIR}/cmake/FP8MoEConfig.cmake INSTALL_DESTINATION ${FP8MOE_CMAKE_DIR})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/FP8MoEConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/cmake/FP8MoEConfig.cmake ${PROJECT_BINARY_DIR}/cmake/FP8MoEConfigVersion.cmake
    DESTINATION ${FP8MOE_CMAKE_DIR} COMPONENT runtime)
  # The prefix is that of `cmake --install --prefix`, which nobody knows yet.
  file(RELATIVE_PATH fp8moe_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/fp8moe.pc.in ${PROJECT_BINARY_DIR}/cmake/fp8moe.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/cmake/fp8moe.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT runtime)
endfunction()
