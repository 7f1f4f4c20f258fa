# Headers, libraries, tools and docs; find_package(tutti) and tutti.pc.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tutti EXPORT tutti-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET tutti_kernels)
  install(TARGETS tutti_kernels LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tutti)
endif()
install(DIRECTORY include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(program IN ITEMS tutti-perf tutti-topo tutti-plan tutti-doctor tutti-train tutti-conformance)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  endif()
endforeach()

# tutti::mpi is a header helper: it brings what the MPI that the user found needs, so it is made in the config file.
install(EXPORT tutti-targets NAMESPACE tutti:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
configure_package_config_file(cmake/tutti-config.cmake.in ${CMAKE_BINARY_DIR}/tutti-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tutti-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tutti-config.cmake ${CMAKE_BINARY_DIR}/tutti-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)

# Relative, so that the installed tree may be moved: from LIBDIR/pkgconfig up to the prefix.
file(RELATIVE_PATH TUTTI_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/tutti.pc.in ${CMAKE_BINARY_DIR}/tutti.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
