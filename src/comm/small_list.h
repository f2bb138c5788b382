// A list of fixed length that asks for memory only beyond 16 elements: one entry per rank, made in
// every operation.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace tutti::comm {

template <class T>
class SmallList {
 public:
  SmallList() = default;
  explicit SmallList(std::size_t size) { resize(size); }
  /// Elements have no particular values afterwards.
  void resize(std::size_t size) {
    size_ = size;
    if (size > kFew) many_.resize(size);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T* data() { return size_ > kFew ? many_.data() : few_.data(); }
  [[nodiscard]] const T* data() const { return size_ > kFew ? many_.data() : few_.data(); }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  [[nodiscard]] std::span<const T> all() const { return {data(), size_}; }
  [[nodiscard]] std::span<const T> first(std::size_t count) const { return {data(), count}; }

 private:
  static constexpr std::size_t kFew = 16;
  std::size_t size_ = 0;
  std::array<T, kFew> few_;
  std::vector<T> many_;
};

}  // namespace tutti::comm
