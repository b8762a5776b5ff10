// Windows, and communicators of some of the ranks.

#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "api/core.hpp"
#include "api/creation/auto_plan.hpp"
#include "plan/plan_access.hpp"

namespace terrace::detail {

// Completes all calls before a collective operation that does not move calls along: other ranks may wait for them.
void communicator_core::end_calls_for(const std::string& what) {
    expect_unbroken(what);
    drive_until([&] { return calls_->none_waits(); });
    failure_.latch([&] { check_->meet(what); });
    drive_until([&] { return engine_->idle(); });
}

std::shared_ptr<std::byte> communicator_core::allocate(std::size_t count, std::size_t element) {
    expect_no_group("allocate");
    const auto held = hold();
    if (count > std::numeric_limits<std::ptrdiff_t>::max() / element) throw std::bad_array_new_length();
    end_calls_for(fmt::format("allocate of {} elements of {} bytes", count, element));
    if (count == 0) return nullptr;
    std::shared_ptr<std::byte> memory = net_->allocate(count * element);
    if (options_.log && net_->can().slots > 0 && !net_->reachable(memory.get(), count * element))
        options_.log(log_level::warn,
                     fmt::format("allocate: {} bytes for each rank cannot be shared (is /dev/shm full?); the window is "
                                 "plain memory, which calls copy",
                                 count * element));
    return memory;
}

std::unique_ptr<communicator_core> communicator_core::split(int color, int key) {
    expect_no_group("split");
    const auto held = hold();
    end_calls_for("split");
    return part_of(color, key);
}

std::unique_ptr<communicator_core> communicator_core::split_by_node(int key) {
    expect_no_group("split_by_node");
    const auto held = hold();
    end_calls_for("split_by_node");
    return part_of(net_->ranks().nodes()[static_cast<std::size_t>(net_->rank())], key);
}

std::unique_ptr<communicator_core> communicator_core::part_of(int color, int key) {
    struct choice {
        int color, key;
    };
    const choice mine{color, key};
    std::vector<choice> all(callers_rank_.size());
    net_->ranks().gather_all(&mine, all.data(), sizeof mine);
    std::optional<team> part = net_->ranks().split(color, 0);
    if (!part) return nullptr;
    std::vector<int> members;  // by rank of the plan, as in `part`
    int new_rank = 0;          // members that the caller's numbering puts before this rank
    for (std::size_t r = 0; r < all.size(); ++r) {
        if (all[r].color != color) continue;
        members.push_back(static_cast<int>(r));
        new_rank += std::pair(all[r].key, callers_rank_[r]) < std::pair(key, rank_);
    }
    const plan p = plan_part(data_of(plan_), members, *part);
    connection by{net_->by().net, net_->by().memory, std::move(*part), net_->by().watch, net_->by().interfaces};
    return std::make_unique<communicator_core>(p, std::move(by), new_rank, options_, device_);
}

}  // namespace terrace::detail
