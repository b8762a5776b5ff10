#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <terrace/gradients.hpp>

#include "base/index.hpp"

namespace terrace::detail {

/// Parameters that ranks have used since the last reduction: a map with one byte each. The maximum over ranks is
/// computed if the options require that.
class used_set {
public:
    used_set(std::size_t parameters, unused_parameters how)
        : how_(how), mine_(parameters), all_(parameters), expected_(parameters) {}

    /// Returns true if parameters may be unused at all.
    bool may_differ() const noexcept { return how_ != unused_parameters::error; }
    /// Records that this rank has used a parameter.
    void add(int parameter) noexcept { mine_[at(parameter)] = 1; }
    bool has(int parameter) const noexcept { return mine_[at(parameter)] != 0; }
    /// Returns true if the set of this rank is fixed, since an earlier iteration.
    bool is_fixed() const noexcept { return known_; }
    /// Returns true if this rank must use a parameter, by its fixed set.
    bool expects(int parameter) const noexcept { return expected_[at(parameter)] != 0; }

    /// Starts to compute the maximum over all ranks, if it is needed and not known for good.
    void start(communicator& comm) {
        if (!may_differ() || all_known_) return;
        asked_ = true;
        call_ = comm.allreduce_async(std::as_const(mine_), all_, exact(reduce_op::max));
    }
    /// Waits for the result.
    void wait() { call_.wait(); }
    /// Returns true if any rank has used a parameter. After wait().
    bool anywhere(int parameter) const noexcept { return all_[at(parameter)] != 0; }
    /// Clears the set of this rank, for the next iteration.
    /// @param settle this set becomes the one of all later iterations, if the options require a fixed set
    void restart(bool settle) {
        if (how_ == unused_parameters::fixed && settle && asked_) {
            all_known_ = true;
            const bool took_part = std::count(mine_.begin(), mine_.end(), 1) > 0;  // false on a rank in join()
            if (!known_ && took_part) expected_ = mine_;
            known_ |= took_part;
        }
        asked_ = false;
        std::fill(mine_.begin(), mine_.end(), 0);
    }

private:
    unused_parameters how_;
    std::vector<std::uint8_t> mine_, all_, expected_;  // by parameter
    bool known_ = false;                               // expected_ is known
    bool all_known_ = false;                           // all_ is known, for good
    bool asked_ = false;                               // start() has started a call
    request call_;
};

}  // namespace terrace::detail
