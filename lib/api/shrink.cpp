// Communicators that others give way to: of the ranks that have not failed, and of whatever ranks there are then.

#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "api/core.hpp"
#include "api/creation/auto_plan.hpp"
#include "api/creation/connect.hpp"
#include "base/index.hpp"
#include "plan/plan_access.hpp"
#include "transport/agreement.hpp"

namespace terrace::detail {

namespace {

// A rank has failed while survivors create a communicator.
struct interrupted {};

}  // namespace

// If one more fails while survivors create a communicator, that one is given up, on all of them, and they begin anew. A
// rank that has its communicator waits until all have theirs.
std::unique_ptr<communicator_core> communicator_core::shrink() {
    const auto held = hold();
    if (!net_->by().net->traits().no_survivors.empty())
        throw usage_error("shrink: " + net_->by().net->traits().no_survivors);
    if (failures_->verdict().empty())
        throw usage_error("shrink: no rank has failed; call it after a rank_failed_error");
    expect_majority();
    if (!std::exchange(survivors_agree_, false)) agree_on_survivors();
    while (true) {
        expect_majority();
        const failed_ranks without = failures_->verdict();
        std::unique_ptr<communicator_core> made;
        std::exception_ptr trouble;
        try {
            made = of_survivors();
        } catch (const interrupted&) {
        } catch (...) {
            trouble = std::current_exception();
        }
        agree_on_survivors();
        if (failures_->verdict() == without && trouble) std::rethrow_exception(trouble);
        if (failures_->verdict() == without && made) return made;
        if (made) made->give_up_creation();
    }
}

// Ranks that have seen a failure outside of this may be in shrink() already: those agree once, and so do the ones here.
bool communicator_core::all_make(const std::function<void(const std::function<void()>& look)>& make) {
    std::int32_t made = 1;
    try {
        const auto held = hold();
        expect_unbroken("a change of members");
        make([this] {
            router_->take();
            if (failures_->look([](int) { return false; }) || failures_->knows_more()) throw interrupted();
        });
    } catch (const interrupted&) {
        made = 0;
    } catch (const error& e) {
        made = 0;
        if (options_.log) options_.log(log_level::warn, fmt::format("a change of members failed: {}", e.what()));
    }
    try {
        run({.what = collective::allreduce,
             .count = 1,
             .counts = {},
             .type = element_type::int32,
             .op = reduce_op::min},
            &made, &made);
    } catch (const rank_failed_error&) {
        made = 0;
    }
    const auto held = hold();
    agree_on_survivors();
    if (failures_->verdict().empty()) {
        failures_->agree_anew();
        return made == 1;
    }
    survivors_agree_ = true;
    failure_.latch([&] { failures_->raise({"a change of members"}); });
    return false;
}

void communicator_core::agree_on_survivors() {
    const auto begin = std::chrono::steady_clock::now();
    failures_->agree_anew();
    for (router_->take(); !failures_->look_anew(); router_->take()) {
        net_->wire().idle();
        if (options_.timeout.count() <= 0 || std::chrono::steady_clock::now() - begin < options_.timeout) continue;
        std::vector<int> missing;
        for (const int r : failures_->silent()) missing.push_back(callers_rank_[at(r)]);
        std::ranges::sort(missing);
        throw timeout_error(
            fmt::format("shrink: timed out after {} s (options::timeout), waiting for {}: all ranks that "
                        "have not failed must call it",
                        options_.timeout.count(), ranks_named(missing, world_ranks_)));
    }
}

// More than half of the ranks, or half of them with the lowest: at most one part of a job that is cut in two.
void communicator_core::expect_majority() const {
    const failed_ranks& failed = failures_->verdict();
    const int left = size() - static_cast<int>(failed.size());
    const bool may = 2 * left > size() || (2 * left == size() && !failed.contains(0));
    if (may && !failed.contains(net_->rank())) return;
    std::vector<int> ranks;
    for (const failed_rank& f : failures_->failed()) ranks.push_back(f.rank);
    throw partitioned_error(fmt::format(
        "shrink: {} of {} ranks are left without {}, and another part of the job may go on: end this process", left,
        size(), ranks_named(ranks, world_ranks_)));
}

std::unique_ptr<communicator_core> communicator_core::of_survivors() {
    std::vector<int> members;  // by rank of the plan
    int new_rank = 0;          // survivors that the caller's numbering puts before this rank
    std::string name = "without";
    for (int r = 0; r < size(); ++r) {
        if (failures_->verdict().contains(r)) {
            name += fmt::format("-{}", r);
            continue;
        }
        members.push_back(r);
        new_rank += callers_rank_[static_cast<std::size_t>(r)] < rank_;
    }
    team survivors = net_->ranks().part(members, name);
    const auto look = std::make_shared<const wait_hook>([this] {
        router_->take();
        failures_->look_anew();
        if (failures_->knows_more()) throw interrupted();
    });
    survivors.while_waiting(look);
    const plan p = plan_part(data_of(plan_), members, survivors);
    failures_->tell_network();
    connection by{net_->by().net, net_->by().memory, survivors, nullptr, net_->by().interfaces};
    by.watch = watch_ranks(by, options_);
    return std::make_unique<communicator_core>(p, std::move(by), new_rank, options_, device_);
}

}  // namespace terrace::detail
