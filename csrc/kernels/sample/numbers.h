// Growable array of int64 numbers that is not zero-initialized.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace cpuaccel::kernels {

class Numbers {
 public:
  int64_t size() const { return size_; }
  size_t bytes() const { return static_cast<size_t>(capacity_) * sizeof(int64_t); }
  int64_t* data() { return data_.get(); }
  const int64_t* data() const { return data_.get(); }
  int64_t operator[](int64_t i) const { return data_[i]; }
  int64_t& operator[](int64_t i) { return data_[i]; }

  // Appends `count` uninitialized numbers and returns a pointer to the first of them.
  int64_t* grow(int64_t count) {
    reserve(size_ + count);
    size_ += count;
    return data() + size_ - count;
  }
  void push_back(int64_t number) { *grow(1) = number; }

  void clear() { size_ = 0; }  // keeps the memory

  void reserve(int64_t count) {
    if (count <= capacity_) {
      return;
    }
    const int64_t capacity = std::max(count, 2 * capacity_);
    auto larger = std::make_unique_for_overwrite<int64_t[]>(static_cast<size_t>(capacity));
    std::copy_n(data_.get(), size_, larger.get());
    data_ = std::move(larger);
    capacity_ = capacity;
  }

  // Moves the storage of data() out and leaves this empty.
  std::unique_ptr<int64_t[]> release() {
    size_ = capacity_ = 0;
    return std::move(data_);
  }

 private:
  std::unique_ptr<int64_t[]> data_;
  int64_t size_ = 0, capacity_ = 0;
};

}  // namespace cpuaccel::kernels
