#include "planner/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/partition.hpp"
#include "planner/policy.hpp"
#include "schedule/lower.hpp"
#include "schedule/node_rings.hpp"

namespace terrace::detail {

namespace {

// The messages that one position sends, by step.
using sent = std::map<int, std::vector<exchange::message>>;

class recorder {
public:
    recorder(algorithm::generator emit, int size, const std::vector<int>& blocks, const pattern_book::way& w)
        : emit_(emit), size_(size), group_(group::numbered(size)) {
        std::vector<range> shards;
        for (int i = 0; i < size; ++i) {
            constexpr int halves = 2;  // algorithms may cut a shard
            shards.push_back({count_, count_ + halves * (blocks.empty() ? 1 : blocks[static_cast<std::size_t>(i)])});
            count_ = shards.back().end;
        }
        group_ = group_.with_shards(std::move(shards));
        if (w.at_root == root_part::relieved) group_ = group_.with_root_relieved();
        if (w.at_root == root_part::passed) group_ = group_.without_root();
        if (w.at_root == root_part::relieved && w.down) role_.adds = {group_.root(), false};
    }

    schedule program(int position) const {
        builder out(position, size_, collective::allreduce, count_);
        out.begin_role(role_);
        if (group_.contains(position)) emit_(out, group_.seen_by(position));
        schedule made = out.finish();
        const bool by_mpi = std::ranges::find(made.instrs, provider::mpi, &instr::by) != made.instrs.end();
        return by_mpi ? lower(made, {}) : made;
    }

    sent run(int position, double& reduced) const { return read(position, program(position), reduced); }

    // The messages of a position's program, and what it adds up.
    sent read(int position, const schedule& program, double& reduced) const {
        sent messages;
        for (const instr& i : program.instrs) {
            if (i.what == action::send) add(messages[i.step], position, i.peer, share(i.src));
            if (i.what == action::recv_reduce) reduced += share(i.dst);
            if (i.what == action::reduce) reduced += share(i.dst) * (i.sources + 1) / 3;  // reads all, writes one
        }
        return messages;
    }

private:
    double share(const operand& o) const { return static_cast<double>(o.part.count()) / static_cast<double>(count_); }

    // All that goes to one peer in one step is one message.
    static void add(std::vector<exchange::message>& step, int from, int to, double part) {
        if (!step.empty() && step.back().to == to) step.back().part += part;
        else step.push_back({from, to, part});
    }

    algorithm::generator emit_;
    int size_;
    std::int64_t count_ = 0;
    group group_;
    stage_role role_;
};

sent turned(sent messages, int by, int size) {
    for (auto& [step, list] : messages)
        for (exchange::message& m : list) {
            m.from = wrap(m.from + by, size);
            m.to = wrap(m.to + by, size);
        }
    return messages;
}

// @param first what position 0 sends   @param reduced what it adds up
bool looks_circulant(const recorder& run, int size, const sent& first, double reduced) {
    for (const int position : {1, size / 2}) {
        double other = 0;
        if (run.run(position, other) != turned(first, position, size) || other != reduced) return false;
    }
    return true;
}

// Steps that do not wait for one another become one exchange. Equal steps in succession are counted.
std::vector<exchange> exchanges_of(const sent& messages, int rounds) {
    std::vector<exchange> result;
    const bool dependent = rounds >= static_cast<int>(messages.size());
    for (const auto& [step, list] : messages) {
        if (!dependent && !result.empty())
            result.back().messages.insert(result.back().messages.end(), list.begin(), list.end());
        else if (!result.empty() && result.back().messages == list) ++result.back().times, ++result.back().startups;
        else result.push_back({.messages = list});
    }
    if (!dependent) result.back().startups = rounds;
    return result;
}

pattern read_off(algorithm::generator emit, int size, int rounds, const pattern_book::way& w,
                 const std::vector<int>& blocks = {}) {
    const recorder run(emit, size, blocks, w);
    pattern made;
    made.reduced.resize(static_cast<std::size_t>(size));
    const schedule first = run.program(0);
    made.by_provider = std::ranges::any_of(first.instrs, [](const instr& i) { return is_stage(i.what); });
    sent messages = run.read(0, first, made.reduced.front());
    made.circulant = size > policy.large_group && looks_circulant(run, size, messages, made.reduced.front());
    for (int position = 1; position < size && !made.circulant; ++position)
        for (const auto& [step, list] : run.run(position, made.reduced[static_cast<std::size_t>(position)]))
            messages[step].insert(messages[step].end(), list.begin(), list.end());
    if (made.circulant) std::fill(made.reduced.begin(), made.reduced.end(), made.reduced.front());
    if (!messages.empty()) made.exchanges = exchanges_of(messages, rounds);
    return made;
}

// Returns the pattern of a ring: in each of n - 1 steps every position sends an n-th to the next one.
pattern ring(int size, bool adds) {
    return {.exchanges = {{{{0, 1, 1.0 / size}}, size - 1, size - 1}},
            .reduced = std::vector(static_cast<std::size_t>(size), adds ? (size - 1.0) / size : 0),
            .circulant = true};
}

// Returns the pattern of a chain: everything goes from the first position to the last, or back.
pattern chain(int size, bool adds) {
    pattern made;
    made.reduced.assign(static_cast<std::size_t>(size), adds ? 1 : 0);
    made.reduced.back() = 0;
    made.exchanges.reserve(made.reduced.size());
    for (int i = 0; i + 1 < size; ++i) {
        const exchange::message away{i, i + 1, 1}, home{size - 1 - i, size - 2 - i, 1};
        made.exchanges.push_back({.messages = {adds ? home : away}});
    }
    return made;
}

// Returns the pattern of a scatter from the first position, or a gather to it: all at once.
pattern star(int size, bool scatters) {
    pattern made;
    made.reduced.assign(static_cast<std::size_t>(size), 0);
    exchange& all = made.exchanges.emplace_back();
    for (int i = 1; i < size; ++i) {
        if (scatters) all.messages.push_back({0, i, 1.0 / size});
        else all.messages.push_back({size - i, 0, 1.0 / size});
    }
    return made;
}

// Returns the pattern of a mesh: every position sends an n-th to every other at once, and adds up all that comes.
pattern mesh(int size, bool adds) {
    const double part = 1.0 / size;
    exchange all;
    for (int i = 1; i < size; ++i) all.messages.push_back({0, i, part});
    return {.exchanges = {std::move(all)},
            .reduced = std::vector(static_cast<std::size_t>(size), adds ? part * (size + 1) / 3 : 0),
            .circulant = true};
}

// Returns the pattern of rings through nodes, which a program would say at length: one step is like the other. Each
// ring has an equal part of all shards, or of the vector.
pattern rings_of(const std::vector<std::vector<int>>& orders, bool has_root, bool adds) {
    const std::size_t size = orders.front().size();
    const double part = 1.0 / static_cast<double>(orders.size());
    pattern made;
    made.rings = static_cast<int>(orders.size());
    made.reduced.assign(size, adds && !has_root ? (static_cast<double>(size) - 1) / static_cast<double>(size) : 0);
    if (size == 1) return made;
    exchange step{.messages = {}, .times = static_cast<int>(size) - 1, .startups = static_cast<int>(size) - 1};
    if (!has_root) {
        for (const std::vector<int>& order : orders)
            for (std::size_t i = 0; i < size; ++i)
                step.messages.push_back({order[i], order[(i + 1) % size], part / static_cast<double>(size)});
        made.exchanges = {std::move(step)};
        return made;
    }
    for (std::size_t i = 0; i + 1 < size; ++i) {
        exchange& next = made.exchanges.emplace_back();
        for (const std::vector<int>& order : orders) {
            const std::size_t from = adds ? size - 1 - i : i, to = adds ? from - 1 : i + 1;
            next.messages.push_back({order[from], order[to], part});
            if (adds) made.reduced[static_cast<std::size_t>(order[to])] += part;
        }
    }
    return made;
}

bool same(const pattern& a, const pattern& b) {
    const auto near = [](double x, double y) { return std::abs(x - y) < 1e-9; };
    return a.exchanges == b.exchanges && a.circulant == b.circulant &&
           std::equal(a.reduced.begin(), a.reduced.end(), b.reduced.begin(), near);
}

}  // namespace

bool crowds(const algorithm& a, int size) noexcept {
    return size > policy.most_exchanges_at_once && a.graph == message_graph::all_at_once;
}

// Smaller groups show a ring, a chain, a star or a mesh.
std::optional<pattern> pattern_book::extrapolated(const algorithm& a, const way& w, int size) {
    for (const auto guess : {ring, chain, star, mesh}) {
        const auto holds = [&](int small) { return same(of(a, w, small), guess(small, !w.down)); };
        if (holds(policy.large_group + 1) && holds(policy.large_group + 2)) return guess(size, !w.down);
    }
    return {};
}

bool pattern_book::worth_a_look(const algorithm& a, mode how, int size) {
    if (crowds(a, size)) return false;
    return size <= policy.largest_group || of(a, {how, false}, policy.large_group + 1).circulant ||
           extrapolated(a, {how, false}, size).has_value();
}

const pattern& pattern_book::of_rings(mode how, bool down, const std::vector<int>& nodes) {
    const auto [page, is_new] = rings_.try_emplace({how, down, nodes});
    if (!is_new) return page->second;
    std::vector<std::vector<int>> orders = node_rings(nodes, static_cast<int>(nodes.size()));
    for (std::vector<int>& order : orders)  // the root comes first
        if (how == mode::root) std::rotate(order.begin(), std::find(order.begin(), order.end(), 0), order.end());
    return page->second = rings_of(orders, how == mode::root, !down);
}

// An exchange sends what a reduce-scatter does, and adds up nothing.
const pattern& pattern_book::of_exchange(const algorithm& a, int size, const std::vector<int>& blocks) {
    const auto [page, is_new] = exchanges_.try_emplace({a.name, size, blocks});
    if (is_new) {
        page->second = of(a, {mode::scatter, false}, size, blocks);
        std::fill(page->second.reduced.begin(), page->second.reduced.end(), 0.0);
    }
    return page->second;
}

const pattern& pattern_book::of(const algorithm& a, const way& w, int size, const std::vector<int>& blocks) {
    const auto [page, is_new] = pages_.try_emplace({a.name, w, size, blocks});
    const algorithm::generator emit = w.of(a);
    if (!is_new || emit == nullptr) return page->second;
    std::optional<pattern> known;
    if (size > policy.most_exchanges_at_once) known = extrapolated(a, w, size);
    page->second = known ? std::move(*known) : read_off(emit, size, a.startups(size), w, blocks);
    return page->second;
}

}  // namespace terrace::detail
