#include "gradients/used_set.hpp"

#include <algorithm>
#include <utility>

namespace terrace::detail {

used_set::used_set(std::size_t parameters, unused_parameters how)
    : how_(how), mine_(parameters), all_(parameters), expected_(parameters) {}

void used_set::start(communicator& comm) {
    if (!may_differ() || all_known_) return;
    asked_ = true;
    call_ = comm.allreduce_async(std::as_const(mine_), all_, exact(reduce_op::max));
}

void used_set::restart(bool settle) {
    if (how_ == unused_parameters::fixed && settle && asked_) {
        all_known_ = true;
        const bool took_part = std::count(mine_.begin(), mine_.end(), 1) > 0;  // it is no rank that has joined
        if (!known_ && took_part) expected_ = mine_;
        known_ |= took_part;
    }
    asked_ = false;
    std::fill(mine_.begin(), mine_.end(), 0);
}

}  // namespace terrace::detail
