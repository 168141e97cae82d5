# How every target of the project is built: warnings, sanitizers, one library per room.
find_package(Threads REQUIRED)

add_library(cairn_options INTERFACE)
target_include_directories(cairn_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(cairn_options INTERFACE -Wall -Wextra -fno-omit-frame-pointer)
if(NOT CAIRN_GPU_CHECK)  # which is compiled by whatever a machine has
  target_compile_options(cairn_options INTERFACE -Werror)
endif()
target_link_libraries(cairn_options INTERFACE Threads::Threads)
# g++ 12 reports overlapping copies inside std::string operator+ that cannot happen (GCC bug 105651).
target_compile_options(cairn_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
if(CAIRN_SANITIZE)
  target_compile_options(cairn_options INTERFACE -fsanitize=${CAIRN_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(cairn_options INTERFACE -fsanitize=${CAIRN_SANITIZE})
  # The sanitizers' instrumentation makes g++ 12 see uninitialised reads that are not there.
  target_compile_options(cairn_options INTERFACE -Wno-maybe-uninitialized)
  if(CAIRN_SANITIZE MATCHES "thread")
    # g++ warns that fences are not modelled; the project uses none on its own.
    target_compile_options(cairn_options INTERFACE -Wno-tsan)
  endif()
endif()
# Failpoints and the Die message exist for tests; a release that is shipped leaves them out.
option(CAIRN_FAILPOINTS "Compile the failpoint table in" ON)
if(CAIRN_FAILPOINTS)
  target_compile_definitions(cairn_options INTERFACE CAIRN_FAILPOINTS_ENABLED=1)
endif()

# cairn_library(NAME FOLDERS folders... [EXCLUDE regex] [LINK targets...]): a static library from all .cpp files of the
# folders whose paths the regular expression does not match.
function(cairn_library name)
  cmake_parse_arguments(ARG "STRICT" "EXCLUDE" "FOLDERS;LINK;PRIVATE_LINK" ${ARGN})
  set(sources "")
  foreach(folder ${ARG_FOLDERS})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp ${CMAKE_SOURCE_DIR}/${folder}/*.S)
    if(ARG_EXCLUDE)
      list(FILTER found EXCLUDE REGEX "${ARG_EXCLUDE}")
    endif()
    list(APPEND sources ${found})
  endforeach()
  if(NOT sources)
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE cairn_options ${ARG_LINK})
    return()
  endif()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC cairn_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  if(ARG_STRICT)
    target_compile_options(${name} PRIVATE -Wconversion -Wno-sign-conversion)
  endif()
endfunction()
