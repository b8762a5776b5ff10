#include "api/parts.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "api/creation/auto_plan.hpp"
#include "api/creation/connect.hpp"
#include "base/index.hpp"

namespace terrace::detail {

namespace {

// Completes all calls. While the result exists, exchanges of these ranks end with an error if a rank fails.
std::shared_ptr<const wait_hook> begin_exchange(communicator_core& from, const std::string& what) {
    from.end_calls_for(what);
    const auto begin = std::chrono::steady_clock::now();
    auto look = std::make_shared<const wait_hook>([&from, what, begin] {
        failure_watch& failures = from.control().membership;
        from.failure().rethrow();
        if (!failures.has_work(std::chrono::steady_clock::now() - begin)) return;
        from.control().router.receive();
        if (failures.look([](int) { return false; })) from.failure().latch([&] { failures.raise({what}); });
    });
    from.net().ranks().while_waiting(look);
    return look;
}

// Makes a communicator of some ranks. @param members ranks of the plan, in the order of `ranks`   @param new_rank the
// callers' number of this process   @param watched returns the watch for a connection of these ranks
template <class Watch>
std::unique_ptr<communicator_core> made_of(communicator_core& from, const std::vector<int>& members, team ranks,
                                           int new_rank, Watch watched) {
    const plan p = plan_part(data_of(from.planned()), members, ranks);
    const connection& old = from.net().base();
    connection by{old.net, old.memory, std::move(ranks), nullptr, old.interfaces};
    by.watch = watched(by);
    return std::make_unique<communicator_core>(planned_ranks{p, std::move(by), new_rank}, from.settings(),
                                               from.calls().device_in_use());
}

// @param what the user's call   @param color_of returns the color once calls are complete; may be collective
template <class Color>
std::unique_ptr<communicator_core> part_of(communicator_core& from, const char* what, int key, Color color_of) {
    from.expect_no_group(what);
    const auto held = from.hold();
    const auto look = begin_exchange(from, what);
    const int color = color_of();
    struct choice {
        int color, key;
    };
    const std::vector<int>& callers_rank = from.ranks().callers;
    const choice mine{color, key};
    std::vector<choice> all(callers_rank.size());
    from.net().ranks().gather_all(&mine, all.data(), sizeof mine);
    std::optional<team> part = from.net().ranks().split(color, 0);
    if (!part) return nullptr;
    std::vector<int> members;
    int new_rank = 0;  // number of members that come before this rank
    for (std::size_t r = 0; r < all.size(); ++r) {
        if (all[r].color != color) continue;
        members.push_back(static_cast<int>(r));
        new_rank += std::pair(all[r].key, callers_rank[r]) < std::pair(key, from.ranks().own);
    }
    return made_of(from, members, std::move(*part), new_rank, [&](connection&) { return from.net().base().watch; });
}

// Thrown if a rank fails while ranks create a communicator.
struct interrupted {};

void agree_on_survivors(communicator_core& from) {
    failure_watch& failures = from.control().membership;
    control_router& router = from.control().router;
    const auto timeout = from.settings().timeout;
    const auto begin = std::chrono::steady_clock::now();
    failures.agree_anew();
    for (router.receive(); !failures.look_anew(); router.receive()) {
        from.net().wire().idle();
        if (timeout.count() <= 0 || std::chrono::steady_clock::now() - begin < timeout) continue;
        std::vector<int> missing;
        for (const int r : failures.silent()) missing.push_back(from.ranks().callers[at(r)]);
        std::ranges::sort(missing);
        throw timeout_error(
            fmt::format("shrink: timed out after {} s (options::timeout), waiting for {}: all ranks that "
                        "have not failed must call it",
                        timeout.count(), ranks_named(missing, from.ranks().world)));
    }
}

// Requires more than half of the ranks, or half with rank 0 of the plan. So only one part of a divided job can go on.
void expect_majority(communicator_core& from) {
    const failed_ranks& failed = from.control().membership.verdict();
    const int size = from.net().size(), left = size - static_cast<int>(failed.size());
    const bool may = 2 * left > size || (2 * left == size && !failed.contains(0));
    if (may && !failed.contains(from.net().rank())) return;
    std::vector<int> ranks;
    for (const failed_rank& f : from.control().membership.callers_failed()) ranks.push_back(f.rank);
    throw partitioned_error(fmt::format(
        "shrink: {} of {} ranks are left without {}, and another part of the job may go on: end this process", left,
        size, ranks_named(ranks, from.ranks().world)));
}

std::unique_ptr<communicator_core> of_survivors(communicator_core& from) {
    failure_watch& failures = from.control().membership;
    std::vector<int> members;
    int new_rank = 0;  // number of survivors before this rank in the caller's numbering
    std::string name = "without";
    for (int r = 0; r < from.net().size(); ++r) {
        if (failures.verdict().contains(r)) {
            name += fmt::format("-{}", r);
            continue;
        }
        members.push_back(r);
        new_rank += from.ranks().callers[at(r)] < from.ranks().own;
    }
    team survivors = from.net().ranks().part(members, name);
    const auto look = std::make_shared<const wait_hook>([&] {
        from.control().router.receive();
        failures.look_anew();
        if (failures.knows_more()) throw interrupted();
    });
    survivors.while_waiting(look);
    return made_of(from, members, survivors, new_rank, [&](connection& by) {
        failures.report_failures();
        return watch_ranks(by, from.settings());
    });
}

}  // namespace

std::shared_ptr<std::byte> allocate(communicator_core& from, std::size_t count, std::size_t element) {
    from.expect_no_group("allocate");
    const auto held = from.hold();
    if (count > std::numeric_limits<std::ptrdiff_t>::max() / element) throw std::bad_array_new_length();
    const auto look = begin_exchange(from, fmt::format("allocate of {} elements of {} bytes", count, element));
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
    return part_of(from, "split", key, [&] { return color; });
}

std::unique_ptr<communicator_core> split_by_node(communicator_core& from, int key) {
    team& all = from.net().ranks();
    return part_of(from, "split_by_node", key, [&] { return all.nodes()[at(all.rank())]; });
}

// If another rank fails while survivors create a communicator, all survivors give the new communicator up and begin
// again. A rank that has its new communicator waits until all have theirs.
std::unique_ptr<communicator_core> shrink(communicator_core& from) {
    const auto held = from.hold();
    failure_watch& failures = from.control().membership;
    if (const std::string& why = from.net().base().net->traits().no_survivors; !why.empty())
        throw usage_error("shrink: " + why);
    if (failures.verdict().empty()) throw usage_error("shrink: no rank has failed; call it after a rank_failed_error");
    expect_majority(from);
    if (!failures.take_all_agree()) agree_on_survivors(from);
    while (true) {
        expect_majority(from);
        const failed_ranks without = failures.verdict();
        std::unique_ptr<communicator_core> made;
        std::exception_ptr trouble;
        try {
            made = of_survivors(from);
        } catch (const interrupted&) {
        } catch (...) {
            trouble = std::current_exception();
        }
        agree_on_survivors(from);
        if (failures.verdict() == without && trouble) std::rethrow_exception(trouble);
        if (failures.verdict() == without && made) return made;
        if (made) made->abort(creation_given_up);
    }
}

// Ranks that have detected a failure elsewhere may be in shrink() already. They agree once there, as all ranks do here.
bool all_make(communicator_core& from, const std::function<void(const std::function<void()>& look)>& make) {
    failure_watch& failures = from.control().membership;
    std::int32_t made = 1;
    try {
        const auto held = from.hold();
        from.calls().expect_unbroken("a change of members");
        make([&] {
            from.control().router.receive();
            if (failures.look([](int) { return false; }) || failures.knows_more()) throw interrupted();
        });
    } catch (const interrupted&) {
        made = 0;
    } catch (const error& e) {
        made = 0;
        if (from.settings().log)
            from.settings().log(log_level::warn, fmt::format("a change of members failed: {}", e.what()));
    }
    try {
        from.expect_no_group("a change of members");
        from.start({reduction_of(collective::allreduce, 1, element_type::int32, reduce_op::min), {&made, &made}})
            .wait();
    } catch (const rank_failed_error&) {
        made = 0;
    }
    const auto held = from.hold();
    agree_on_survivors(from);
    if (failures.verdict().empty()) {
        failures.agree_anew();
        return made == 1;
    }
    failures.note_all_agree();
    from.failure().latch([&] { failures.raise({"a change of members"}); });
    return false;
}

}  // namespace terrace::detail
