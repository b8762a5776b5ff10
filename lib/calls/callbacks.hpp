#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <utility>
#include <vector>

#include "calls/calls_in_flight.hpp"

namespace terrace::detail {

/// Functions that are called once calls are complete.
class callbacks {
public:
    struct entry {
        std::uint64_t call = 0;
        callback function;
    };

    bool empty() const noexcept { return waiting_.empty(); }
    void add(std::uint64_t call, callback f) { waiting_.push_back({call, std::move(f)}); }
    /// Removes those whose call is `over`, and returns them in the order added.
    template <class Predicate>
    std::vector<entry> extract(Predicate over) {
        const auto first =
            std::stable_partition(waiting_.begin(), waiting_.end(), [&](const entry& e) { return !over(e.call); });
        std::vector<entry> taken(std::make_move_iterator(first), std::make_move_iterator(waiting_.end()));
        waiting_.erase(first, waiting_.end());
        return taken;
    }

private:
    std::vector<entry> waiting_;
};

}  // namespace terrace::detail
