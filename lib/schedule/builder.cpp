#include "schedule/builder.hpp"

#include <array>
#include <map>

#include "base/index.hpp"
#include "schedule/interval_map.hpp"

namespace terrace::detail {

namespace {

constexpr std::string_view action_names[]{"send",
                                          "recv",
                                          "recv_reduce",
                                          "copy",
                                          "reduce",
                                          "encode",
                                          "decode",
                                          "stage_reduce_scatter",
                                          "stage_allgather",
                                          "stage_allreduce",
                                          "stage_reduce",
                                          "stage_broadcast",
                                          "stage_scatter",
                                          "stage_gather"};
static_assert(std::size(action_names) == static_cast<std::size_t>(last_action) + 1);

// Data that a member of a group passes in to a stage, or gets from it.
enum class part { nothing, shard, whole };
struct passage {
    part gives, gets;
};

// A stage, with the passages of its root and of the others.
struct stage_row {
    action what;
    passage root, other;
};
constexpr std::array stage_rows{
    stage_row{action::stage_reduce_scatter, {part::whole, part::shard}, {part::whole, part::shard}},
    stage_row{action::stage_allgather, {part::shard, part::whole}, {part::shard, part::whole}},
    stage_row{action::stage_allreduce, {part::whole, part::whole}, {part::whole, part::whole}},
    stage_row{action::stage_reduce, {part::whole, part::whole}, {part::whole, part::nothing}},
    stage_row{action::stage_broadcast, {part::whole, part::nothing}, {part::nothing, part::whole}},
    stage_row{action::stage_scatter, {part::whole, part::nothing}, {part::nothing, part::shard}},
    stage_row{action::stage_gather, {part::shard, part::whole}, {part::shard, part::nothing}},
};

const passage& passage_of(action stage, bool is_root) {
    const stage_row& row = *std::ranges::find(stage_rows, stage, &stage_row::what);
    return is_root ? row.root : row.other;
}

range range_of(part p, const group& g) {
    const range whole = g.whole();
    return p == part::whole ? whole : p == part::shard ? g.own_shard() : range{whole.begin, whole.begin};
}

}  // namespace

std::string_view to_string(action a) noexcept { return action_names[static_cast<std::size_t>(a)]; }

std::optional<int> complete_rank(collective what, const group& g) noexcept {
    if (what != collective::broadcast || g.root() == group::no_root) return {};
    return g.rank(g.root());
}

builder::builder(int rank, int ranks, collective what, std::int64_t count, vector_home home) {
    out_.rank = rank;
    out_.ranks = ranks;
    out_.what = what;
    out_.count = count;
    out_.home = home;
    if (home.where == buffer::scratch) out_.scratch = count;
    out_.phases.push_back({});
}

// A phase of a route may begin again, since routes run side by side.
void builder::begin_phase(phase p) {
    if (p.route == 0 || out_.phases[phase_].route == 0) ++turn_;
    const auto begun = p.route == 0 ? out_.phases.end() : std::find(out_.phases.begin(), out_.phases.end(), p);
    phase_ = static_cast<std::size_t>(begun - out_.phases.begin());
    if (begun == out_.phases.end()) out_.phases.push_back(p);
}

void builder::begin_counted(int rank, bool shards_equal) noexcept {
    out_.rank = rank;
    out_.instrs.clear();
    out_.groups.clear();
    out_.sources.clear();
    times_of_.clear();
    step_ = 0;
    counts_ = true;
    folds_ = shards_equal;
}

instr& builder::emit(action what, int peer) {
    if (counts_) times_of_.push_back(times_);
    instr& i = out_.instrs.emplace_back();
    i.what = what;
    i.phase = static_cast<std::uint16_t>(phase_);
    i.step = step_;
    i.peer = peer;
    return i;
}

void builder::send(int peer, place src) {
    if (src.part.empty() || peer == role_.complete) return;
    const operand from = role_.wire == wire_type::exact ? at(src) : encoded(at(src));
    instr& i = emit(action::send, peer);
    i.src = from;
    i.wire = role_.wire;
}

// Returns the encoded data, which are encoded once for all receivers. On the way down the owner of a result decodes
// them, too: all ranks then have the same bits.
operand builder::encoded(const operand& plain) {
    for (const auto& [what, there] : encoded_)
        if (what == plain) return there;
    const auto convert = [&](action what, const operand& dst, const operand& src) {
        instr& i = emit(what, -1);
        i.dst = dst;
        i.src = src;
        i.wire = role_.wire;
    };
    const operand there = wire(plain.part.count());
    convert(action::encode, there, plain);
    if (out_.phases[phase_].down) convert(action::decode, plain, there);
    encoded_.emplace_back(plain, there);
    return there;
}

void builder::recv(int peer, place dst) {
    if (dst.part.empty() || out_.rank == role_.complete) return;
    if (role_.adds && out_.rank == role_.adds->rank) {
        recv_reduce(peer, dst.part);
        out_.instrs.back().completes = role_.adds->completes;
        return;
    }
    const operand to = role_.wire == wire_type::exact ? at(dst) : wire(dst.part.count());
    instr& i = emit(action::recv, peer);
    i.dst = to;
    i.wire = role_.wire;
    if (role_.wire == wire_type::exact) return;
    instr& plain = emit(action::decode, -1);
    plain.dst = at(dst);
    plain.src = to;
    plain.wire = role_.wire;
}

void builder::copy(place dst, place src) {
    if (dst.part.empty() || at(dst) == at(src)) return;
    instr& i = emit(action::copy, -1);
    i.dst = at(dst);
    i.src = at(src);
}

void builder::reduce(place dst, std::span<const place> sources) {
    if (dst.part.empty()) return;
    if (sources.size() == 1) return copy(dst, sources.front());
    instr& i = emit(action::reduce, -1);
    i.dst = at(dst);
    add_sources(i, sources);
}

void builder::run_by_provider(provider by, action stage, const group& g) {
    if (g.whole().empty() || g.size() < 2) return;
    const bool delivers = role_.delivers && out_.home.where == buffer::scratch;
    passage moves = passage_of(stage, g.is_root());
    // The root of a broadcast also gets its own vector if the result is in another buffer.
    if (stage == action::stage_broadcast && delivers) moves.gets = part::whole;
    const range gets = range_of(moves.gets, g);
    instr& i = emit(stage, static_cast<int>(out_.groups.size()));
    i.src = at(range_of(moves.gives, g));
    i.dst = at(gets);
    if (delivers) i.dst.where = buffer::recv;
    if (stage == action::stage_allreduce) {
        i.completes = role_.outermost;
        if (role_.by_shards) add_sources(i, std::array{place(g.own_shard())});
    } else if (reduces(stage) && moves.gets != part::nothing && follows_buffers(by)) {
        add_sources(i, std::array{place(gets)});
    }
    i.channel = stage_number(turn_, g.ordinal());
    i.by = by;
    out_.groups.push_back(g);
}

void builder::deliver() {
    if (out_.home.where != buffer::scratch) return;
    interval_set there;
    for (const instr& i : out_.instrs)
        if (i.dst.where == buffer::recv) there.add(i.dst.part);
    for (const range missing : there.gaps({0, out_.count})) copy(operand{buffer::recv, missing}, missing);
}

void builder::repeat(const schedule& from, const instr& i) {
    // Undoes the changes of read_caller_until_written(); finish() makes them again if they are still needed.
    const bool redirects = from.home.starts_in_send;
    if (redirects && i.what == action::copy && in_vector(i.dst) && i.src == operand{buffer::send, i.dst.part}) return;
    const auto original = [&](operand o) {
        return redirects && o.where == buffer::send ? operand{from.home.where, o.part} : o;
    };
    instr& made = emit(i.what, i.peer);
    made.dst = i.dst;
    made.src = original(i.src);
    made.completes = i.completes;
    made.wire = i.wire;
    if (i.sources > 0) {
        made.first_source = static_cast<std::uint32_t>(out_.sources.size());
        made.sources = i.sources;
        for (const operand& o : from.sources_of(i)) out_.sources.push_back(original(o));
    }
    if (is_stage(i.what)) {
        made.peer = static_cast<int>(out_.groups.size());
        made.channel = i.channel;
        made.by = i.by;
        out_.groups.push_back(from.groups[static_cast<std::size_t>(i.peer)]);
    }
}

schedule builder::finish() {
    // Groups that run side by side are emitted one after the other; program order is by step.
    std::ranges::stable_sort(out_.instrs, {}, &instr::step);
    if (out_.home.starts_in_send) read_caller_until_written();
    mark_completions();
    infer_order();
    number_channels();
    measure_buffers();
    return std::exchange(out_, {});
}

// The vector starts in the caller's send buffer. An operand without written elements is read from there; if some are
// written, the others are copied to the home first. In a stage, peers must read the same buffer on all ranks: send in a
// first stage with home recv, else the home, to which unwritten elements are copied.
void builder::read_caller_until_written() {
    interval_set written;
    std::vector<instr> program;
    program.reserve(out_.instrs.size() + 1);
    // Copies the unwritten elements of a part to the vector's home, with the phase and step of an instruction.
    const auto complete = [&](range part, const instr& before) {
        for (const range missing : written.gaps(part))
            program.push_back({.phase = before.phase,
                               .step = before.step,
                               .dst = {out_.home.where, missing},
                               .src = {buffer::send, missing}});
        written.add(part);
    };
    const auto redirect = [&](operand& o, const instr& reader) {
        if (!in_vector(o) || o.part.empty()) return;
        if (written.touches(o.part)) complete(o.part, reader);
        else o.where = buffer::send;
    };
    const auto expose = [&](instr& i) {
        // On all ranks the first stage, and no later one, finds the whole vector in send.
        const phase& at = out_.phases[i.phase];
        const bool gives_all = i.what != action::stage_scatter;  // a scatter leaves the root's own shard in the home
        if (out_.home.where == buffer::recv && at.stage == 0 && !at.down && gives_all) return redirect(i.src, i);
        // No peer reads the part in sources[0].
        const range own = i.sources > 0 ? out_.sources[i.first_source].part : range{i.src.part.end, i.src.part.end};
        complete({i.src.part.begin, own.begin}, i);
        complete({own.end, i.src.part.end}, i);
    };
    for (instr i : out_.instrs) {
        if (is_stage(i.what)) expose(i);
        else redirect(i.src, i);
        for (std::uint32_t s = 0; s < i.sources; ++s) redirect(out_.sources[i.first_source + s], i);
        if (in_vector(i.dst)) written.add(i.dst.part);
        program.push_back(i);
    }
    // Elements that no instruction wrote (on one rank alone) are the result unchanged.
    if (out_.home.where == buffer::recv) complete({0, out_.count}, program.empty() ? instr{} : instr{program.back()});
    out_.instrs = std::move(program);
}

// The last write on the way up leaves the final value of an owned element. If a reduction wrote it, it completed the
// sum. (Ranks that folded into another receive it. An allreduce stage completes the same elements on all ranks.)
void builder::mark_completions() {
    interval_set settled;
    for (auto i = out_.instrs.rbegin(); i != out_.instrs.rend(); ++i) {
        if (i->what == action::send || out_.phases[i->phase].down) continue;
        if (!in_vector(i->dst) && !is_stage(i->what)) continue;
        for (const range& mine : out_.owned) {
            if (!mine.overlaps(i->dst.part) || settled.gaps(i->dst.part).empty()) continue;
            if (i->what != action::stage_allreduce) i->completes = mine.contains(i->dst.part) && reduces(i->what);
            settled.add({std::max(mine.begin, i->dst.part.begin), std::min(mine.end, i->dst.part.end)});
        }
    }
}

// An instruction waits for the last writer of the elements that it reads, and for the last writer and all later readers
// of those that it writes. If the vector starts in send, send and recv count as one buffer: in place they are the same
// memory. Otherwise data go from send to recv through scratch, or stay at their place, and need no more order.
void builder::infer_order() {
    constexpr std::uint32_t nobody = ~0u;
    struct reading {
        std::uint32_t reader, earlier;  // previous reading of the same elements
    };
    struct accesses {
        std::uint32_t writer = nobody, readings = nobody;  // last reading since the writer
    };
    std::array<known_intervals<accesses>, buffers> memory;  // by buffer
    const auto space = [&](const operand& o) -> known_intervals<accesses>& {
        const bool one = out_.home.starts_in_send && o.where == buffer::send;
        return memory[static_cast<std::size_t>(one ? buffer::recv : o.where)];
    };
    for (const instr& i : out_.instrs) {
        for (const operand& o : {i.src, i.dst}) space(o).expect(o.part);
        for (const operand& o : out_.sources_of(i)) space(o).expect(o.part);
    }
    for (known_intervals<accesses>& of_buffer : memory) of_buffer.begin();

    std::vector<reading> readings;
    std::vector<std::uint32_t> before;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> order;
    for (std::uint32_t me = 0; me < out_.instrs.size(); ++me) {
        instr& i = out_.instrs[me];
        const auto wait_for = [&](std::uint32_t other) {
            if (other != nobody && other != me) before.push_back(other);
        };
        const auto read = [&](const operand& o) {
            space(o).update(o.part, [&](accesses& a) {
                wait_for(a.writer);
                readings.push_back({me, a.readings});
                a.readings = static_cast<std::uint32_t>(readings.size()) - 1;
            });
        };
        before.clear();
        read(i.src);
        for (const operand& o : out_.sources_of(i)) read(o);
        space(i.dst).update(i.dst.part, [&](accesses& a) {
            wait_for(a.writer);
            for (std::uint32_t r = a.readings; r != nobody; r = readings[r].earlier) wait_for(readings[r].reader);
            a = {me, nobody};
        });
        keep_different(before);
        i.waits = static_cast<std::uint32_t>(before.size());
        for (const std::uint32_t b : before) {
            order.emplace_back(b, me);
            ++out_.instrs[b].successors;
        }
    }
    std::uint32_t all = 0;
    for (instr& i : out_.instrs) {
        i.first_successor = all;
        all += std::exchange(i.successors, 0);
    }
    out_.successors.resize(all);
    for (const auto& [first, next] : order) {
        instr& i = out_.instrs[first];
        out_.successors[i.first_successor + i.successors++] = next;
    }
}

void builder::measure_buffers() {
    const auto reach = [&](const operand& o) {
        if (o.where == buffer::send) out_.send = std::max(out_.send, o.part.end);
        if (o.where == buffer::recv) out_.recv = std::max(out_.recv, o.part.end);
    };
    for (const instr& i : out_.instrs) {
        reach(i.dst);
        reach(i.src);
        for (const operand& o : out_.sources_of(i)) reach(o);
    }
}

// Both ends count the messages between them in program order, which is the order of steps at both.
void builder::number_channels() {
    std::map<int, int> sent, received;
    for (instr& i : out_.instrs) {
        if (i.what == action::send) i.channel = sent[i.peer]++;
        if (i.what == action::recv || i.what == action::recv_reduce) i.channel = received[i.peer]++;
    }
}

}  // namespace terrace::detail
