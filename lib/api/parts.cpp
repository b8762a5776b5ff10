#include "api/parts.hpp"

#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "api/creation/auto_plan.hpp"
#include "api/creation/connect.hpp"

namespace terrace::detail {

namespace {

std::unique_ptr<communicator_core> part_of(communicator_core& from, int color, int key) {
    struct choice {
        int color, key;
    };
    const std::vector<int>& callers_rank = from.ranks().callers;
    const choice mine{color, key};
    std::vector<choice> all(callers_rank.size());
    from.net().ranks().gather_all(&mine, all.data(), sizeof mine);
    std::optional<team> part = from.net().ranks().split(color, 0);
    if (!part) return nullptr;
    std::vector<int> members;  // by rank of the plan, as in `part`
    int new_rank = 0;          // members that the caller's numbering puts before this rank
    for (std::size_t r = 0; r < all.size(); ++r) {
        if (all[r].color != color) continue;
        members.push_back(static_cast<int>(r));
        new_rank += std::pair(all[r].key, callers_rank[r]) < std::pair(key, from.ranks().own);
    }
    const plan p = plan_part(data_of(from.planned()), members, *part);
    const connection& by = from.net().base();
    return std::make_unique<communicator_core>(
        planned_ranks{p, {by.net, by.memory, std::move(*part), by.watch, by.interfaces}, new_rank}, from.settings(),
        from.calls().device_in_use());
}

}  // namespace

std::shared_ptr<std::byte> allocate(communicator_core& from, std::size_t count, std::size_t element) {
    from.expect_no_group("allocate");
    const auto held = from.hold();
    if (count > std::numeric_limits<std::ptrdiff_t>::max() / element) throw std::bad_array_new_length();
    from.end_calls_for(fmt::format("allocate of {} elements of {} bytes", count, element));
    if (count == 0) return nullptr;
    endpoint& net = from.net();
    std::shared_ptr<std::byte> memory = net.allocate(count * element);
    if (from.settings().log && net.can().slots > 0 && !net.reachable(memory.get(), count * element))
        from.settings().log(
            log_level::warn,
            fmt::format("allocate: {} bytes for each rank cannot be shared (is /dev/shm full?); the window is "
                        "plain memory, which calls copy",
                        count * element));
    return memory;
}

std::unique_ptr<communicator_core> split(communicator_core& from, int color, int key) {
    from.expect_no_group("split");
    const auto held = from.hold();
    from.end_calls_for("split");
    return part_of(from, color, key);
}

std::unique_ptr<communicator_core> split_by_node(communicator_core& from, int key) {
    from.expect_no_group("split_by_node");
    const auto held = from.hold();
    from.end_calls_for("split_by_node");
    team& all = from.net().ranks();
    return part_of(from, all.nodes()[static_cast<std::size_t>(all.rank())], key);
}

}  // namespace terrace::detail
