# rooms(FILE): reads the list of rooms and their arrows (src/rooms.txt) and makes one static library of each room, linked to
# what it may use. REGROUP_ROOMS holds their names afterwards, in the order of the file.
function(rooms file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  string(REGEX REPLACE "#[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\n[ ]+" " " text "${text}")
  string(REGEX MATCHALL "[a-z/_]+:[^\n]*" lines "${text}")
  set(names)
  foreach(line ${lines})
    string(REGEX MATCH "^([a-z/_]+):[ ]*(.*)$" line "${line}")
    set(path ${CMAKE_MATCH_1})
    separate_arguments(uses UNIX_COMMAND "${CMAKE_MATCH_2}")
    string(REPLACE "/" "_" uses "${uses}")
    room(${path} USES ${uses})
    string(REPLACE "/" "_" name ${path})
    list(APPEND names ${name})
  endforeach()
  set(REGROUP_ROOMS ${names} PARENT_SCOPE)
endfunction()

# for_tests(TARGET FOLDER): not part of what is shipped; built by the target `tests`, into FOLDER.
add_custom_target(tests)
function(for_tests target folder)
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON RUNTIME_OUTPUT_DIRECTORY ${folder}
                        LIBRARY_OUTPUT_DIRECTORY ${folder})
  add_dependencies(tests ${target})
endfunction()

# precompile(TARGET): the headers that nearly every file includes are read once for all of them, and those of
# GoogleTest for all tests. Each file still names what it uses: dev/check reads it without this.
set(standard_headers <algorithm> <array> <chrono> <functional> <map> <memory> <optional> <set> <string> <string_view>
    <utility> <variant> <vector> <fmt/core.h> <tl/expected.hpp>)
file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cc "")
add_library(precompiled STATIC ${PROJECT_BINARY_DIR}/precompiled.cc)
target_precompile_headers(precompiled PRIVATE ${standard_headers})
add_library(precompiled_tests STATIC EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/precompiled.cc)
target_precompile_headers(precompiled_tests PRIVATE ${standard_headers} <gmock/gmock.h> <gtest/gtest.h>)
target_link_libraries(precompiled_tests PRIVATE GTest::gtest GTest::gmock)
# What a test itself does takes no time, and compiling it does. Not where sanitizers make it slow: the linker may take
# a test's copy of a template for all.
set(quick_to_compile $<$<CONFIG:Release>:-O0>)
target_compile_options(precompiled_tests PRIVATE ${quick_to_compile})
function(precompile target)
  if(target MATCHES "_test$")
    target_precompile_headers(${target} REUSE_FROM precompiled_tests)
  else()
    target_precompile_headers(${target} REUSE_FROM precompiled)
  endif()
endfunction()

# room(PATH USES ROOM...): one static library from every .cc of src/PATH, one test program from its
# *_test.cc, and for every *_fuzz.cc a program that replays the stored inputs (and, with
# REGROUP_FUZZ, the fuzzer itself). The tests of all rooms of a house are built by HOUSE_tests.
function(room path)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  string(REPLACE "/" "_" name ${path})
  string(REGEX REPLACE "/.*" "" house ${path})
  file(GLOB sources CONFIGURE_DEPENDS src/${path}/*.cc)
  set(tests ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_fuzz|/main)\\.cc$")

  # A room of headers alone, or of nothing but main.cc, has no archive.
  set(kind PUBLIC)
  if(sources)
    add_library(${name} STATIC ${sources})
    precompile(${name})
    if(REGROUP_UNITY AND NOT house STREQUAL sim)
      # The whole room in one (docs/decisions.md). The simulator names things of many rooms by their last name.
      set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    endif()
  else()
    add_library(${name} INTERFACE)
    set(kind INTERFACE)
  endif()
  if(house STREQUAL cli AND CMAKE_BUILD_TYPE STREQUAL "Release")
    # CLI11 is all templates, and none of it runs twice.
    target_compile_options(${name} PRIVATE -O1)
  endif()
  if(house STREQUAL sim)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_include_directories(${name} ${kind} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} ${kind} ${ARG_USES})

  if(tests AND NOT REGROUP_FUZZ)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${name} GTest::gtest GTest::gmock GTest::gtest_main)
    for_tests(${name}_test test)
    precompile(${name}_test)
    target_compile_options(${name}_test PRIVATE ${quick_to_compile})
    if(NOT TARGET ${house}_tests)
      add_custom_target(${house}_tests)
    endif()
    add_dependencies(${house}_tests ${name}_test)
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()

  foreach(fuzzer ${fuzzers})
    get_filename_component(target ${fuzzer} NAME_WE)
    string(REGEX REPLACE "_fuzz$" "" stem ${target})
    if(REGROUP_FUZZ)
      add_executable(${target} ${fuzzer})
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    else()
      set(target ${stem}_replay)
      add_executable(${target} ${fuzzer} ${PROJECT_SOURCE_DIR}/fuzz/replay.cc)
      add_test(NAME ${target} COMMAND ${target} ${PROJECT_SOURCE_DIR}/fuzz/${stem})
    endif()
    target_link_libraries(${target} PRIVATE ${name})
    for_tests(${target} test)
  endforeach()
endfunction()

# Users copy a small binary; whoever looks at a core file takes the symbols from beside it.
function(split_symbols target)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_OBJCOPY} --only-keep-debug $<TARGET_FILE:${target}> $<TARGET_FILE:${target}>.debug
    COMMAND ${CMAKE_OBJCOPY} --strip-all --add-gnu-debuglink=$<TARGET_FILE:${target}>.debug
            $<TARGET_FILE:${target}>
    VERBATIM)
endfunction()
