# Tests. tests/<room>/test_*.c are cmocka programs that link the objects of that room and of the
# rooms layers.txt allows it, and no others; other folders (contract, crash, e2e) link everything.
# Labels: the folder; `thread` for test_*_thread.c (run under TSan); `long` for what has a long form
# (test_*_long.c, crash, fuzz), which QUIPU_LONG=1 in the environment turns on.
find_package(PkgConfig REQUIRED)
pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson)
find_program(QUIPU_PYTHON NAMES python3 REQUIRED)

# quipu_test_objects(folder ret): the object expressions that tests of this folder link.
function(quipu_test_objects folder ret)
  set(objects "")
  if(folder STREQUAL "entgen")
    set(rooms base ent ent_sqlite)
    if(TARGET qp_entgen)
      list(APPEND objects $<TARGET_OBJECTS:qp_entgen>)
    endif()
  elseif(folder STREQUAL "agent")
    set(rooms ${quipu_rooms_built} provider) # a turn is tried with a store, and over HTTP
  elseif(folder IN_LIST quipu_rooms AND NOT folder MATCHES "^(memory|mcp|server)$") # with a store
    set(rooms ${folder} ${quipu_allow_${folder}})
  elseif(QUIPU_AMALGAMATION)
    set(rooms amalgamation)
  else()
    set(rooms ${quipu_rooms_built})
  endif()
  if(folder MATCHES "^(mcp|fuzz|server)$")
    list(APPEND rooms mcp)
  endif()
  if(folder MATCHES "^(fuzz|server)$")
    list(APPEND rooms http)
  endif()
  if(folder STREQUAL "server")
    list(APPEND rooms server)
  endif()
  foreach(room IN LISTS rooms)
    if(TARGET qp_${room})
      list(APPEND objects $<TARGET_OBJECTS:qp_${room}>)
    endif()
  endforeach()
  set(${ret} "${objects}" PARENT_SCOPE)
endfunction()

# quipu_test_compile(target): what every test program is compiled and linked with.
function(quipu_test_compile target)
  quipu_compile(${target})
  target_compile_definitions(${target} PRIVATE QUIPU_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                               QUIPU_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_include_directories(
    ${target} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src"
                      "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE PkgConfig::cmocka PkgConfig::jansson SQLite::SQLite3
                                          Threads::Threads)
  if(QUIPU_POSTGRES)
    target_include_directories(${target} SYSTEM PRIVATE "${QUIPU_LIBPQ_INCLUDE}")
    target_compile_definitions(${target} PRIVATE QUIPU_POSTGRES)
    target_link_libraries(${target} PRIVATE pq)
  endif()
endfunction()

# quipu_test_register(name folder labels command...): one CTest entry with the house environment.
function(quipu_test_register name folder labels)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  set(environment "QUIPU_SOURCE_DIR=${PROJECT_SOURCE_DIR}" "QUIPU_BINARY_DIR=${PROJECT_BINARY_DIR}"
                  "QUIPU_CC=${CMAKE_C_COMPILER}")
  if(TARGET entgen)
    list(APPEND environment "QUIPU_ENTGEN=$<TARGET_FILE:entgen>")
  endif()
  set_tests_properties(
    ${name} PROPERTIES LABELS "${folder};${labels}" SKIP_RETURN_CODE 77 ENVIRONMENT
                                                                       "${environment}")
endfunction()

# What runs on every engine; the rest is about SQLite, its files, or no engine at all.
set(quipu_tests_of_every_engine
    agent.context agent.context_hostile agent.context_lines agent.observe_kill agent.observe_thread
    agent.turn_recall
    contract.adk_answer contract.adk_child contract.adk_event contract.adk_live
    contract.adk_live_thread contract.adk_rules contract.adk_service contract.adk_snapshot
    contract.batch_thread contract.chunks contract.crud contract.eager contract.key contract.older
    contract.order contract.quipu_schema contract.rule contract.search contract.session_cache
    contract.session_cache_thread contract.store_call contract.store_cap contract.store_close_thread
    contract.store_compact contract.store_copy_thread
    contract.store_corruption_long contract.store_erase contract.store_expiry
    contract.store_expiry_thread contract.store_export contract.store_export_encrypted
    contract.store_factor contract.store_fields
    contract.store_fork
    contract.store_fork_model contract.store_fork_thread contract.store_group_thread
    contract.store_hash_chain contract.store_hash_model
    contract.store_job contract.store_list contract.store_log
    contract.store_log_thread
    contract.store_memory contract.store_memory_edit contract.store_memory_erase
    contract.store_memory_forget contract.store_memory_hostile contract.store_memory_limits
    contract.store_memory_model
    contract.store_memory_run
    contract.store_memory_run_thread
    contract.store_memory_thread contract.store_message contract.store_message_parse
    contract.store_model contract.store_older contract.store_pool contract.store_purge
    contract.store_recall
    contract.store_recall_fixture contract.store_recall_memory contract.store_recall_model
    contract.store_rekey
    contract.store_search
    contract.store_search_index
    contract.store_search_query contract.store_search_scope contract.store_search_thread
    contract.store_session
    contract.store_tail contract.store_tail_thread contract.store_title contract.store_verify
    contract.store_artifact contract.store_settings contract.store_state contract.store_usage
    contract.store_wait_thread
    contract.store_vector
    contract.store_window
    contract.tool_pairs contract.tx contract.where crash.reindex_kill
    mcp.resource mcp.scope mcp.tools)

# quipu_test_on_postgres(name folder labels target): the same program on PostgreSQL. One server
# serves the whole run; every store is a schema of its own.
function(quipu_test_on_postgres name folder labels target)
  set(server "${PROJECT_BINARY_DIR}/pg-server")
  if(NOT TEST pg.start)
    foreach(verb start stop)
      quipu_test_register(pg.${verb} pg "" bash "${PROJECT_SOURCE_DIR}/tests/lib/pg.sh" ${verb}
                          "${server}")
    endforeach()
    set_tests_properties(pg.start PROPERTIES FIXTURES_SETUP pg)
    set_tests_properties(pg.stop PROPERTIES FIXTURES_CLEANUP pg)
  endif()
  if(folder MATCHES "postgres$")
    set(entry ${name})
  else()
    set(entry ${name}.pg)
    quipu_test_register(${entry} ${folder} "${labels};pg" ${target})
  endif()
  set_property(TEST ${entry} APPEND PROPERTY ENVIRONMENT "QUIPU_TEST_PG=${server}/uri")
  set_tests_properties(${entry} PROPERTIES FIXTURES_REQUIRED pg)
  if(entry STREQUAL "postgres.hot")
    # An old transaction anywhere in the server keeps it from reusing a page's space.
    set_tests_properties(${entry} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

# What also runs on stores behind a server of quipu: the calls that a remote store has.
set(quipu_tests_of_a_server
    agent.context agent.context_hostile agent.context_lines
    contract.adk_answer contract.adk_live contract.adk_rules contract.adk_service
    contract.adk_event contract.adk_live_thread contract.adk_snapshot contract.store_artifact
    contract.store_compact contract.store_log contract.store_memory contract.store_memory_edit
    contract.store_settings contract.store_state
    contract.store_usage contract.tool_pairs
    contract.store_call contract.store_fork contract.store_list contract.store_message
    contract.store_recall contract.store_recall_memory contract.store_search
    contract.store_search_query contract.store_session
    contract.store_tail contract.store_title contract.store_window)

# What also runs on the engine of tests/engine_strict, which holds src/ent to the rules of the seam:
# some seconds of each kind. The others pass by hand: QUIPU_TEST_ENGINE=strict and the program. But
# for contract.store_older, which copies files by their names.
set(quipu_tests_of_the_strict_engine
    contract.adk_service contract.chunks contract.crud contract.eager contract.key contract.order
    contract.quipu_schema contract.rule contract.search contract.session_cache contract.store_call
    contract.store_erase contract.store_fork_thread contract.store_group_thread
    contract.store_model contract.store_search contract.store_search_thread contract.store_session
    contract.store_tail_thread contract.store_verify contract.tx)

# quipu_test_objects_strict(objects ret): the same objects with a table of engines that has one more
# (tests/engine_strict/strict.c instead of src/front/engines.c).
function(quipu_test_objects_strict objects ret)
  add_library(t_engine_strict OBJECT "${PROJECT_SOURCE_DIR}/tests/engine_strict/strict.c")
  quipu_test_compile(t_engine_strict)
  list(FILTER objects EXCLUDE REGEX "qp_front>$")
  list(APPEND objects "$<FILTER:$<TARGET_OBJECTS:qp_front>,EXCLUDE,/engines[.]c>"
       $<TARGET_OBJECTS:t_engine_strict>)
  set(${ret} "${objects}" PARENT_SCOPE)
endfunction()

# What also runs on the portable form of src/base/port.h, which macOS uses: threads, files that are
# created or swapped, and readers that poll for commits of other processes.
set(quipu_tests_of_the_portable_form
    base.latch_thread base.uuid_thread store.queue_thread ent_sqlite.fork ent_sqlite.open
    contract.store_close_thread contract.store_encrypt contract.store_group_thread
    contract.store_pool contract.store_tail_thread)

# quipu_test_objects_portable(objects ret): the same objects, with the sources that have a form for
# Linux (#if QP_LINUX) compiled in the other one.
function(quipu_test_objects_portable objects ret)
  foreach(room base ent_sqlite)
    file(GLOB sources "${PROJECT_SOURCE_DIR}/src/${room}/*.c")
    set(twofold "")
    set(names "")
    foreach(source IN LISTS sources)
      file(STRINGS "${source}" found REGEX "^#if QP_LINUX" LIMIT_COUNT 1)
      if(found)
        get_filename_component(name "${source}" NAME_WE)
        list(APPEND twofold "${source}")
        list(APPEND names "${name}")
      endif()
    endforeach()
    list(JOIN names "|" names)
    if(NOT TARGET t_portable_${room})
      add_library(t_portable_${room} OBJECT ${twofold})
      quipu_compile(t_portable_${room})
      target_compile_definitions(t_portable_${room} PRIVATE QUIPU_PORTABLE)
      target_include_directories(t_portable_${room} PRIVATE "${PROJECT_SOURCE_DIR}/include"
                                                            "${PROJECT_SOURCE_DIR}/src")
    endif()
    set(room_objects "$<TARGET_OBJECTS:qp_${room}>")
    if(room_objects IN_LIST objects)
      list(REMOVE_ITEM objects "${room_objects}")
      list(APPEND objects "$<FILTER:${room_objects},EXCLUDE,/(${names})[.]c>"
           $<TARGET_OBJECTS:t_portable_${room}>)
    endif()
  endforeach()
  set(${ret} "${objects}" PARENT_SCOPE)
endfunction()

# What also runs on encrypted stores: crashes, faults, power cuts, and many threads and processes.
set(quipu_tests_encrypted
    crash.adk_unknown crash.batch crash.faults crash.kill crash.memory crash.openers
    crash.purge_kill crash.reindex_kill crash.session_cache_kill crash.store_faults
    crash.store_faults_maintain
    crash.store_kill_long crash.store_power crash.store_processes crash.store_sync
    contract.store_fork contract.store_group_thread
    contract.store_model contract.store_search contract.store_session contract.store_tail
    contract.store_tail_thread)

# quipu_test_encrypted(name folder labels target): the same program, whose stores get a key
# (tests/encrypted/keys.c) when the environment asks for it.
function(quipu_test_encrypted name folder labels target)
  if(NOT TARGET t_encrypted)
    add_library(t_encrypted OBJECT "${PROJECT_SOURCE_DIR}/tests/encrypted/keys.c")
    quipu_test_compile(t_encrypted)
  endif()
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:t_encrypted>)
  foreach(function qp_sqlite_open ent_sqlite_open sqlite3_open sqlite3_open_v2)
    target_link_options(${target} PRIVATE "LINKER:--wrap=${function}")
  endforeach()
  quipu_test_register(${name}.encrypted ${folder} "${labels};encrypted" ${target})
  set_property(TEST ${name}.encrypted APPEND PROPERTY ENVIRONMENT "QUIPU_TEST_ENCRYPTED=1")
endfunction()

# quipu_add_test_folder(folder): every test_*.c there; its other sources (and gen/) are helpers.
function(quipu_add_test_folder folder)
  set(root "${PROJECT_SOURCE_DIR}/tests/${folder}")
  file(GLOB tests CONFIGURE_DEPENDS "${root}/test_*.c")
  file(GLOB helpers CONFIGURE_DEPENDS "${root}/*.c" "${root}/gen/*.c")
  list(FILTER helpers EXCLUDE REGEX "/test_[^/]*\\.c$")
  if(QUIPU_AMALGAMATION)
    list(FILTER helpers EXCLUDE REGEX "/pg_faults\\.c$") # it is about a room that is not in it
  endif()
  if(folder STREQUAL "agent" AND TARGET qp_provider)
    list(APPEND helpers "${PROJECT_SOURCE_DIR}/tests/provider/peer.c")
  elseif(folder STREQUAL "agent")
    list(FILTER tests EXCLUDE REGEX "/test_[^/]*http\\.c$") # without libcurl
  endif()
  if(QUIPU_SANITIZE OR QUIPU_AMALGAMATION OR NOT TARGET qp_server OR NOT TARGET qp_remote)
    list(FILTER tests EXCLUDE REGEX "/test_store_remote\\.c$") # it runs the program's server
  endif()
  if(NOT tests)
    return()
  endif()
  quipu_test_objects(${folder} objects)
  if(folder STREQUAL "contract" AND NOT QUIPU_AMALGAMATION)
    quipu_test_objects_strict("${objects}" objects)
  endif()
  if(helpers)
    add_library(t_${folder}_helpers OBJECT ${helpers})
    quipu_test_compile(t_${folder}_helpers)
    list(APPEND objects $<TARGET_OBJECTS:t_${folder}_helpers>)
  endif()
  foreach(source IN LISTS tests)
    get_filename_component(stem "${source}" NAME_WE)
    string(REGEX REPLACE "^test_" "" topic "${stem}")
    set(target t_${folder}_${topic})
    add_executable(${target} "${source}" ${objects} $<TARGET_OBJECTS:t_lib>)
    quipu_test_compile(${target})
    if(folder STREQUAL "server")
      target_link_libraries(${target} PRIVATE ${quipu_libevent})
    endif()
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                               "${PROJECT_BINARY_DIR}/tests/${folder}")
    set(labels "")
    if(topic MATCHES "(^|_)thread$")
      list(APPEND labels thread)
      add_dependencies(thread_tests ${target})
    endif()
    if(topic MATCHES "(^|_)long$" OR folder STREQUAL "crash")
      list(APPEND labels long)
    endif()
    if(folder STREQUAL "contract")
      add_dependencies(contract_tests ${target})
    elseif(folder MATCHES "^(base|ent|ent_sqlite|store)$")
      add_dependencies(room_tests ${target})
    endif()
    quipu_test_register(${folder}.${topic} ${folder} "${labels}" ${target})
    if(NOT APPLE AND NOT QUIPU_AMALGAMATION AND "${folder}.${topic}" IN_LIST quipu_tests_encrypted)
      quipu_test_encrypted(${folder}.${topic} ${folder} "${labels}" ${target})
    endif()
    if(QUIPU_POSTGRES AND (folder MATCHES "postgres$" OR ("${folder}.${topic}" IN_LIST
                                                          quipu_tests_of_every_engine)))
      quipu_test_on_postgres(${folder}.${topic} ${folder} "${labels}" ${target})
    endif()
    if(TARGET qp_server AND TARGET qp_remote AND NOT QUIPU_SANITIZE AND NOT QUIPU_AMALGAMATION
       AND "${folder}.${topic}" IN_LIST quipu_tests_of_a_server)
      quipu_test_register(${folder}.${topic}.server ${folder} "${labels}" ${target})
      set_property(TEST ${folder}.${topic}.server APPEND PROPERTY ENVIRONMENT
                                                          "QUIPU_TEST_ENGINE=server")
    endif()
    if(NOT QUIPU_AMALGAMATION AND "${folder}.${topic}" IN_LIST quipu_tests_of_the_strict_engine)
      quipu_test_register(${folder}.${topic}.strict ${folder} "${labels};strict" ${target})
      set_property(TEST ${folder}.${topic}.strict APPEND PROPERTY ENVIRONMENT
                                                                  "QUIPU_TEST_ENGINE=strict")
    endif()
    if(NOT QUIPU_AMALGAMATION AND NOT QUIPU_PORTABLE
       AND "${folder}.${topic}" IN_LIST quipu_tests_of_the_portable_form)
      quipu_test_objects_portable("${objects}" portable)
      add_executable(${target}_portable "${source}" ${portable} $<TARGET_OBJECTS:t_lib>)
      quipu_test_compile(${target}_portable)
      set_target_properties(${target}_portable PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                          "${PROJECT_BINARY_DIR}/tests/${folder}")
      if("thread" IN_LIST labels)
        add_dependencies(thread_tests ${target}_portable)
      endif()
      if(folder STREQUAL "contract")
        add_dependencies(contract_tests ${target}_portable)
      else()
        add_dependencies(room_tests ${target}_portable)
      endif()
      quipu_test_register(${folder}.${topic}.portable ${folder} "${labels};portable"
                          ${target}_portable)
    endif()
  endforeach()
endfunction()

# quipu_add_fuzz(): tests/fuzz/fuzz_*.c, with libFuzzer or with our small driver (driver.c).
function(quipu_add_fuzz)
  set(root "${PROJECT_SOURCE_DIR}/tests/fuzz")
  file(GLOB targets CONFIGURE_DEPENDS "${root}/fuzz_*.c")
  file(GLOB helpers CONFIGURE_DEPENDS "${root}/*.c")
  list(FILTER helpers EXCLUDE REGEX "/(fuzz_|test_)[^/]*\\.c$")
  if(QUIPU_LIBFUZZER)
    list(FILTER helpers EXCLUDE REGEX "/driver\\.c$")
  elseif(NOT helpers)
    return()
  endif()
  quipu_test_objects(fuzz objects)
  if(TARGET qp_entgen)
    list(APPEND objects $<TARGET_OBJECTS:qp_entgen>)
  endif()
  foreach(source IN LISTS targets)
    get_filename_component(stem "${source}" NAME_WE)
    string(REGEX REPLACE "^fuzz_" "" topic "${stem}")
    add_executable(${stem} "${source}" ${helpers} ${objects} $<TARGET_OBJECTS:t_lib>)
    quipu_test_compile(${stem})
    set_target_properties(${stem} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                             "${PROJECT_BINARY_DIR}/tests/fuzz")
    if(QUIPU_LIBFUZZER)
      target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
    else()
      quipu_test_register(fuzz.${topic} fuzz long ${stem})
    endif()
  endforeach()
endfunction()

# quipu_add_llm(): the test with a real model, for `make test-llm` alone.
function(quipu_add_llm)
  set(source "${PROJECT_SOURCE_DIR}/tests/llm/llm.c")
  if(TARGET quipu_provider_static AND EXISTS "${source}")
    add_executable(quipu_llm_test EXCLUDE_FROM_ALL "${source}" $<TARGET_OBJECTS:t_lib>)
    quipu_test_compile(quipu_llm_test)
    target_link_libraries(quipu_llm_test PRIVATE quipu_provider_static quipu_static)
    set_target_properties(quipu_llm_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                    "${PROJECT_BINARY_DIR}/tests/llm")
  endif()
endfunction()

# quipu_add_cluster(): the client of the cluster test, for `make test-cluster` alone.
function(quipu_add_cluster)
  set(source "${PROJECT_SOURCE_DIR}/tests/cluster/writer.c")
  if(TARGET qp_ent_postgres AND TARGET quipu_static AND EXISTS "${source}")
    add_executable(quipu_cluster_writer EXCLUDE_FROM_ALL "${source}")
    quipu_compile(quipu_cluster_writer)
    target_link_libraries(quipu_cluster_writer PRIVATE quipu_static Threads::Threads)
    set_target_properties(quipu_cluster_writer PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                          "${PROJECT_BINARY_DIR}/tests/cluster")
  endif()
endfunction()

# quipu_add_mcp_front(): the server's side of the conformance suite, for `make test-mcp` alone.
function(quipu_add_mcp_front)
  set(source "${PROJECT_SOURCE_DIR}/tests/mcp/conformance/front.c")
  if(TARGET quipu_server_static)
    add_executable(quipu_mcp_front EXCLUDE_FROM_ALL "${source}")
    quipu_compile(quipu_mcp_front)
    target_include_directories(quipu_mcp_front PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(quipu_mcp_front PRIVATE quipu_server_static quipu_static)
    set_target_properties(quipu_mcp_front PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                     "${PROJECT_BINARY_DIR}/tests/mcp")
  endif()
endfunction()

# quipu_add_scripts(): tests that are scripts; run from here so that CTest counts them.
function(quipu_add_scripts)
  set(root "${PROJECT_SOURCE_DIR}/tests")
  file(GLOB scripts CONFIGURE_DEPENDS "${root}/*/test_*.py" "${root}/*/test_*.sh")
  foreach(script IN LISTS scripts)
    get_filename_component(stem "${script}" NAME_WE)
    get_filename_component(folder "${script}" DIRECTORY)
    get_filename_component(folder "${folder}" NAME)
    string(REGEX REPLACE "^test_" "" topic "${stem}")
    if(script MATCHES "\\.py$")
      quipu_test_register(${folder}.${topic} ${folder} script "${QUIPU_PYTHON}" "${script}" -v)
    else()
      quipu_test_register(${folder}.${topic} ${folder} script bash "${script}")
    endif()
  endforeach()

  foreach(example first_store own_provider remembers sub_agents)
    if(TARGET ${example})
      quipu_test_register(e2e.${example} e2e "" "${PROJECT_SOURCE_DIR}/tools/run.sh"
                          $<TARGET_FILE:${example}>)
    endif()
  endforeach()

  if(TARGET qp_server AND TARGET qp_remote AND NOT QUIPU_SANITIZE)
    quipu_test_register(e2e.run_server e2e "" "${PROJECT_SOURCE_DIR}/tools/run_server.sh"
                        $<TARGET_FILE:quipu_program>)
  endif()

  # The page in a browser, in an environment of its own, too.
  # Two entries, which run side by side: what is long, and the rest.
  if(TARGET qp_server AND NOT QUIPU_SANITIZE)
    quipu_test_register(page.browser page "script;long" "${QUIPU_PYTHON}" "${root}/page/run.py"
                        --without large.)
    quipu_test_register(page.large page "script;long" "${QUIPU_PYTHON}" "${root}/page/run.py"
                        large.)
    set_tests_properties(page.browser page.large PROPERTIES TIMEOUT 3600)
  endif()

  # The server against the OpenAPI document that it serves, in an environment of its own.
  if(TARGET qp_server AND NOT QUIPU_SANITIZE)
    quipu_test_register(openapi.schemathesis openapi "script;long" "${QUIPU_PYTHON}"
                        "${root}/openapi/run.py")
    set_tests_properties(openapi.schemathesis PROPERTIES TIMEOUT 3600)
  endif()

  # The Python package in an environment of its own, which is made once and may take its time.
  if(NOT QUIPU_SANITIZE)
    quipu_test_register(python.package python "script;long" "${QUIPU_PYTHON}"
                        "${root}/python/run.py")
    set_tests_properties(python.package PROPERTIES TIMEOUT 7200)
    # ADK's own server and ours, asked the same; it runs in that environment, too.
    if(TARGET qp_server)
      quipu_test_register(python.adk_server python script "${QUIPU_PYTHON}"
                          "${root}/python/adk_server.py" -v)
      set_tests_properties(python.adk_server PROPERTIES DEPENDS python.package)
    endif()
    # Together they talk through the Python package of that environment, so one after the other.
    set_tests_properties(go.go go.lango go.together go.workers PROPERTIES TIMEOUT 7200)
    set_tests_properties(go.together go.workers PROPERTIES DEPENDS "python.package;go.go")
    if(TEST pg.start) # workers with a server of their own
      quipu_test_register(go.workers.pg go "script;pg" bash "${root}/go/test_workers.sh" pg)
      set_tests_properties(go.workers.pg PROPERTIES TIMEOUT 7200 DEPENDS "python.package;go.go")
    endif()
    set_tests_properties(node.node node.together npm.packages PROPERTIES TIMEOUT 3600)
    set_tests_properties(node.together PROPERTIES DEPENDS "python.package;go.go;node.node")
    set_tests_properties(npm.packages PROPERTIES DEPENDS node.node)
  endif()

  # The suites of the store on servers that are less kind; all of them in the long form only.
  if(QUIPU_POSTGRES AND NOT QUIPU_SANITIZE AND NOT QUIPU_AMALGAMATION)
    set(suites ${quipu_tests_of_every_engine})
    list(FILTER suites INCLUDE REGEX "\\.(store|adk)_")
    list(TRANSFORM suites REPLACE "^contract\\." "")
    quipu_test_register(postgres.sweep postgres "script;long" "${QUIPU_PYTHON}"
                        "${root}/postgres/sweep.py" --jobs 2 ${suites})
    set_tests_properties(postgres.sweep PROPERTIES TIMEOUT 7200 PROCESSORS 2)
  endif()

  # Must-not-compile: one entry a compiler; a compiler that is absent is a skip (exit 77).
  foreach(runner run.sh run.py)
    if(EXISTS "${root}/mustfail/${runner}")
      foreach(compiler gcc clang-19)
        quipu_test_register(mustfail.${compiler} mustfail "" "${root}/mustfail/${runner}"
                            ${compiler})
      endforeach()
    endif()
  endforeach()

  # Consumers build against a staging install, never against src/.
  if(TARGET quipu)
    quipu_test_register(house.stage house "" "${CMAKE_COMMAND}" --install "${PROJECT_BINARY_DIR}"
                        --prefix "${PROJECT_BINARY_DIR}/stage")
    set_tests_properties(house.stage PROPERTIES FIXTURES_SETUP stage)
    if(EXISTS "${PROJECT_SOURCE_DIR}/README.md" AND NOT QUIPU_SANITIZE)
      quipu_test_register(house.readme_example house "" bash "${root}/house/readme_example.sh"
                          "${PROJECT_BINARY_DIR}/stage")
      set_tests_properties(house.readme_example PROPERTIES FIXTURES_REQUIRED stage)
      quipu_test_register(house.guide house script "${QUIPU_PYTHON}" "${root}/house/guide.py"
                          "${PROJECT_BINARY_DIR}/stage")
      set_tests_properties(house.guide PROPERTIES FIXTURES_REQUIRED stage PROCESSORS 2)
      if(TARGET quipu_server)
        quipu_test_register(house.packaging house "script;long" "${QUIPU_PYTHON}"
                            "${root}/house/packaging.py" -v)
        # Behind the fixture, not beside it: both install.
        set_tests_properties(house.packaging PROPERTIES FIXTURES_REQUIRED stage TIMEOUT 3600)
      endif()
      if(TEST pg.start)
        quipu_test_register(house.guide.pg house "script;pg" "${QUIPU_PYTHON}"
                            "${root}/house/guide.py" "${PROJECT_BINARY_DIR}/stage")
        set_property(TEST house.guide.pg APPEND PROPERTY
                     ENVIRONMENT "QUIPU_TEST_PG=${PROJECT_BINARY_DIR}/pg-server/uri")
        set_tests_properties(house.guide.pg PROPERTIES FIXTURES_REQUIRED "stage;pg")
      endif()
    endif()
  endif()
endfunction()

# What takes longest begins first, so that nothing long runs alone at the end. CTest knows the costs
# by itself only where it has run before.
set(quipu_tests_that_take_long
    python.package page.browser page.large crash.store_faults openapi.schemathesis
    contract.store_verify_nomem contract.store_corruption_long contract.store_copy_thread
    contract.store_copy_thread.pg contract.store_export contract.store_export.pg
    contract.store_verify contract.store_older contract.store_older.pg contract.store_message
    contract.store_memory_limits crash.encrypt e2e.encrypt
    contract.store_lango contract.rule.pg crash.store_faults_maintain postgres.batch_thread
    crash.store_faults.encrypted crash.store_faults_maintain.encrypted postgres.unresponsive go.go)

# quipu_add_tests(): everything above, for every folder of tests/.
function(quipu_add_tests)
  file(GLOB lib CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/lib/*.c")
  add_library(t_lib OBJECT ${lib})
  add_custom_target(thread_tests) # what the TSan stage builds
  add_custom_target(contract_tests) # what the cross stages build
  add_custom_target(room_tests) # what the stage of the big-endian processor builds, too
  quipu_test_compile(t_lib)
  file(GLOB folders CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/tests"
       "${PROJECT_SOURCE_DIR}/tests/*")
  foreach(folder IN LISTS folders)
    if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/tests/${folder}"
       AND NOT folder MATCHES "^(lib|fuzz|mustfail)$"
       AND (NOT folder STREQUAL "provider" OR TARGET qp_provider)
       AND (NOT folder STREQUAL "server" OR TARGET qp_server)
       AND (NOT folder MATCHES "postgres$" OR TARGET qp_ent_postgres))
      quipu_add_test_folder(${folder})
    endif()
  endforeach()
  quipu_add_fuzz()
  quipu_add_llm()
  quipu_add_cluster()
  quipu_add_mcp_front()
  quipu_add_scripts()
  foreach(name IN LISTS quipu_tests_that_take_long)
    if(TEST ${name})
      set_tests_properties(${name} PROPERTIES COST 100)
    endif()
  endforeach()
endfunction()
