// The version comes from CMakeLists.txt, its only place.
#include "core/version.h"

namespace tutti::core {
std::string version() { return TUTTI_VERSION; }
}  // namespace tutti::core
