#include "bench/measure/goodput.hpp"

#include <algorithm>
#include <utility>

#include "base/index.hpp"
#include "base/wire.hpp"
#include "bench/measure/flow.hpp"

namespace terrace::detail::bench {

namespace {

constexpr int message_bytes = wire_segment;
constexpr int fewest_of_run = 8;

// Returns two places whose innermost common level is `l`, if there are any.
std::optional<std::pair<int, int>> pair_across(const tree& shape, int l) {
    for (int d = 0; d < shape.domains(l); ++d)
        if (const int child = shape.first_child(l, d); shape.children(l, d) > 1)
            return std::pair{shape.first_rank(l - 1, child), shape.first_rank(l - 1, child + 1)};
    return {};
}

// Returns the number of messages of one run: 16 MiB, or 0.3 s at this rate if that is less.
int messages_of_run(double bandwidth) {
    const double bytes = std::min(16.0 * (1 << 20), 0.3 * bandwidth);
    return std::max(fewest_of_run, static_cast<int>(bytes / message_bytes));
}

}  // namespace

std::vector<int> ranks_by_place(const world& w, options::placement place) {
    std::vector<int> ranks = numbers_below(w.size());
    if (place == options::placement::by_node)
        std::ranges::stable_sort(ranks, {}, [&](int rank) { return w.hosts()[at(rank)]; });
    return ranks;
}

std::vector<std::optional<double>> measure_goodput(const world& w, const hierarchy& machine, options::placement place) {
    if (w.host_count() == 1 || place != options::placement::by_node) return {};
    const std::vector<int> ranks = ranks_by_place(w, place);
    std::vector<std::optional<double>> found(machine.levels.size());
    for (int l = 0; l < machine.depth(); ++l) {
        const level& link = machine.levels[at(l)];
        const auto pair = pair_across(machine.shape, l);
        if (link.medium != fabric::ethernet || !pair) continue;
        found[at(l)] = 0;
        if (!w.has_mpi()) continue;
        const int sender = ranks[at(pair->first)], receiver = ranks[at(pair->second)];
        flow f{.message_bytes = message_bytes, .messages = messages_of_run(link.bandwidth)};
        if (w.rank() == sender) f.to = receiver;
        if (w.rank() == receiver) f.from = sender;
        const double time = w.rank() == sender || w.rank() == receiver ? time_of_message(w, f) : 0;
        wait_asleep(w);
        found[at(l)] = message_bytes / w.maximum(time);
    }
    return found;
}

}  // namespace terrace::detail::bench
