# How every file of the tree is compiled: the language level, the warnings, the instrumentation.
# Set before any target is made, so that nothing escapes it.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
endif()
# -O2: -O3 buys nothing measurable here and doubles the size of hot loops.
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")

# Strict ISO C hides POSIX; the base room needs clocks, threads and files.
set(quipu_definitions _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE)
if(QUIPU_PORTABLE)
  list(APPEND quipu_definitions QUIPU_PORTABLE)
endif()

set(quipu_warnings
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wformat=2 -Wundef -Wvla -Wcast-qual)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND quipu_warnings -Wimplicit-fallthrough=5)
else()
  list(APPEND quipu_warnings -Wimplicit-fallthrough)
endif()
if(QUIPU_WERROR)
  list(APPEND quipu_warnings -Werror)
endif()

set(quipu_instrument "")
if(QUIPU_SANITIZE)
  list(APPEND quipu_instrument -fsanitize=${QUIPU_SANITIZE} -fno-sanitize-recover=all
       -fno-omit-frame-pointer -g)
endif()
if(QUIPU_COVERAGE)
  list(APPEND quipu_instrument --coverage)
endif()
if(QUIPU_LIBFUZZER)
  list(APPEND quipu_instrument -fsanitize=fuzzer-no-link)
endif()

# quipu_compile(target): the house rules for one target of this project.
function(quipu_compile target)
  target_compile_definitions(${target} PRIVATE ${quipu_definitions})
  target_compile_options(${target} PRIVATE ${quipu_warnings} ${quipu_instrument})
  target_link_options(${target} PRIVATE ${quipu_instrument})
endfunction()
