#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <terrace/gradients.hpp>

#include "base/index.hpp"

namespace terrace::detail {

/// Which parameters ranks have used since gradients were reduced last: a bitmap, one byte each, whose maximum over
/// ranks is found where options say so.
class used_set {
public:
    used_set(std::size_t parameters, unused_parameters how)
        : how_(how), mine_(parameters), all_(parameters), expected_(parameters) {}

    /// True if parameters may be unused at all.
    bool may_differ() const noexcept { return how_ != unused_parameters::error; }
    /// This rank has used a parameter.
    void add(int parameter) noexcept { mine_[at(parameter)] = 1; }
    bool has(int parameter) const noexcept { return mine_[at(parameter)] != 0; }
    /// True if the set of this rank is known from the first iteration on.
    bool is_fixed() const noexcept { return known_; }
    /// Whether this rank is to use a parameter, where the set is fixed.
    bool expects(int parameter) const noexcept { return expected_[at(parameter)] != 0; }

    /// Starts to find out what all ranks have used, if that is not known.
    void start(communicator& comm) {
        if (!may_differ() || all_known_) return;
        asked_ = true;
        call_ = comm.allreduce_async(std::as_const(mine_), all_, exact(reduce_op::max));
    }
    /// Returns when that is known.
    void wait() { call_.wait(); }
    /// True if any rank has used a parameter. After wait().
    bool anywhere(int parameter) const noexcept { return all_[at(parameter)] != 0; }
    /// Forgets what this rank has used: for the next iteration.
    /// @param settle whether this set is the one of all iterations, if such a set is wanted
    void restart(bool settle) {
        if (how_ == unused_parameters::fixed && settle && asked_) {
            all_known_ = true;
            const bool took_part = std::count(mine_.begin(), mine_.end(), 1) > 0;  // it is no rank that has joined
            if (!known_ && took_part) expected_ = mine_;
            known_ |= took_part;
        }
        asked_ = false;
        std::fill(mine_.begin(), mine_.end(), 0);
    }

private:
    unused_parameters how_;
    std::vector<std::uint8_t> mine_, all_, expected_;  // by parameter
    bool known_ = false;                               // expected_
    bool all_known_ = false;                           // all_, for good
    bool asked_ = false;                               // start() has
    request call_;
};

}  // namespace terrace::detail
