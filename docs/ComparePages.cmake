# cmake -DGENERATED=file -DCOMMITTED=file -P ComparePages.cmake
# Fails when the pages differ.

set(committed "")
if(EXISTS ${COMMITTED})
  file(READ ${COMMITTED} committed)
endif()
file(READ ${GENERATED} generated)
if(NOT generated STREQUAL committed)
  message(FATAL_ERROR
    "${COMMITTED} differs from what ODS generates now. Run: ninja fp8moe-docs")
endif()
