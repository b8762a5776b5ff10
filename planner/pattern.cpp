#include "planner/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "planner/policy.hpp"
#include "schedule/lower.hpp"
#include "schedule/node_rings.hpp"

namespace terrace::detail {

namespace {

// The messages that one position sends, by step.
using sent = std::map<int, std::vector<exchange::message>>;

// The programs of a group's positions.
class programs {
public:
    // @param emit as in pattern_book::of
    programs(const algorithm& by, algorithm::generator emit, const division& d)
        : by_(by), emit_(emit), d_(d), group_(emit == nullptr ? group::numbered(d.size) : divided(d)) {
        if (d.root_adds) role_.adds = {d.root, false};
    }

    int size() const { return group_.size(); }
    double count() const {
        if (emit_ != nullptr) return static_cast<double>(group_.whole().count());
        return d_.parts.empty() ? size() : std::accumulate(d_.parts.begin(), d_.parts.end(), 0.0) / (size() - 1);
    }

    schedule of(int position) const {
        builder out(position, size(), collective::allreduce, group_.whole().count());
        out.begin_role(role_);
        if (emit_ == nullptr) write_exchange(out, position);
        else emit_(out, group_.seen_from(position));
        schedule made = out.finish();
        const bool by_mpi = std::ranges::find(made.instrs, provider::mpi, &instr::by) != made.instrs.end();
        return by_mpi ? lower(made, {}) : made;
    }

private:
    static group divided(const division& d) {
        constexpr int halves = 2;  // algorithms may cut a part
        return {group::numbered(d.size).members(), shards_of(d, halves), d.root};
    }

    void write_exchange(builder& out, int position) const {
        std::vector<operand> gives(at(size())), gets(at(size()));
        const auto count = [&](int from, int to) { return d_.parts.empty() ? 1 : d_.parts[at(from * size() + to)]; };
        for (int peer = 0; peer < size(); ++peer) {
            if (peer == position) continue;
            gives[at(peer)] = out.scratch(count(position, peer));
            gets[at(peer)] = out.scratch(count(peer, position));
        }
        by_.exchange(out, group_.seen_from(position), gives, gets);
    }

    const algorithm& by_;
    algorithm::generator emit_;
    const division& d_;
    group group_;
    stage_role role_;
};

// Reads the messages of a position, and adds up what it reduces.
sent read(const programs& all, int position, const schedule& program, double& reduced) {
    const auto share = [&](const operand& o) { return static_cast<double>(o.part.count()) / all.count(); };
    sent messages;
    for (const instr& i : program.instrs) {
        if (i.what == action::recv_reduce) reduced += share(i.dst);
        if (i.what == action::reduce) reduced += share(i.dst) * (i.sources + 1) / 3;  // reads all, writes one
        if (i.what != action::send) continue;
        std::vector<exchange::message>& step = messages[i.step];
        // Of large groups, in which all positions are to look alike, all that goes to one peer is one message.
        const bool joins = all.size() > policy.large_group && !step.empty() && step.back().to == i.peer;
        if (joins) step.back().part += share(i.src);
        else step.push_back({position, i.peer, share(i.src)});
    }
    return messages;
}

sent turned(sent messages, int by, int size) {
    for (auto& [step, list] : messages)
        for (exchange::message& m : list) {
            m.from = wrap(m.from + by, size);
            m.to = wrap(m.to + by, size);
        }
    return messages;
}

// @param first what position 0 sends   @param reduced what it adds up
bool looks_circulant(const programs& all, const sent& first, double reduced) {
    for (const int position : {1, all.size() / 2}) {
        double other = 0;
        if (read(all, position, all.of(position), other) != turned(first, position, all.size()) || other != reduced)
            return false;
    }
    return true;
}

// Returns by how many positions all messages of a step are further on than those that an exchange begins with; nothing
// where they are not.
std::optional<int> moved_by(const exchange& first, const std::vector<exchange::message>& step) {
    if (first.messages.size() != step.size()) return {};
    const int by = step.front().from - first.messages.front().from;
    const auto moved = [by](exchange::message m) {
        m.from += by, m.to += by;
        return m;
    };
    return std::ranges::equal(first.messages, step, {}, moved) ? std::optional(by) : std::nullopt;
}

// Steps that do not wait for one another become one exchange. Steps in succession that are equal, or move on, are
// counted.
std::vector<exchange> exchanges_of(const sent& messages, int rounds) {
    std::vector<exchange> result;
    const bool dependent = rounds >= static_cast<int>(messages.size());
    for (const auto& [step, list] : messages) {
        if (!dependent && !result.empty()) {
            result.back().messages.insert(result.back().messages.end(), list.begin(), list.end());
            continue;
        }
        const std::optional<int> by = result.empty() ? std::nullopt : moved_by(result.back(), list);
        const auto goes_on = [&](exchange& e) {
            if (e.times == 1) e.moves = *by;
            return *by == e.moves * e.times;
        };
        if (by && goes_on(result.back())) ++result.back().times, ++result.back().startups;
        else result.push_back({.messages = list});
    }
    if (!dependent) result.back().startups = rounds;
    return result;
}

pattern read_off(const programs& all, int rounds) {
    pattern made{.size = all.size(), .reduced = std::vector<double>(at(all.size()))};
    const schedule first = all.of(0);
    for (const instr& i : first.instrs)
        if (is_stage(i.what)) made.handed_over = i.what;
    sent messages = read(all, 0, first, made.reduced.front());
    made.circulant = all.size() > policy.large_group && looks_circulant(all, messages, made.reduced.front());
    for (int position = 1; position < all.size() && !made.circulant && !made.handed_over; ++position)
        for (const auto& [step, list] : read(all, position, all.of(position), made.reduced[at(position)]))
            messages[step].insert(messages[step].end(), list.begin(), list.end());
    if (made.circulant) made.reduced.resize(1);
    if (!messages.empty()) made.exchanges = exchanges_of(messages, rounds);
    return made;
}

// Returns the pattern of a ring: in each of n - 1 steps every position sends an n-th to the next one.
pattern ring(int size, bool adds) {
    return {.size = size,
            .exchanges = {{{{0, 1, 1.0 / size}}, size - 1, size - 1}},
            .reduced = {adds ? (size - 1.0) / size : 0},
            .circulant = true};
}

// Returns the pattern of a chain: everything goes from the first position to the last, or back.
pattern chain(int size, bool adds) {
    const exchange::message away{0, 1, 1}, home{size - 1, size - 2, 1};
    pattern made{.size = size,
                 .exchanges = {{{adds ? home : away}, size - 1, size - 1, adds ? -1 : 1}},
                 .reduced = std::vector<double>(at(size), adds ? 1 : 0)};
    made.reduced.back() = 0;
    return made;
}

// Returns the pattern of a scatter from the first position, or a gather to it: all at once.
pattern star(int size, bool scatters) {
    pattern made{.size = size, .reduced = std::vector<double>(at(size))};
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
    return {
        .size = size, .exchanges = {std::move(all)}, .reduced = {adds ? part * (size + 1) / 3 : 0}, .circulant = true};
}

// Returns the pattern of rings through nodes, which a program would say at length: one step is like the other. Each
// ring has an equal part of all shards, or of the vector. To and from a root, at position 0, they begin at it.
pattern rings_of(const std::vector<int>& nodes, bool has_root, bool adds) {
    const std::size_t size = nodes.size();
    std::vector<std::vector<int>> orders = node_rings(nodes, static_cast<int>(size));
    for (std::vector<int>& order : orders)
        if (has_root) std::rotate(order.begin(), std::find(order.begin(), order.end(), 0), order.end());
    const double part = 1.0 / static_cast<double>(orders.size());
    pattern made{.size = static_cast<int>(size)};
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
            if (adds) made.reduced[at(order[to])] += part;
        }
    }
    return made;
}

bool same(const pattern& a, const pattern& b) {
    const auto near = [](double x, double y) { return std::abs(x - y) < 1e-9; };
    return a.exchanges == b.exchanges && a.circulant == b.circulant && std::ranges::equal(a.reduced, b.reduced, near);
}

// Returns the pattern of a group that is too large to be run position by position, where smaller ones show a ring, a
// chain, a star or a mesh.
std::optional<pattern> extrapolated(pattern_book& book, const algorithm& a, algorithm::generator emit, division d) {
    const int size = d.size;
    for (const auto guess : {ring, chain, star, mesh})
        for (const bool adds : {true, false}) {
            const auto holds = [&](int small) {
                d.size = small;
                return same(book.of(a, emit, d), guess(small, adds));
            };
            if (holds(policy.large_group + 1) && holds(policy.large_group + 2)) return guess(size, adds);
        }
    return {};
}

}  // namespace

bool pattern::adds() const noexcept {
    return std::ranges::any_of(reduced, [](double part) { return part > 0; });
}

bool pattern::is_ring() const {
    const auto to_next = [&](const exchange::message& m) { return wrap(m.to - m.from, size) == 1; };
    const auto all_to_next = [&](const exchange& e) {
        return e.messages.size() == (circulant ? 1 : at(size)) && std::ranges::all_of(e.messages, to_next);
    };
    return size > 2 && !exchanges.empty() && std::ranges::all_of(exchanges, all_to_next);
}

bool crowds(const algorithm& a, int size) noexcept {
    return size > policy.most_exchanges_at_once && a.graph == message_graph::all_at_once;
}

std::vector<range> shards_of(const division& d, int times) {
    std::vector<range> shards;
    for (int i = 0; i < d.size; ++i) {
        const std::int64_t begin = shards.empty() ? 0 : shards.back().end;
        shards.push_back({begin, begin + times * (d.parts.empty() ? 1 : d.parts[at(i)])});
    }
    return shards;
}

division division_of(const group& g) {
    constexpr std::int64_t usual = 1 << 20;  // parts with a common divisor are so many times that, at most
    constexpr double finest = 720720;        // which 2 to 16 divide
    const std::int64_t whole = g.whole().count();
    division d{.size = g.size(), .root = g.root()};
    const auto [least, most] = std::ranges::minmax(g.shards(), {}, &range::count);
    if (most.count() - least.count() <= (whole <= usual ? 0 : 1)) return d;
    std::int64_t common = 0;
    for (const range& shard : g.shards()) common = std::gcd(common, shard.count());
    const double unit = whole / common <= usual ? static_cast<double>(common) : static_cast<double>(whole) / finest;
    for (const range& shard : g.shards())
        d.parts.push_back(static_cast<int>(std::lround(static_cast<double>(shard.count()) / unit)));
    return d;
}

bool pattern_book::worth_a_look(const algorithm& a, mode how, int size) {
    if (crowds(a, size)) return false;
    if (size <= policy.largest_group) return true;
    const int root = how == mode::root ? 0 : group::no_root;
    return of(a, a.up(how), {.size = policy.large_group + 1, .root = root}).circulant ||
           extrapolated(*this, a, a.up(how), {.size = size, .root = root}).has_value();
}

const pattern& pattern_book::of(const algorithm& a, algorithm::generator emit, const division& d) {
    const auto [page, is_new] = pages_.try_emplace({emit, d});
    if (!is_new) return page->second;
    std::optional<pattern> known;
    if (!d.nodes.empty())
        known =
            rings_of(d.nodes, emit == a.reduce || emit == a.broadcast, emit == a.reduce || emit == a.reduce_scatter);
    else if (d.size > 2 * policy.large_group && d.parts.empty()) known = extrapolated(*this, a, emit, d);
    page->second = known ? std::move(*known) : read_off(programs(a, emit, d), a.startups(d.size));
    return page->second;
}

}  // namespace terrace::detail
