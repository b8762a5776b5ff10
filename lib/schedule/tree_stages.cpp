#include "schedule/tree_stages.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

// Adds the largest nodes in `within` that consist of the given places.
void add_largest(tree_node within, std::span<const int> places, std::vector<tree_node>& found) {
    if (places.empty()) return;
    if (static_cast<int>(places.size()) == within.length()) {
        found.push_back(within);
        return;
    }
    const auto middle = std::lower_bound(places.begin(), places.end(), within.middle());
    add_largest(within.left(), {places.begin(), middle}, found);
    add_largest(within.right(), {middle, places.end()}, found);
}

// Returns a provider's action on the way up of a stage that is not fused.
action own_action(mode how) {
    return how == mode::scatter ? action::stage_reduce_scatter
           : how == mode::root  ? action::stage_reduce
                                : action::stage_allreduce;
}

// Returns the part of the group's elements that a position has in the end.
range due_to(const group& g, mode how, int position) {
    if (how == mode::scatter) return g.shard(position);
    if (how == mode::root && g.wrapped(position) != g.root()) return {g.whole().begin, g.whole().begin};
    return g.whole();
}

range common(range a, range b) noexcept {
    const std::int64_t begin = std::max(a.begin, b.begin);
    return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Returns a part without a piece at one of its ends.
range without(range part, range piece) noexcept {
    if (piece.empty()) return part;
    return piece.begin == part.begin ? range{piece.end, part.end} : range{part.begin, piece.begin};
}

// Returns the place of `part`, if the range `all` is at `p`.
builder::place within(builder::place p, range all, range part) {
    const std::int64_t shift = p.part.begin - all.begin;
    p.part = {part.begin + shift, part.end + shift};
    return p;
}

}  // namespace

std::vector<tree_node> largest_nodes(std::span<const int> places, int all) {
    std::vector<tree_node> found;
    add_largest({0, all}, places, found);
    return found;
}

bool are_like_leaves(tree_node whole, std::span<const tree_node> parts) {
    if (parts.size() == 1) return true;
    const auto left = static_cast<std::size_t>(tree_node{0, static_cast<int>(parts.size())}.middle());
    if (parts[left].begin != whole.middle()) return false;
    return are_like_leaves(whole.left(), parts.first(left)) && are_like_leaves(whole.right(), parts.subspan(left));
}

const tree_stages::domain& tree_stages::domain_of(const composed_stage& s, const group& g) {
    const auto [known, is_new] = domains_.try_emplace(&s);
    if (!is_new) return known->second;
    std::map<int, std::vector<int>> places;
    for (const int member : g.members()) places[s.domains[at(member)]];
    for (int r = 0; r < c_.ranks; ++r)
        if (const auto child = places.find(s.domains[at(r)]); child != places.end())
            child->second.push_back(c_.tree[at(r)]);
    std::vector<int> all;
    for (auto& [child, of_child] : places) {
        std::sort(of_child.begin(), of_child.end());
        known->second.before[child] = largest_nodes(of_child, c_.ranks);
        all.insert(all.end(), of_child.begin(), of_child.end());
    }
    std::sort(all.begin(), all.end());
    known->second.after = largest_nodes(all, c_.ranks);
    return known->second;
}

bool tree_stages::may_hand_over(const composed_stage& s, const group& g) {
    if (!follows_buffers(s.by->provider) || !can_.runs(own_action(s.how), g)) return false;
    const domain& d = domain_of(s, g);
    nodes members;
    for (const int member : g.members()) {
        const nodes& held = d.before.at(s.domains[at(member)]);
        if (held.size() > 1) return false;
        members.push_back(held.front());
    }
    const auto in_order = [](tree_node a, tree_node b) { return a.end == b.begin; };
    return d.after.size() == 1 && members.front().begin == d.after.front().begin &&
           std::adjacent_find(members.begin(), members.end(), std::not_fn(in_order)) == members.end() &&
           are_like_leaves(d.after.front(), members);
}

// Each stage has new planes in scratch: members still read those of the stage before.
const std::vector<tree_stages::plane>& tree_stages::planes_after(const composed_stage& s, const group& g) {
    const std::size_t many = domain_of(s, g).after.size();
    if (next_.empty() && many == 1) next_.push_back(plane());
    while (next_.size() < many) next_.emplace_back(out_.scratch(c_.count).part.begin);
    return next_;
}

void tree_stages::exchange(const composed_stage& s, const group& g) {
    const domain& d = domain_of(s, g);
    const std::vector<plane>& from_planes = planes_before(s);
    const std::vector<plane>& to_planes = planes_after(s, g);
    const auto held_by = [&](int position) -> const nodes& { return d.before.at(s.domains[at(g.rank(position))]); };
    const bool by_shards = combines_shards(s, g);
    const std::vector<range> parts = parts_of(s, g, by_shards);
    const range mine = parts[at(g.position())];
    // Partial results that are not combined here go straight to their planes.
    const auto place_of = [&](tree_node n) {
        const auto stays = std::find(d.after.begin(), d.after.end(), n);
        return stays == d.after.end() ? builder::place(out_.scratch(mine.count()))
                                      : in_plane(to_planes[at(stays - d.after.begin())], mine);
    };
    std::vector<piece> pieces;
    const nodes& own = held_by(g.position());
    for (std::size_t j = 0; j < own.size(); ++j) pieces.push_back({own[j], in_plane(from_planes[j], mine)});
    for (int distance = 1; distance < g.size(); ++distance) {
        out_.next_step();
        const range theirs = parts[at(g.wrapped(g.position() + distance))];
        for (std::size_t j = 0; j < own.size(); ++j)
            out_.send(g.rank(g.position() + distance), in_plane(from_planes[j], theirs));
        for (const tree_node n : held_by(g.position() - distance)) {
            pieces.push_back({n, place_of(n)});
            out_.recv(g.rank(g.position() - distance), pieces.back().where);
        }
    }
    out_.next_step();
    std::sort(pieces.begin(), pieces.end(), [](const piece& a, const piece& b) { return a.node.begin < b.node.begin; });
    const auto combine_all = [&](range part) {
        for (std::size_t q = 0, first = 0; q < d.after.size(); ++q) {
            std::vector<piece> of_node;
            for (; first < pieces.size() && pieces[first].node.begin < d.after[q].end; ++first)
                of_node.push_back({pieces[first].node, within(pieces[first].where, mine, part)});
            combine(in_plane(to_planes[q], part), d.after[q], of_node);
        }
    };
    const range due = due_to(g, s.how, g.position()), own_part = common(mine, due),
                for_another = without(mine, own_part);
    combine_all(for_another);
    const bool completes = d.after.front().length() == c_.ranks;
    if (completes && !for_another.empty()) out_.completes_for_another();
    combine_all(own_part);
    if (!by_shards && (s.how != mode::scatter || parts == g.shards())) return;
    for (int distance = 1; distance < g.size(); ++distance) {
        out_.next_step();
        const int to = g.position() + distance, from = g.position() - distance;
        for (const plane& p : to_planes) {
            out_.send(g.rank(to), in_plane(p, common(mine, due_to(g, s.how, to))));
            out_.recv(g.rank(from), in_plane(p, common(parts[at(g.wrapped(from))], due)));
        }
    }
}

// Returns the part that each position combines.
std::vector<range> tree_stages::parts_of(const composed_stage& s, const group& g, bool by_shards) {
    std::vector<range> parts;
    for (int p = 0; p < g.size(); ++p) parts.push_back(by_shards ? g.shard(p) : due_to(g, s.how, p));
    if (g.size() == 2 && (by_shards || s.how == mode::scatter)) {
        const std::int64_t cut = even_cut(s, g);
        parts = {{g.whole().begin, cut}, {cut, g.whole().end}};
    }
    return parts;
}

// The first of two members combines c of n elements, the other one the rest. They have h0 and h1 partial results, and k
// afterwards; e of the elements are due to the first one alone. Links transfer h1 for each of the c, h0 for each of the
// others, and k for each element due where it is not combined. Both directions are equal if
//
//     h1 c + k (e - c) = h0 (n - c)                 each is due to one member, here c <= e
//     h1 c + k (n - c) = h0 (n - c) + k c           all are due to both
std::int64_t tree_stages::even_cut(const composed_stage& s, const group& g) {
    const domain& d = domain_of(s, g);
    const auto held = [&](int position) { return std::ssize(d.before.at(s.domains[at(g.rank(position))])); };
    const range all = g.whole();
    const std::int64_t h0 = held(0), h1 = held(1), k = std::ssize(d.after), n = all.count();
    const std::int64_t e = s.how == mode::scatter ? g.shard(0).count() : g.root() == 0 ? n : 0;
    const bool to_both = s.how == mode::replicate;
    const std::int64_t above = to_both ? (h0 - k) * n : h0 * n - k * e, below = h0 + h1 - (to_both ? 2 * k : k);
    if (below <= 0) return g.shard(0).end;
    const std::int64_t c = std::clamp(above / below, std::int64_t{0}, n);
    const bool saves = s.how != mode::scatter || (c < e ? h1 : h0) > k;
    return saves && std::abs(c - g.shard(0).count()) >= least_moved ? all.begin + c : g.shard(0).end;
}

// Returns true if each member combines its shard for the receivers, false if the receivers combine everything:
// whichever moves fewer bytes in all. True only in modes root and replicate.
bool tree_stages::combines_shards(const composed_stage& s, const group& g) {
    if (s.how == mode::scatter) return false;
    const domain& d = domain_of(s, g);
    std::size_t held = 0;
    for (const int member : g.members()) held += d.before.at(s.domains[at(member)]).size();
    if (s.how == mode::root) held -= d.before.at(s.domains[at(g.rank(g.root()))]).size();
    const std::size_t members = at(g.size()), others = s.how == mode::root ? members - 1 : members;
    return held + others * d.after.size() < members * held;
}

// Emits one reduction if the tree of the pieces is that of the node; else combines each half, then the two.
void tree_stages::combine(builder::place dst, tree_node node, std::span<const piece> pieces) {
    if (dst.part.empty()) return;
    nodes parts;
    std::vector<builder::place> sources;
    for (const piece& p : pieces) parts.push_back(p.node), sources.push_back(p.where);
    if (are_like_leaves(node, parts)) return out_.reduce(dst, sources);
    const auto right =
        std::find_if(pieces.begin(), pieces.end(), [&](const piece& p) { return p.node.begin >= node.middle(); });
    const auto half = [&](tree_node child, std::span<const piece> of) {
        if (of.size() == 1) return of.front().where;
        const builder::place made = out_.scratch(dst.part.count());
        combine(made, child, of);
        return made;
    };
    const builder::place left_sum = half(node.left(), {pieces.begin(), right});
    const builder::place right_sum = half(node.right(), {right, pieces.end()});
    out_.reduce(dst, {left_sum, right_sum});
}

}  // namespace terrace::detail
