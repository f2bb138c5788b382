// Names of axes.
#include "mesh/axis.h"

namespace tutti::mesh {

std::string_view name(Axis axis) {
  switch (axis) {
    case Axis::Dp:
      return "dp";
    case Axis::Tp:
      return "tp";
    case Axis::Pp:
      return "pp";
    case Axis::Cp:
      return "cp";
    case Axis::Ep:
      return "ep";
  }
  return "?";
}

std::optional<Axis> axis_from_name(std::string_view text) {
  for (const Axis axis : kAxes) {
    if (name(axis) == text) return axis;
  }
  return std::nullopt;
}

std::string name(AxisSet axes) {
  std::string text;
  for (const Axis axis : kAxes) {
    if (!axes.contains(axis)) continue;
    if (!text.empty()) text += '+';
    text += name(axis);
  }
  return text.empty() ? "none" : text;
}

}  // namespace tutti::mesh
