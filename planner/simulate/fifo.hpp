#pragma once

#include <cstddef>
#include <vector>

namespace terrace::detail::sim {

/// A queue that needs no memory until something is in it. Simulations have one for each lane of each pair of ranks.
template <class T>
class fifo {
public:
    bool empty() const noexcept { return first_ == items_.size(); }
    std::size_t size() const noexcept { return items_.size() - first_; }
    const T& front() const noexcept { return items_[first_]; }
    void push(const T& item) { items_.push_back(item); }

    /// Removes the first one. What lies before it is dropped once that is half of all.
    void pop() {
        ++first_;
        if (2 * first_ < items_.size()) return;
        items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_));
        first_ = 0;
    }

private:
    std::vector<T> items_;
    std::size_t first_ = 0;
};

}  // namespace terrace::detail::sim
