include(CMakeFindDependencyMacro)
find_dependency(Threads)

# The public headers return tl::expected.
find_path(REGROUP_TL_EXPECTED tl/expected.hpp)
if(NOT REGROUP_TL_EXPECTED)
  set(regroup_FOUND FALSE)
  set(regroup_NOT_FOUND_MESSAGE "regroup needs tl/expected.hpp (Debian: libexpected-dev)")
  return()
endif()

include(${CMAKE_CURRENT_LIST_DIR}/sodium.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/regroupTargets.cmake)
