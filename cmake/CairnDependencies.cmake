# Third parties, all from Debian 12 packages (scripts/install_dependencies.sh names them).
find_package(PkgConfig REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(prometheus-cpp CONFIG REQUIRED COMPONENTS core)
find_package(CLI11 CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(SQLITE3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# The Debian package of CAF has no CMake config file.
find_path(CAF_INCLUDE_DIR caf/config.hpp REQUIRED)
find_library(CAF_CORE_LIBRARY caf_core REQUIRED)
add_library(cairn_caf INTERFACE IMPORTED)
target_include_directories(cairn_caf SYSTEM INTERFACE ${CAF_INCLUDE_DIR})
target_link_libraries(cairn_caf INTERFACE ${CAF_CORE_LIBRARY})
