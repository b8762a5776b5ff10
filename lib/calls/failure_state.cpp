#include "calls/failure_state.hpp"

#include <fmt/format.h>

#include <terrace/error.hpp>

namespace terrace::detail {

void failure_state::expect_none(std::string_view call) const {
    if (const char* why = given_up_) throw usage_error(fmt::format("{}: {}", call, why));
    if (first_)
        throw usage_error(
            fmt::format("{}: an earlier call failed, and the communicator is broken; make a new one", call));
}

void failure_state::rethrow() const {
    if (first_) std::rethrow_exception(first_);
    if (const char* why = given_up_) throw usage_error(why);
}

void on_all_ranks(const std::vector<int>& callers_rank, team& all, const std::function<void()>& action) {
    std::string why;
    try {
        action();
    } catch (const std::exception& e) {
        why = e.what();
    }
    const std::vector<std::string> reasons = all.exchange(why);
    for (std::size_t r = 0; r < reasons.size(); ++r)
        if (!reasons[r].empty()) throw usage_error(fmt::format("rank {}: {}", callers_rank[r], reasons[r]));
}

}  // namespace terrace::detail
