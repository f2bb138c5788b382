// The axes along which a job is split. "axis" is a mesh word; a tensor has a "dim".
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::mesh {

enum class Axis : std::uint8_t { Dp, Tp, Pp, Cp, Ep };

inline constexpr std::array kAxes = {Axis::Dp, Axis::Tp, Axis::Pp, Axis::Cp, Axis::Ep};

/// "dp", "tp", ...
std::string_view name(Axis axis);
std::optional<Axis> axis_from_name(std::string_view name);

/// A small set of axes.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) bits_ |= bit(axis);
  }
  [[nodiscard]] constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) {
    a.bits_ |= b.bits_;
    return a;
  }
  friend constexpr bool operator==(AxisSet, AxisSet) = default;

 private:
  static constexpr std::uint8_t bit(Axis axis) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(axis));
  }
  std::uint8_t bits_ = 0;
};

/// "dp+cp"; "none" if empty.
std::string name(AxisSet axes);

}  // namespace tutti::mesh
