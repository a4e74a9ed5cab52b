# Rooms, library and programs. Each room of layers.txt that has sources becomes the OBJECT library
# qp_<room>; libquipu is made of all of them but those apart; a room that does not exist yet is
# skipped.

# Rooms of libraries beside libquipu, which needs SQLite alone.
set(quipu_rooms_apart provider http mcp server)

# quipu_read_layers(): sets quipu_rooms and quipu_allow_<room> in the caller.
function(quipu_read_layers)
  set(path "${PROJECT_SOURCE_DIR}/layers.txt")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
  file(STRINGS "${path}" lines REGEX "^[a-z]")
  set(rooms "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([a-z_]+):(.*)$" matched "${line}")
    set(room "${CMAKE_MATCH_1}")
    string(STRIP "${CMAKE_MATCH_2}" allowed)
    if(allowed STREQUAL "(all)")
      set(allowed "${rooms}")
    else()
      string(REGEX REPLACE "[ \t]+" ";" allowed "${allowed}")
    endif()
    list(APPEND rooms "${room}")
    set(quipu_allow_${room} "${allowed}" PARENT_SCOPE)
  endforeach()
  set(quipu_rooms "${rooms}" PARENT_SCOPE)
endfunction()

# quipu_add_rooms(): the OBJECT libraries; sets quipu_rooms_built in the caller.
macro(quipu_add_rooms)
  quipu_read_layers()
  set(quipu_rooms_built "")
  foreach(room IN LISTS quipu_rooms)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${room}/*.c")
    if(room STREQUAL "provider" AND NOT CURL_FOUND)
      message(STATUS "quipu: no libcurl, so libquipu-provider is not built")
    endif()
    if(room MATCHES "^(net|provider|remote)$" AND NOT CURL_FOUND)
      set(sources "") # the headers of libcurl are needed; it is loaded when it is used
    endif()
    if(room STREQUAL "ent_postgres" AND NOT QUIPU_POSTGRES)
      message(STATUS "quipu: no libpq, so PostgreSQL is left out")
      set(sources "")
    endif()
    if(room STREQUAL "server" AND NOT quipu_libevent)
      message(STATUS "quipu: no libevent, so there is no HTTP server")
      set(sources "")
    endif()
    if(sources)
      add_library(qp_${room} OBJECT ${sources})
      quipu_compile(qp_${room})
      target_include_directories(qp_${room} PUBLIC "${PROJECT_SOURCE_DIR}/include"
                                                   "${PROJECT_SOURCE_DIR}/src")
      if(QUIPU_STATIC) # the linker sees through the rooms' borders; plain objects are there, too
        target_compile_options(qp_${room} PRIVATE -flto=auto -ffat-lto-objects)
      endif()
      if(room MATCHES "^(ent_sqlite|front)$") # front includes what ent_sqlite gives it
        target_link_libraries(qp_${room} PRIVATE SQLite::SQLite3)
      endif()
      if(room STREQUAL "ent_postgres")
        target_include_directories(qp_${room} SYSTEM PRIVATE "${QUIPU_LIBPQ_INCLUDE}")
      endif()
      if(room STREQUAL "front" AND QUIPU_POSTGRES)
        target_compile_definitions(qp_${room} PRIVATE QUIPU_POSTGRES)
      endif()
      if(room STREQUAL "net")
        target_include_directories(qp_${room} SYSTEM PRIVATE ${CURL_INCLUDE_DIRS})
      endif()
      if(room STREQUAL "front" AND TARGET qp_remote)
        target_compile_definitions(qp_${room} PRIVATE QUIPU_REMOTE)
      endif()
      if(room STREQUAL "server")
        target_include_directories(qp_${room} SYSTEM PRIVATE "${QUIPU_LIBEVENT_INCLUDE}")
        if(quipu_tls)
          target_compile_definitions(qp_${room} PRIVATE QP_SERVER_TLS)
          target_include_directories(qp_${room} SYSTEM PRIVATE "${QUIPU_OPENSSL_INCLUDE}")
        else()
          message(STATUS "quipu: no libevent_openssl, so the HTTP server has no TLS")
        endif()
        quipu_add_page(qp_${room})
      endif()
      if(NOT room IN_LIST quipu_rooms_apart)
        list(APPEND quipu_rooms_built ${room})
      endif()
    endif()
  endforeach()
endmacro()

# quipu_add_page(target): the files of web/ as a source of C for the server.
function(quipu_add_page target)
  file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/web/*.*")
  set(out "${PROJECT_BINARY_DIR}/page_assets.c")
  set(script "${PROJECT_SOURCE_DIR}/cmake/embed.cmake")
  add_custom_command(
    OUTPUT "${out}"
    COMMAND "${CMAKE_COMMAND}" -D "FILES=${files}" -D "OUT=${out}" -P "${script}"
    DEPENDS ${files} "${script}"
    VERBATIM)
  target_sources(${target} PRIVATE "${out}")
endfunction()

# quipu_add_amalgamation(): qp_amalgamation, all rooms as one compiled quipu.c.
function(quipu_add_amalgamation)
  find_program(QUIPU_PYTHON NAMES python3 REQUIRED)
  set(folder "${PROJECT_BINARY_DIR}/amalgamation")
  set(tool "${PROJECT_SOURCE_DIR}/tools/amalgamate.py")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.[ch]"
       "${PROJECT_SOURCE_DIR}/include/*.h")
  add_custom_command(
    OUTPUT "${folder}/quipu.c" "${folder}/quipu.h"
    COMMAND "${QUIPU_PYTHON}" "${tool}" "${folder}"
    DEPENDS ${sources} "${tool}" "${PROJECT_SOURCE_DIR}/layers.txt"
    VERBATIM)
  # None of our flags: a user's compiler line has none either.
  add_library(qp_amalgamation OBJECT "${folder}/quipu.c")
endfunction()

# quipu_write_version_script(path symbols): tools/<symbols> ("name since" a line) as a linker map.
function(quipu_write_version_script path symbols)
  set(list_path "${PROJECT_SOURCE_DIR}/tools/${symbols}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list_path}")
  file(STRINGS "${list_path}" lines REGEX "^[a-z]")
  set(nodes "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([a-z0-9_]+) ([0-9]+\\.[0-9]+)$" matched "${line}")
    if(NOT matched)
      message(FATAL_ERROR "tools/${symbols}: expected \"name since\", found \"${line}\"")
    endif()
    list(APPEND nodes "${CMAKE_MATCH_2}")
    string(APPEND body_${CMAKE_MATCH_2} "    ${CMAKE_MATCH_1};\n")
  endforeach()
  list(REMOVE_DUPLICATES nodes)
  list(SORT nodes COMPARE NATURAL)
  set(text "")
  set(before "")
  foreach(node IN LISTS nodes)
    if(before STREQUAL "")
      string(APPEND text "QUIPU_${node} {\n  global:\n${body_${node}}  local:\n    *;\n};\n")
    else()
      string(APPEND text "QUIPU_${node} {\n  global:\n${body_${node}}} QUIPU_${before};\n")
    endif()
    set(before "${node}")
  endforeach()
  file(CONFIGURE OUTPUT "${path}" CONTENT "${text}" @ONLY)
endfunction()

# quipu_add_library(): libquipu, shared (target quipu) and static (target quipu_static).
function(quipu_add_library)
  set(objects "")
  foreach(room IN LISTS quipu_rooms_built)
    list(APPEND objects $<TARGET_OBJECTS:qp_${room}>)
  endforeach()
  if(NOT objects)
    return()
  endif()
  set(map "${PROJECT_BINARY_DIR}/quipu.map")
  quipu_write_version_script("${map}" symbols.txt)
  add_library(quipu SHARED ${objects})
  add_library(quipu_static STATIC ${objects})
  set_target_properties(quipu PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${quipu_soversion}
                                         LINK_DEPENDS "${map}")
  set_target_properties(quipu_static PROPERTIES OUTPUT_NAME quipu)
  target_link_options(quipu PRIVATE "LINKER:--version-script=${map}" ${quipu_instrument})
  if(NOT QUIPU_SANITIZE AND NOT QUIPU_LIBFUZZER)
    # An undefined symbol must show when the library is linked, not when a program starts.
    target_link_options(quipu PRIVATE "LINKER:-z,defs")
  endif()
  target_link_options(quipu_static INTERFACE ${quipu_instrument})
  foreach(target quipu quipu_static)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(${target} PRIVATE SQLite::SQLite3 Threads::Threads)
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS}) # decision 14: libraries on demand
    target_include_directories(
      ${target} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                       "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    add_library(quipu::${target} ALIAS ${target})
  endforeach()
endfunction()

# quipu_add_beside(name ROOMS room... COPIES room... LINK library...): libquipu-<name>, shared
# (target quipu_<name>) and static (quipu_<name>_static), where its rooms are built. The shared one
# carries a hidden copy of the rooms it stands on, but for the allocator, which is libquipu's
# (src/base/shared).
function(quipu_add_beside name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ROOMS;COPIES;LINK")
  set(own "")
  foreach(room IN LISTS arg_ROOMS)
    if(TARGET qp_${room})
      list(APPEND own $<TARGET_OBJECTS:qp_${room}>)
    endif()
  endforeach()
  if(NOT own OR NOT TARGET quipu)
    return()
  endif()
  set(copies "")
  foreach(room IN LISTS arg_COPIES)
    list(APPEND copies $<TARGET_OBJECTS:qp_${room}>)
  endforeach()
  list(TRANSFORM copies REPLACE "^(.*qp_base>)$" "$<FILTER:\\1,EXCLUDE,/alloc[.]c>")
  set(map "${PROJECT_BINARY_DIR}/quipu-${name}.map")
  quipu_write_version_script("${map}" symbols_${name}.txt)
  set(shared quipu_${name})
  add_library(${shared} SHARED "${PROJECT_SOURCE_DIR}/src/base/shared/alloc.c" ${own} ${copies})
  add_library(${shared}_static STATIC ${own})
  set_target_properties(${shared} PROPERTIES VERSION ${PROJECT_VERSION}
                                             SOVERSION ${quipu_soversion} LINK_DEPENDS "${map}")
  quipu_compile(${shared})
  target_link_options(${shared} PRIVATE "LINKER:--version-script=${map}")
  if(NOT QUIPU_SANITIZE AND NOT QUIPU_LIBFUZZER)
    target_link_options(${shared} PRIVATE "LINKER:-z,defs")
  endif()
  target_include_directories(${shared} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${shared} PUBLIC quipu PRIVATE ${arg_LINK} Threads::Threads)
  target_link_libraries(${shared}_static PUBLIC quipu_static PRIVATE ${arg_LINK})
  foreach(target ${shared} ${shared}_static)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME quipu-${name})
    add_library(quipu::${target} ALIAS ${target})
  endforeach()
endfunction()

# quipu_add_programs(): entgen, the quipu program, the examples and the bench, as far as they exist.
function(quipu_add_programs)
  set(front "${QUIPU_FRONT_BIN_DIR}")
  if(NOT front)
    set(front "${PROJECT_BINARY_DIR}/bin")
  endif()

  # entgen stands on base, ent (the canonical schema text) and ent_sqlite (--sql, import), never on
  # what it generates. Its parts are an OBJECT library for its own tests; only main.c is left out.
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/entgen/*.c")
  set(main "${PROJECT_SOURCE_DIR}/entgen/main.c")
  if(main IN_LIST sources AND TARGET qp_base)
    list(REMOVE_ITEM sources "${main}")
    add_executable(entgen "${main}")
    # As an archive: only what entgen needs of the rooms is linked.
    set(objects "")
    foreach(room base ent ent_sqlite)
      if(TARGET qp_${room})
        list(APPEND objects $<TARGET_OBJECTS:qp_${room}>)
      endif()
    endforeach()
    add_library(qp_entgen_rooms STATIC EXCLUDE_FROM_ALL ${objects})
    set_target_properties(qp_entgen_rooms PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(entgen PRIVATE qp_entgen_rooms)
    if(sources)
      add_library(qp_entgen OBJECT ${sources})
      quipu_compile(qp_entgen)
      target_include_directories(
        qp_entgen PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include"
                         "${PROJECT_SOURCE_DIR}/src")
      target_link_libraries(qp_entgen PRIVATE SQLite::SQLite3)
      target_sources(entgen PRIVATE $<TARGET_OBJECTS:qp_entgen>)
    endif()
    quipu_compile(entgen)
    target_include_directories(
      entgen PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include"
                     "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(entgen PRIVATE SQLite::SQLite3 Threads::Threads)
    set_target_properties(entgen PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${front}")
  endif()

  if(NOT TARGET quipu_static)
    return()
  endif()

  # The program and the examples see include/ only, as anybody's program would.
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/apps/quipu/*.c")
  if(sources)
    add_executable(quipu_program ${sources})
    quipu_compile(quipu_program)
    target_link_libraries(quipu_program PRIVATE quipu_static)
    set_target_properties(quipu_program PROPERTIES OUTPUT_NAME quipu RUNTIME_OUTPUT_DIRECTORY
                                                                     "${front}")
    # `quipu chat`, `mcp` and `serve` load their library when they run: no other verb waits for what
    # it needs. The static program cannot load any, and links what needs no shared library; that of
    # the Python package is one file, too, but for libcurl.
    if(TARGET qp_server)
      target_compile_definitions(quipu_program PRIVATE APP_HTTP)
    endif()
    if(QUIPU_STATIC OR QUIPU_WHOLE_PROGRAM)
      target_compile_definitions(quipu_program PRIVATE APP_SERVER_LINKED)
      target_link_libraries(quipu_program PRIVATE quipu_server_static)
      if(TARGET quipu_provider_static)
        target_compile_definitions(quipu_program PRIVATE APP_PROVIDER_LINKED)
        target_link_libraries(quipu_program PRIVATE quipu_provider_static)
      endif()
    else()
      foreach(name provider server)
        if(TARGET quipu_${name})
          string(TOUPPER "APP_${name}" definition)
          target_compile_definitions(
            quipu_program PRIVATE ${definition}="$<TARGET_SONAME_FILE_NAME:quipu_${name}>")
          add_dependencies(quipu_program quipu_${name})
        endif()
      endforeach()
      target_link_libraries(quipu_program PRIVATE ${CMAKE_DL_LIBS})
      # The old tag also holds where a sanitizer stands between dlopen() and its caller.
      target_link_options(quipu_program PRIVATE "LINKER:--disable-new-dtags")
      file(RELATIVE_PATH up "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
      set_target_properties(quipu_program PROPERTIES BUILD_RPATH "${PROJECT_BINARY_DIR}"
                                                     INSTALL_RPATH "$ORIGIN/${up}")
    endif()
  endif()
  foreach(example first_store own_provider remembers sub_agents)
    set(source "${PROJECT_SOURCE_DIR}/examples/${example}/${example}.c")
    if(EXISTS "${source}" AND TARGET qp_front)
      add_executable(${example} "${source}")
      quipu_compile(${example})
      target_link_libraries(${example} PRIVATE quipu_static)
      set_target_properties(${example} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                  "${PROJECT_BINARY_DIR}/bin")
    endif()
  endforeach()

  if(EXISTS "${PROJECT_SOURCE_DIR}/bench/CMakeLists.txt")
    add_subdirectory("${PROJECT_SOURCE_DIR}/bench" bench)
  else()
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.c")
    if(sources)
      add_executable(quipu_bench ${sources})
      quipu_compile(quipu_bench)
      target_include_directories(quipu_bench PRIVATE "${PROJECT_SOURCE_DIR}/src"
                                                     "${PROJECT_SOURCE_DIR}")
      target_link_libraries(quipu_bench PRIVATE quipu_static SQLite::SQLite3 Threads::Threads)
      set_target_properties(quipu_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                   "${PROJECT_BINARY_DIR}/bin")
    endif()
  endif()
endfunction()
