# room(PATH USES ROOM...): one static library from every .cc of src/PATH, one test program from its
# *_test.cc, and for every *_fuzz.cc a program that replays the stored inputs (and, with
# REGROUP_FUZZ, the fuzzer itself).
function(room path)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  string(REPLACE "/" "_" name ${path})
  file(GLOB sources CONFIGURE_DEPENDS src/${path}/*.cc)
  set(tests ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_fuzz|/main)\\.cc$")

  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PUBLIC ${ARG_USES})

  if(tests AND NOT REGROUP_FUZZ)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${name} GTest::gtest GTest::gmock GTest::gtest_main)
    set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY test)
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
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY test)
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
