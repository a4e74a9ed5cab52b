# What `make install` puts where: headers, the libraries, the programs, manual pages, quipu.pc and
# the CMake package. Everything is relocatable: quipu.pc and quipuConfig.cmake use relative places.
# Components are Debian packages (tools/deb.py): library, dev, program, server.
include(CMakePackageConfigHelpers)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        COMPONENT dev FILES_MATCHING PATTERN "*.h")
file(GLOB quipu_man_program CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/man/quipu*.1")
file(GLOB quipu_man_dev CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/man/entgen.1"
     "${PROJECT_SOURCE_DIR}/docs/man/*.3")
foreach(component program dev)
  foreach(page IN LISTS quipu_man_${component})
    string(REGEX REPLACE ".*\\.([13])$" "\\1" section "${page}")
    install(FILES "${page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}"
            COMPONENT ${component})
  endforeach()
endforeach()
if(TARGET entgen)
  install(TARGETS entgen RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT dev)
endif()
if(TARGET quipu_program)
  install(TARGETS quipu_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)
endif()

if(TARGET quipu)
  install(TARGETS quipu quipu_static EXPORT quipuTargets
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library NAMELINK_COMPONENT dev
          ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev)
  set(quipu_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/quipu")
  install(EXPORT quipuTargets NAMESPACE quipu:: DESTINATION "${quipu_package_dir}" COMPONENT dev)
  configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/quipuConfig.cmake.in" "${PROJECT_BINARY_DIR}/quipuConfig.cmake"
    INSTALL_DESTINATION "${quipu_package_dir}" PATH_VARS CMAKE_INSTALL_BINDIR)
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/quipuConfigVersion.cmake"
                                   COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/quipuConfig.cmake"
                "${PROJECT_BINARY_DIR}/quipuConfigVersion.cmake"
          DESTINATION "${quipu_package_dir}" COMPONENT dev)

  # pkg-config computes ${pcfiledir}/../.. itself, so that a moved tree still works.
  file(RELATIVE_PATH quipu_pc_up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" quipu_pc_up "${quipu_pc_up}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/quipu.pc.in" "${PROJECT_BINARY_DIR}/quipu.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/quipu.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT dev)
  set(quipu_component_provider library)
  set(quipu_component_server server)
  foreach(name provider server) # the libraries beside libquipu
    if(TARGET quipu_${name})
      install(TARGETS quipu_${name} quipu_${name}_static EXPORT quipu_${name}Targets
              LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
                      COMPONENT ${quipu_component_${name}} NAMELINK_COMPONENT dev
              ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev)
      install(EXPORT quipu_${name}Targets NAMESPACE quipu:: DESTINATION "${quipu_package_dir}"
              COMPONENT dev)
      configure_file("${PROJECT_SOURCE_DIR}/cmake/quipu-${name}.pc.in"
                     "${PROJECT_BINARY_DIR}/quipu-${name}.pc" @ONLY)
      install(FILES "${PROJECT_BINARY_DIR}/quipu-${name}.pc"
              DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT dev)
    endif()
  endforeach()
endif()

# What the shells complete comes from the program's own table; a cross build cannot ask it.
if(TARGET quipu_program AND NOT CMAKE_CROSSCOMPILING)
  set(quipu_completions "${PROJECT_BINARY_DIR}/completions")
  file(MAKE_DIRECTORY "${quipu_completions}")
  foreach(shell bash zsh fish)
    install(CODE "execute_process(COMMAND \"$<TARGET_FILE:quipu_program>\" completion ${shell}
                  OUTPUT_FILE \"${quipu_completions}/${shell}\" COMMAND_ERROR_IS_FATAL ANY)"
            COMPONENT program)
  endforeach()
  install(FILES "${quipu_completions}/bash" RENAME quipu
          DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
          COMPONENT program)
  install(FILES "${quipu_completions}/zsh" RENAME _quipu
          DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions"
          COMPONENT program)
  install(FILES "${quipu_completions}/fish" RENAME quipu.fish
          DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d"
          COMPONENT program)
endif()
