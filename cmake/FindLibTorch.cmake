# LibTorch from an installed `torch` wheel, without the wheel's own TorchConfig.cmake (which demands a CUDA toolkit).
#
# Input:   TUTTI_LIBTORCH  folder of the wheel (the one that holds include/ and lib/); else the environment variable
#                          of that name; else the torch of .deps/venv.
# Targets: LibTorch::torch (c10 and torch_cpu; of a CUDA wheel no more either: nothing here calls torch_cuda yet, whose
#          470 MB every rank would map)
# Output:  LibTorch_VERSION, LibTorch_ROOT
set(_hint "${TUTTI_LIBTORCH}")
if(NOT _hint AND DEFINED ENV{TUTTI_LIBTORCH})
  set(_hint "$ENV{TUTTI_LIBTORCH}")
endif()
if(NOT _hint)
  file(GLOB _candidates ${PROJECT_SOURCE_DIR}/.deps/venv/lib/python3*/site-packages/torch)
  list(APPEND _candidates "")
  list(GET _candidates 0 _hint)
endif()

find_path(LibTorch_INCLUDE_DIR ATen/ATen.h HINTS ${_hint}/include NO_DEFAULT_PATH)
find_library(LibTorch_c10 c10 HINTS ${_hint}/lib NO_DEFAULT_PATH)
find_library(LibTorch_cpu torch_cpu HINTS ${_hint}/lib NO_DEFAULT_PATH)
find_library(LibTorch_gomp NAMES libgomp.so.1 HINTS ${_hint}/lib NO_DEFAULT_PATH)
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_c10 LibTorch_cpu LibTorch_gomp)
if(EXISTS "${_hint}/version.py")
  file(STRINGS "${_hint}/version.py" _line REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" LibTorch_VERSION "${_line}")
endif()
set(LibTorch_ROOT "${_hint}")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_c10 LibTorch_cpu LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "Run scripts/bootstrap.sh, or set TUTTI_LIBTORCH to the folder of an installed torch wheel.")

if(LibTorch_FOUND AND NOT TARGET LibTorch::torch)
  add_library(LibTorch::torch INTERFACE IMPORTED)
  if(TARGET fmt::fmt)
    # The wheel carries another version of {fmt} in its include folder; the one that is linked with must win.
    get_target_property(_fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
    set(_first ${PROJECT_BINARY_DIR}/include-first)
    file(MAKE_DIRECTORY ${_first})
    file(CREATE_LINK ${_fmt_include}/fmt ${_first}/fmt SYMBOLIC)
    target_include_directories(LibTorch::torch INTERFACE ${_first})
  endif()
  target_include_directories(LibTorch::torch SYSTEM INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  target_compile_definitions(LibTorch::torch INTERFACE USE_DISTRIBUTED USE_C10D)
  target_link_libraries(LibTorch::torch INTERFACE ${LibTorch_cpu} ${LibTorch_c10})
  # at::parallel_for is inline, and one thread's unless the compiler speaks OpenMP. The wheel's own runtime, so that there is
  # one pool of threads.
  target_compile_options(LibTorch::torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
  if(LibTorch_gomp)
    target_link_libraries(LibTorch::torch INTERFACE ${LibTorch_gomp})
  else()
    target_link_options(LibTorch::torch INTERFACE -fopenmp)
  endif()
endif()
