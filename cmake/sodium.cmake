# libsodium as the target sodium::sodium. The archive, because the binary is copied to nodes that have
# only libc. Also installed: a program that embeds regroup links it, too.
if(NOT TARGET sodium::sodium)
  find_library(REGROUP_SODIUM_ARCHIVE libsodium.a)
  find_path(REGROUP_SODIUM_INCLUDE sodium.h)
  if(NOT REGROUP_SODIUM_ARCHIVE OR NOT REGROUP_SODIUM_INCLUDE)
    message(FATAL_ERROR "regroup needs sodium.h and libsodium.a (Debian: libsodium-dev)")
  endif()
  add_library(sodium::sodium STATIC IMPORTED)
  set_target_properties(sodium::sodium PROPERTIES
    IMPORTED_LOCATION ${REGROUP_SODIUM_ARCHIVE}
    INTERFACE_INCLUDE_DIRECTORIES ${REGROUP_SODIUM_INCLUDE})
endif()
