// Execution plans of MSCCL++ (src/core/executor there). For each GPU, thread blocks have lists of operations on chunks
// of its own buffers and of its peers'. Here a GPU's operations run in order: a longer list continues in the next
// thread block, after a barrier.

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/text_parts.hpp"
#include "schedule/lane_code.hpp"
#include "tools/terrace/exports/formats.hpp"
#include "topology/formats/json_file.hpp"

namespace terrace::detail {

namespace {

using json = nlohmann::ordered_json;

// Limits of MSCCL++'s executor.
constexpr std::size_t most_operations = 64, most_channels = 16, most_barriers = 16, most_channels_at_once = 8,
                      most_sources = 10;

constexpr std::array<std::pair<collective, std::string_view>, 3> names{{{collective::allreduce, "allreduce"},
                                                                        {collective::reduce_scatter, "reducescatter"},
                                                                        {collective::allgather, "allgather"}}};
constexpr std::string_view letters = "ios";  // of the buffers send, recv and scratch

// ---- Writing.

// One direction between two ranks. Both ends have a channel: one signals data, the other that data may be sent.
struct way {
    int from, to;
    auto operator<=>(const way&) const = default;
};

// A part of a buffer of a peer (or of the rank itself: -1).
struct place {
    operand what;
    int peer = -1;
};

struct operation {
    std::string_view name;
    std::vector<place> src = {}, dst = {};
    std::vector<way> ways = {};  // channels to signal, to wait for, or to use
    bool port = false;
};

// The schedules of all ranks, and the memory in which received data land.
class landing {
public:
    explicit landing(const std::vector<schedule>& all) {
        for (const schedule& s : all) {
            std::int64_t scratch = s.scratch;
            for (std::size_t n = 0; n < s.instrs.size(); ++n) {
                const instr& i = s.instrs[n];
                if (i.what != action::recv && i.what != action::recv_reduce) continue;
                spot here{i.dst, i.what == action::recv && i.waits > 0};
                if (i.what == action::recv_reduce) {  // in separate scratch, and reduced from there
                    here.where = {buffer::scratch, {scratch, scratch + i.dst.part.count()}};
                    scratch = here.where.part.end;
                }
                spots_.emplace(std::tuple(i.peer, s.rank, i.channel), here);
                ways_.insert({i.peer, s.rank});
            }
            scratch_.push_back(scratch);
        }
    }

    struct spot {
        operand where;
        bool asked;  // the sender waits until the receiver is ready
    };
    const spot& of(const way& w, int channel) const { return spots_.at({w.from, w.to, channel}); }
    const std::set<way>& ways() const { return ways_; }
    std::int64_t scratch(int rank) const { return scratch_[at(rank)]; }

private:
    std::map<std::tuple<int, int, int>, spot> spots_;  // by from, to and channel
    std::set<way> ways_;
    std::vector<std::int64_t> scratch_;
};

// Translates the program of one rank to operations, step by step.
class translator {
public:
    translator(const schedule& s, const landing& lands, const hierarchy& machine)
        : s_(s), lands_(lands), machine_(machine), done_(s.instrs.size()), asked_(s.instrs.size()) {}

    std::vector<operation> operations() {
        // A rank may write only to peers that have begun the call.
        for (const way& w : lands_.ways())
            if (w.to == s_.rank) signal(w);
        std::vector<std::vector<std::size_t>> before(s_.instrs.size());
        for (std::size_t n = 0; n < s_.instrs.size(); ++n)
            for (const std::uint32_t next : s_.successors_of(s_.instrs[n])) before[next].push_back(n);
        for (std::size_t begin = 0, end = 0; begin < s_.instrs.size(); begin = end) {
            while (end < s_.instrs.size() && s_.instrs[end].step == s_.instrs[begin].step) ++end;
            while (!run_some(begin, end, before)) {}
        }
        return std::move(out_);
    }

private:
    bool port_to(int peer) const {
        const int node = machine_.node_levels() - 1;
        return machine_.shape.domain_of(node, peer) != machine_.shape.domain_of(node, s_.rank);
    }

    // Runs a part of a step. The order is: requests for data before any wait, local instructions, sends, then received
    // data. Returns true at the end of the step.
    bool run_some(std::size_t begin, std::size_t end, const std::vector<std::vector<std::size_t>>& before) {
        for (const auto kind : {lane_code::kind::receive, lane_code::kind::local, lane_code::kind::send})
            if (start(kind, begin, end, before)) return false;
        for (std::size_t n = begin; n < end; ++n)
            if (asked_[n] && !done_[n]) {
                arrive(s_.instrs[n]);
                done_[n] = true;
            }
        return std::all_of(done_.begin() + static_cast<std::ptrdiff_t>(begin),
                           done_.begin() + static_cast<std::ptrdiff_t>(end), [](bool done) { return done; });
    }

    // Starts the first instruction of a kind that waits for nothing. Messages in one direction keep their order.
    bool start(lane_code::kind kind, std::size_t begin, std::size_t end,
               const std::vector<std::vector<std::size_t>>& before) {
        std::set<int> held;
        for (std::size_t n = begin; n < end; ++n) {
            const instr& i = s_.instrs[n];
            if (kind_of(i.what) != kind || done_[n] || asked_[n]) continue;
            if (held.contains(i.peer) || !std::ranges::all_of(before[n], [&](std::size_t b) { return done_[b]; })) {
                if (i.peer >= 0) held.insert(i.peer);
                continue;
            }
            if (kind != lane_code::kind::receive) {
                run(i);
                done_[n] = true;
            } else {
                asked_[n] = true;
                if (lands_.of({i.peer, s_.rank}, i.channel).asked) signal({i.peer, s_.rank});
            }
            return true;
        }
        return false;
    }

    void run(const instr& i) {
        if (i.what == action::copy) return add({.name = "copy", .src = {{i.src}}, .dst = {{i.dst}}});
        if (i.what == action::reduce) {
            operation o{.name = "re", .dst = {{i.dst}}};
            for (const operand& source : s_.sources_of(i)) o.src.push_back({source});
            if (o.src.size() > most_sources)
                throw usage_error(
                    fmt::format("terrace export: --to mscclpp: a reduction of {} operands; its "
                                "operations take {}",
                                o.src.size(), most_sources));
            return add(std::move(o));
        }
        const way w{s_.rank, i.peer};
        const landing::spot& spot = lands_.of(w, i.channel);
        if (met_.insert(i.peer).second) wait(w);
        if (spot.asked) wait(w);
        const bool port = port_to(i.peer);
        add({.name = port ? "pwsf" : "put",
             .src = {{i.src}},
             .dst = {{spot.where, i.peer}},
             .ways = {w},
             .port = port});
        if (!port) signal(w);
    }

    void arrive(const instr& i) {
        const way w{i.peer, s_.rank};
        wait(w);
        if (i.what == action::recv) return;
        add({.name = "re", .src = {{i.src}, {lands_.of(w, i.channel).where}}, .dst = {{i.dst}}});
    }

    void signal(const way& w) { synchronise("signal", w); }
    void wait(const way& w) { synchronise("wait", w); }

    void synchronise(std::string_view name, const way& w) {
        const bool port = port_to(w.from == s_.rank ? w.to : w.from);
        if (!out_.empty() && out_.back().name == name && out_.back().port == port &&
            out_.back().ways.size() < most_channels_at_once &&
            std::ranges::find(out_.back().ways, w) == out_.back().ways.end())
            out_.back().ways.push_back(w);
        else add({.name = name, .ways = {w}, .port = port});
    }

    // The threads of a block share an operation, and synchronise between two operations.
    void add(operation o) {
        if (!out_.empty()) out_.push_back({.name = "nop"});
        out_.push_back(std::move(o));
    }

    const schedule& s_;
    const landing& lands_;
    const hierarchy& machine_;
    std::vector<bool> done_, asked_;  // by instruction; asked: for receives, the sender may send
    std::set<int> met_;               // peers that have signalled the beginning of the call
    std::vector<operation> out_;
};

// Writes one GPU of the file.
class gpu_writer {
public:
    gpu_writer(int rank, const landing& lands) : rank_(rank), lands_(lands) {}

    json write(const std::vector<operation>& operations, std::int64_t input, std::int64_t output) {
        for (const operation& o : operations) number(o);
        json blocks = json::array();
        for (std::size_t next = 0; next < operations.size();) blocks.push_back(block(operations, next, blocks.size()));
        if (blocks.size() > most_barriers + 1)
            throw usage_error(
                fmt::format("terrace export: --to mscclpp: rank {} needs {} thread blocks of {} "
                            "operations; MSCCL++ has barriers between {}",
                            rank_, blocks.size(), most_operations, most_barriers + 1));
        json channels = json::array(), remote = json::array();
        for (const bool port : {false, true}) {
            json peers = json::array();
            for (const way& w : channels_[port]) peers.push_back(w.from == rank_ ? w.to : w.from);
            if (!peers.empty()) channels.push_back({{"channel_type", kind(port)}, {"connected_to", peers}});
        }
        for (const remote_buffer& b : remote_)
            remote.push_back({{"rank", b.rank}, {"type", letter(b.where)}, {"access_channel_types", {kind(b.port)}}});
        return {{"id", rank_},
                {"input_chunks", input},
                {"output_chunks", output},
                {"scratch_chunks", lands_.scratch(rank_)},
                {"threadblocks", blocks},
                {"channels", channels},
                {"remote_buffers", remote},
                {"semaphores", json::array()}};
    }

private:
    struct remote_buffer {
        int rank;
        buffer where;
        bool port;
        bool operator==(const remote_buffer&) const = default;
    };

    static const char* kind(bool port) { return port ? "port" : "memory"; }
    static std::string letter(buffer b) { return {letters[static_cast<std::size_t>(b)]}; }

    // Channels to a peer have the same order at both ends.
    void number(const operation& o) {
        for (const way& w : o.ways) {
            std::vector<way>& all = channels_[o.port];
            const auto peer = [&](const way& x) { return std::pair(x.from == rank_ ? x.to : x.from, x); };
            const auto there = std::ranges::lower_bound(all, peer(w), {}, peer);
            if (there == all.end() || *there != w) all.insert(there, w);
        }
        for (const place& p : o.dst)
            if (const remote_buffer b{p.peer, p.what.where, o.port}; p.peer >= 0 && !std::ranges::count(remote_, b))
                remote_.push_back(b);
    }

    template <class Value>
    static std::size_t local(std::vector<Value>& known, const Value& value) {
        const auto found = std::ranges::find(known, value);
        if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
        known.push_back(value);
        return known.size() - 1;
    }

    // Returns a thread block with as many operations as it can hold, from `next` on.
    json block(const std::vector<operation>& operations, std::size_t& next, std::size_t id) {
        std::array<std::vector<way>, 2> ways;
        std::array<std::vector<remote_buffer>, 2> buffers;
        json list = json::array();
        const auto barrier = [&](std::size_t number) {
            list.push_back({{"name", "barrier"}, {"barrier_id", number}, {"num_threadblocks", 2}});
        };
        if (id > 0) barrier(id - 1);
        for (; next < operations.size(); ++next) {
            const operation& o = operations[next];
            auto more_ways = ways;
            auto more_buffers = buffers;
            json made{{"name", o.name}};
            const auto places = [&](const char* name, const std::vector<place>& all) {
                for (const place& p : all) {
                    json one;
                    if (p.peer < 0) one["type"] = letter(p.what.where);
                    else one["buffer_id"] = local(more_buffers[o.port], {p.peer, p.what.where, o.port});
                    one["index"] = p.what.part.begin;
                    one["size"] = p.what.part.count();
                    made[name].push_back(one);
                }
            };
            places("src_buff", o.src);
            places("dst_buff", o.dst);
            for (const way& w : o.ways) made["channel_ids"].push_back(local(more_ways[o.port], w));
            if (!o.ways.empty()) made["channel_type"] = kind(o.port);
            if (o.name == "re") made["reduce_op"] = "sum";
            // One place is left for the barrier at the end.
            if (list.size() + 1 >= most_operations || more_ways[o.port].size() > most_channels ||
                more_buffers[o.port].size() > most_channels)
                break;
            ways = more_ways;
            buffers = more_buffers;
            list.push_back(made);
        }
        if (next < operations.size()) barrier(id);
        json channels = json::array(), refs = json::array();
        for (const bool port : {false, true}) {
            json ids = json::array(), remote = json::array();
            for (const way& w : ways[port]) ids.push_back(local(channels_[port], w));
            for (const remote_buffer& b : buffers[port]) remote.push_back(local(remote_, b));
            if (!ids.empty()) channels.push_back({{"channel_type", kind(port)}, {"channel_ids", ids}});
            if (!remote.empty()) refs.push_back({{"access_channel_type", kind(port)}, {"remote_buffer_ids", remote}});
        }
        return {{"id", id}, {"ops", list}, {"channels", channels}, {"remote_buffer_refs", refs}};
    }

    int rank_;
    const landing& lands_;
    std::array<std::vector<way>, 2> channels_;  // memory channels, port channels
    std::vector<remote_buffer> remote_;
};

// Returns a number of chunks that the stages divide evenly: a multiple of every domain size of each level.
std::int64_t even_chunks(const tree& shape) {
    std::int64_t all = 1;
    for (const std::vector<int>& level : shape.children()) {
        std::int64_t of_level = 1;
        for (const int children : level) of_level = std::lcm(of_level, std::int64_t{children});
        all *= of_level;
        if (all > 4096) return shape.ranks();  // then the division is only nearly even
    }
    return all;
}

// ---- Reading.

constexpr std::int64_t most_chunks = std::int64_t{1} << 32;
constexpr std::size_t most_instructions = 1'000'000, most_gpus = 4096, most_values = 4'000'000;
constexpr std::int64_t most_parts = 1 << 16;

// A value in the file.
class value {
public:
    value(const json_file& file, const json_value& of) : file_(&file), of_(&of) {}

    [[noreturn]] void fail(const std::string& why) const { file_->fail(*of_, why); }
    bool has(const char* key) const { return of_->find(key) != nullptr; }
    value at(const char* key) const {
        if (!has(key)) fail(fmt::format("no {:?}", key));
        return {*file_, *of_->find(key)};
    }
    std::vector<value> items() const {
        if (of_->what != json_value::kind::list) fail("no list");
        std::vector<value> all;
        for (const json_value& one : of_->items) all.emplace_back(*file_, one);
        return all;
    }
    std::vector<value> items(const char* key) const { return has(key) ? at(key).items() : std::vector<value>{}; }
    std::int64_t number(std::int64_t least, std::int64_t most) const {
        const auto found = as_number<std::int64_t>(of_->text);
        if (of_->what != json_value::kind::number || !found || *found < least || *found > most)
            fail(fmt::format("no whole number from {} to {}", least, most));
        return *found;
    }
    std::string text() const { return of_->what == json_value::kind::text ? of_->text : (fail("no text"), ""); }
    bool flag() const {
        if (of_->what != json_value::kind::flag) fail("neither true nor false");
        return of_->text == "true";
    }
    bool is_port() const {
        const std::string kind = text();
        if (kind != "memory" && kind != "port") fail(fmt::format("channels of type {:?} are not read", kind));
        return kind == "port";
    }

private:
    const json_file* file_;
    const json_value* of_;
};

// Runs all thread blocks, in any order that signals and barriers allow, and collects their memory accesses. An access
// to a peer's memory is an instruction of the peer. It follows the peer's instructions before its signal, and it is
// complete when the peer has waited for a later signal.
class plan_reader {
public:
    explicit plan_reader(const named_text& file)
        : name_(file.name), file_(file.name, file.text, nullptr, most_values), all_(file_, file_.root()) {}

    call_program read() {
        const std::vector<value> gpus = all_.at("gpus").items();
        if (gpus.empty() || gpus.size() > most_gpus) all_.at("gpus").fail(fmt::format("{} GPUs", gpus.size()));
        for (const value& g : gpus)
            for (const value& threads : g.at("threadblocks").items())
                for (const value& op : threads.at("ops").items()) read_group(op);
        read_head(gpus);
        read_channels(gpus);
        for (std::size_t r = 0; r < gpus.size(); ++r) read_blocks(gpus[r], static_cast<int>(r));
        while (std::ranges::any_of(blocks_, [&](block& b) { return advance(b); })) {}
        check_end();
        return collected_->finish(name_);
    }

private:
    struct channel {
        bool port = false;
        int peer = 0;
        std::size_t partner = 0;  // index among the peer's channels
    };
    using way = std::pair<int, int>;  // direction to a peer: the peer, and -1 or a port channel
    struct signal {
        std::vector<int> position;  // instructions of the signalling rank that are done before
        std::vector<int> accesses;  // instructions of the peer, done for the signalling rank
        std::vector<std::pair<std::pair<std::size_t, way>, int>> counts;  // by block and way: their number so far
    };
    struct gpu {
        std::vector<channel> channels;
        std::array<std::vector<std::size_t>, 2> of_type;            // indices into channels
        std::vector<std::tuple<int, buffer>> remote;                // rank and buffer
        std::array<std::int64_t, 3> chunks{};                       // of send, recv, scratch
        std::int64_t vector = 0;                                    // offset in scratch, if in-place reduce-scatter
        std::vector<std::deque<signal>> arrived;                    // by channel: signals not yet waited for
        std::map<std::int64_t, std::vector<std::size_t>> barriers;  // by id: blocks that wait there
        std::vector<int> first;                                     // instructions before all blocks
    };
    struct block {
        std::size_t number = 0;  // in the file
        int rank = 0;
        std::vector<value> ops;
        std::size_t next = 0;
        bool at_barrier = false;
        std::array<std::vector<std::size_t>, 2> channels;   // indices into gpu::channels, by port or not
        std::array<std::vector<std::size_t>, 2> remote;     // indices into gpu::remote
        std::vector<int> frontier;                          // instructions that the next operation waits for
        std::map<int, std::vector<int>> known;              // by peer: its instructions that are done
        std::map<way, std::vector<int>> last;               // the last instructions on the peer for this block
        std::map<std::size_t, std::vector<int>> unflushed;  // by port channel
        // Numbers of accesses to peers' memory, by block: its own, and those of other blocks before a barrier.
        std::map<std::size_t, std::map<way, int>> made;
    };

    // Thread blocks of a group share an operation; each handles a part of every chunk.
    void read_group(const value& op) {
        if (!op.has("tbg_info")) return;
        parts_ = std::lcm(parts_, op.at("tbg_info").at("tbg_size").number(1, 1024));
        if (parts_ > most_parts) op.fail(fmt::format("groups divide chunks into more than {} parts", most_parts));
    }

    void read_head(const std::vector<value>& gpus) {
        const std::string name = all_.at("collective").text();
        const auto row = std::ranges::find(names, name, [](const auto& r) { return r.second; });
        if (row == names.end()) all_.at("collective").fail(fmt::format("the collective {:?} is not read", name));
        if (all_.at("protocol").text() != "Simple") all_.at("protocol").fail("only protocol Simple is read");
        what_ = row->first;
        in_place_ = all_.at("inplace").flag();
        gpus_.resize(gpus.size());
        const int size = static_cast<int>(gpus.size());
        std::int64_t block = 0, whole = 0;
        for (std::size_t r = 0; r < gpus.size(); ++r) {
            gpu& g = gpus_[r];
            gpus[r].at("id").number(static_cast<std::int64_t>(r), static_cast<std::int64_t>(r));
            const auto chunks = [&](const char* key) { return parts_ * gpus[r].at(key).number(0, most_chunks); };
            const std::int64_t input = chunks("input_chunks"), output = chunks("output_chunks");
            g.chunks = {input, output, chunks("scratch_chunks")};
            if (what_ == collective::allreduce && in_place_ && output == 0) g.chunks[1] = input;
            if (r == 0) block = std::min(g.chunks[0], g.chunks[1]), whole = std::max(g.chunks[0], g.chunks[1]);
            const bool fits = g.chunks[0] == block * row_of(what_).blocks_given(false, size) &&
                              g.chunks[1] == block * row_of(what_).blocks_got(false, size);
            if (!fits || whole == 0)
                gpus[r].fail(fmt::format("{} chunks of input and {} of output do not fit {} on {} GPUs", input / parts_,
                                         output / parts_, name, size));
        }
        block_ = block;
        collected_.emplace(size, what_, whole);
        for (std::size_t r = 0; r < gpus.size(); ++r) begin(static_cast<int>(r), whole);
    }

    // In place, input and output are one buffer that is written. Here this is the result.
    void begin(int rank, std::int64_t whole) {
        gpu& g = gpus_[at(rank)];
        collected_->fresh_scratch(rank, g.chunks[2]);
        if (!in_place_) return;
        operand home{buffer::recv, {0, whole}}, given{buffer::send, {0, g.chunks[0]}};
        if (what_ == collective::allgather) home.part = {rank * block_, (rank + 1) * block_};
        if (what_ == collective::reduce_scatter) home = collected_->fresh_scratch(rank, whole);
        g.vector = home.part.begin;
        g.first = {collected_->add(rank, action::copy, home, {given}, {})};
    }

    operand operand_of(int rank, buffer where, std::int64_t index, std::int64_t size) const {
        if (in_place_ && where != buffer::scratch) {
            if (where == (what_ == collective::allgather ? buffer::send : buffer::recv) &&
                what_ != collective::allreduce)
                index += rank * block_;
            if (what_ == collective::reduce_scatter) index += gpus_[at(rank)].vector;
            where = what_ == collective::reduce_scatter ? buffer::scratch : buffer::recv;
        }
        return {where, {index, index + size}};
    }

    // The k-th channel of a type to a peer belongs to the peer's k-th channel of this type to this rank.
    void read_channels(const std::vector<value>& gpus) {
        for (std::size_t r = 0; r < gpus.size(); ++r) {
            gpu& g = gpus_[r];
            for (const value& list : gpus[r].items("channels"))
                for (const value& peer : list.at("connected_to").items()) {
                    const bool port = list.at("channel_type").is_port();
                    g.of_type[port].push_back(g.channels.size());
                    g.channels.push_back({port, number_of_peer(peer, r)});
                }
            for (const value& remote : gpus[r].items("remote_buffers"))
                g.remote.emplace_back(number_of_peer(remote.at("rank"), r), buffer_of(remote.at("type")));
            g.arrived.resize(g.channels.size());
        }
        for (std::size_t r = 0; r < gpus.size(); ++r) {
            std::map<std::pair<bool, int>, std::size_t> nth;
            for (channel& c : gpus_[r].channels) {
                const std::vector<channel>& theirs = gpus_[at(c.peer)].channels;
                std::size_t left = nth[{c.port, c.peer}]++;
                while (c.partner < theirs.size() && (theirs[c.partner].port != c.port ||
                                                     theirs[c.partner].peer != static_cast<int>(r) || left-- > 0))
                    ++c.partner;
                if (c.partner == theirs.size())
                    gpus[r].at("channels").fail(fmt::format("rank {} has no channel back to rank {}", c.peer, r));
            }
        }
    }

    int number_of_peer(const value& of, std::size_t rank) const {
        const std::size_t peer = index(of, gpus_.size());
        if (peer == rank) of.fail("is the GPU itself");
        return static_cast<int>(peer);
    }

    static buffer buffer_of(const value& of) {
        const std::string letter = of.text();
        const std::size_t found = letter.size() == 1 ? letters.find(letter[0]) : letters.npos;
        if (found == letters.npos) of.fail(fmt::format("no buffer {:?}", letter));
        return static_cast<buffer>(found);
    }

    static std::size_t index(const value& of, std::size_t size) {
        if (size == 0) of.fail("there is none");
        return static_cast<std::size_t>(of.number(0, static_cast<std::int64_t>(size) - 1));
    }

    void read_blocks(const value& of, int rank) {
        const gpu& g = gpus_[at(rank)];
        for (const value& threads : of.at("threadblocks").items()) {
            block b;
            b.number = blocks_.size();
            b.rank = rank;
            b.ops = threads.at("ops").items();
            for (const value& list : threads.items("channels")) {
                const bool port = list.at("channel_type").is_port();
                for (const value& id : list.at("channel_ids").items())
                    b.channels[port].push_back(g.of_type[port][index(id, g.of_type[port].size())]);
            }
            for (const value& list : threads.items("remote_buffer_refs"))
                for (const value& id : list.at("remote_buffer_ids").items())
                    b.remote[list.at("access_channel_type").is_port()].push_back(index(id, g.remote.size()));
            b.frontier = g.first;
            blocks_.push_back(std::move(b));
        }
    }

    // ---- Running.

    bool advance(block& b) {
        bool moved = false;
        while (b.next < b.ops.size() && run(b, b.ops[b.next])) moved = true, ++b.next;
        return moved;
    }

    std::vector<place> places(const block& b, const value& op, const char* key, bool port) const {
        std::vector<place> all;
        for (const value& one : op.items(key)) {
            place r;
            int rank = b.rank;
            buffer where = buffer::send;
            if (one.has("buffer_id")) {
                op.at("channel_type");
                const std::vector<std::size_t>& known = b.remote[port];
                std::tie(rank, where) = gpus_[at(b.rank)].remote[known[index(one.at("buffer_id"), known.size())]];
                r.peer = rank;
            } else {
                where = buffer_of(one.at("type"));
            }
            const std::int64_t chunks = gpus_[at(rank)].chunks[static_cast<std::size_t>(where)] / parts_;
            const std::int64_t size = one.at("size").number(1, std::max<std::int64_t>(1, chunks));
            std::int64_t begin = parts_ * one.at("index").number(0, chunks - size), share = parts_ * size;
            if (op.has("tbg_info")) {
                const value group = op.at("tbg_info");
                const std::int64_t blocks = group.at("tbg_size").number(1, 1024);
                share /= blocks;
                begin += share * group.at("tb_id").number(0, blocks - 1);
            }
            r.what = operand_of(rank, where, begin, share);
            all.push_back(r);
        }
        return all;
    }

    // Runs an operation, unless it must wait.
    bool run(block& b, const value& op) {
        const std::string name = op.at("name").text();
        if (name == "nop") return true;
        if (name == "barrier") return run_barrier(b, op);
        const bool port = op.has("channel_type") && op.at("channel_type").is_port();
        std::vector<std::size_t> through;  // indices into gpu::channels
        for (const value& id : op.items("channel_ids"))
            through.push_back(b.channels[port][index(id, b.channels[port].size())]);
        const bool is_sync = name.ends_with("signal") || name.ends_with("wait") || name == "flush";
        if (is_sync) expect(op, op.has("channel_type") && !through.empty(), "names no channel");
        if (name == "signal" || name == "rlxsignal") {
            for (const std::size_t c : through) send_signal(b, c, name == "signal");
            return true;
        }
        if (name == "wait" || name == "rlxwait") return run_wait(b, op, through);
        if (name == "flush") {
            for (const std::size_t c : through) flush(b, c);
            return true;
        }
        if (collected_->size() > most_instructions)
            op.fail(fmt::format("more than {} instructions", most_instructions));
        const std::vector<place> src = places(b, op, "src_buff", port), dst = places(b, op, "dst_buff", port);
        if (src.empty() || dst.empty()) op.fail("reads or writes nothing");
        if (name == "put" || name == "pws" || name == "pwsf") run_put(b, op, name, src, dst, through, port);
        else if (name == "copy" || name == "get") run_copy(b, op, src, dst);
        else if (name == "re" || name == "rre" || name == "res" || name == "rres") run_reduction(b, op, src, dst);
        else op.fail(fmt::format("the operation {:?} is not read", name));
        return true;
    }

    static void expect(const value& op, bool holds, const char* what) {
        if (!holds) op.fail(what);
    }

    void run_put(block& b, const value& op, const std::string& name, const std::vector<place>& src,
                 const std::vector<place>& dst, const std::vector<std::size_t>& through, bool port) {
        expect(op, src.size() == dst.size() && (!port || through.size() == src.size()),
               "sources, places and channels differ in number");
        std::vector<int> made;
        for (std::size_t n = 0; n < src.size(); ++n) {
            expect(op, src[n].peer < 0 && dst[n].peer >= 0, "puts from its own memory into a peer's");
            const int sent = put(b, op, src[n].what, dst[n], port ? static_cast<int>(through[n]) : -1);
            if (port) b.unflushed[through[n]].push_back(sent);
            else made.push_back(sent);
        }
        if (!made.empty()) b.frontier = made;
        if (name != "put") {
            expect(op, port, "signals behind a put, which port channels do alone");
            for (const std::size_t c : through) send_signal(b, c, true);
        }
        if (name == "pwsf")
            for (const std::size_t c : through) flush(b, c);
    }

    void run_copy(block& b, const value& op, const std::vector<place>& src, const std::vector<place>& dst) {
        expect(op, src.size() == dst.size(), "sources and places differ in number");
        std::vector<int> made;
        for (std::size_t n = 0; n < src.size(); ++n) {
            expect(op, dst[n].peer < 0, "writes to its own memory");
            if (src[n].peer >= 0) made.push_back(get(b, op, src[n], dst[n].what));
            else made.push_back(collected_->add(b.rank, action::copy, dst[n].what, {src[n].what}, b.frontier));
        }
        b.frontier = made;
    }

    // The first place is the rank's own. Its contents are then put to the others.
    void run_reduction(block& b, const value& op, const std::vector<place>& src, const std::vector<place>& dst) {
        expect(op, src.size() > 1 && dst[0].peer < 0 && src[0].peer < 0, "adds at least one operand to its own memory");
        expect(op, !op.has("reduce_op") || op.at("reduce_op").text() == "sum", "only sums are read");
        std::vector<operand> terms;
        std::vector<int> after = b.frontier;
        for (const place& r : src) {
            if (r.peer < 0) {
                terms.push_back(r.what);
                continue;
            }
            const operand here = collected_->fresh_scratch(b.rank, r.what.part.count());
            after.push_back(get(b, op, r, here));
            terms.push_back(here);
        }
        b.frontier = {collected_->add(b.rank, action::reduce, dst[0].what, terms, after)};
        std::vector<int> made;
        for (std::size_t n = 1; n < dst.size(); ++n) {
            expect(op, dst[n].peer >= 0, "has one place of its own");
            made.push_back(put(b, op, dst[0].what, dst[n], -1));
        }
        if (!made.empty()) b.frontier = made;
    }

    // Returns the instructions before an access to a peer: the peer's before its signal, and this block's earlier ones.
    std::vector<int> before_access(block& b, const value& op, int peer, int way) {
        const auto known = b.known.find(peer);
        if (known == b.known.end())
            op.fail(fmt::format("uses memory of rank {} before a signal of it says that it is in the call", peer));
        std::vector<int> after = known->second;
        const std::vector<int>& last = b.last[{peer, way}];
        after.insert(after.end(), last.begin(), last.end());
        return after;
    }

    void note_access(block& b, int peer, int way, int number) {
        b.last[{peer, way}] = {number};
        ++b.made[b.number][{peer, way}];
    }

    int put(block& b, const value& op, const operand& src, const place& dst, int way) {
        expect(op, src.part.count() == dst.what.part.count(), "differ in size");
        const std::vector<int> after = before_access(b, op, dst.peer, way);
        const int sent = collected_->add(b.rank, action::send, {}, {src}, b.frontier);
        const int got = collected_->add(dst.peer, action::recv, dst.what, {}, after);
        collected_->pair(b.rank, sent, dst.peer, got);
        note_access(b, dst.peer, way, got);
        return sent;
    }

    int get(block& b, const value& op, const place& src, const operand& dst) {
        expect(op, src.what.part.count() == dst.part.count(), "differ in size");
        const std::vector<int> after = before_access(b, op, src.peer, -1);
        const int sent = collected_->add(src.peer, action::send, {}, {src.what}, after);
        const int got = collected_->add(b.rank, action::recv, dst, {}, b.frontier);
        collected_->pair(src.peer, sent, b.rank, got);
        note_access(b, src.peer, -1, sent);
        return got;
    }

    // Sends a signal. It follows accesses through memory, or puts on the same port channel, also of other blocks before
    // a barrier.
    void send_signal(block& b, std::size_t through, bool orders) {
        const channel& c = gpus_[at(b.rank)].channels[through];
        const std::pair<int, int> way{c.peer, c.port ? static_cast<int>(through) : -1};
        signal s{b.frontier, {}, {}};
        if (const auto made = b.last.find(way); orders && made != b.last.end()) {
            s.accesses = made->second;
            for (const auto& [number, counts] : b.made)
                if (const auto count = counts.find(way); count != counts.end())
                    s.counts.emplace_back(std::pair(number, way), count->second);
        }
        gpus_[at(c.peer)].arrived[c.partner].push_back(std::move(s));
    }

    bool run_wait(block& b, const value& op, const std::vector<std::size_t>& through) {
        gpu& g = gpus_[at(b.rank)];
        if (std::set(through.begin(), through.end()).size() != through.size()) op.fail("waits for one channel twice");
        for (const std::size_t c : through)
            if (g.arrived[c].empty()) return false;
        for (const std::size_t c : through) {
            const signal s = std::move(g.arrived[c].front());
            g.arrived[c].pop_front();
            b.known[g.channels[c].peer] = s.position;
            b.frontier.insert(b.frontier.end(), s.accesses.begin(), s.accesses.end());
            for (const auto& [which, count] : s.counts) known_[which] = std::max(known_[which], count);
        }
        return true;
    }

    void flush(block& b, std::size_t through) {
        std::vector<int>& sent = b.unflushed[through];
        b.frontier.insert(b.frontier.end(), sent.begin(), sent.end());
        sent.clear();
    }

    // The last block to arrive releases all. Each block then knows the accesses of the others.
    bool run_barrier(block& b, const value& op) {
        gpu& g = gpus_[at(b.rank)];
        if (b.at_barrier) return false;
        std::vector<std::size_t>& there = g.barriers[op.at("barrier_id").number(0, most_barriers - 1)];
        const auto all = static_cast<std::size_t>(op.at("num_threadblocks").number(1, 1024));
        for (const std::size_t n : there)
            if (blocks_[n].ops[blocks_[n].next].at("num_threadblocks").number(1, 1024) !=
                static_cast<std::int64_t>(all))
                op.fail("other blocks at this barrier expect another number");
        there.push_back(b.number);
        if (there.size() < all) {
            b.at_barrier = true;
            return false;
        }
        block sum;
        for (const std::size_t n : there) join(blocks_[n], sum);
        for (const std::size_t n : there) {
            block& one = blocks_[n];
            const bool waits = std::exchange(one.at_barrier, false);
            join(sum, one);
            if (waits) ++one.next;
        }
        there.clear();
        return true;
    }

    void join(const block& from, block& to) const {
        const auto append = [](const std::vector<int>& more, std::vector<int>& all) {
            all.insert(all.end(), more.begin(), more.end());
            keep_different(all);
        };
        append(from.frontier, to.frontier);
        for (const auto& [peer, done] : from.known) append(done, to.known[peer]);
        for (const auto& [way, done] : from.last) append(done, to.last[way]);
        for (const auto& [number, counts] : from.made)
            for (const auto& [way, count] : counts) to.made[number][way] = std::max(to.made[number][way], count);
    }

    void check_end() {
        for (const block& b : blocks_)
            if (b.next < b.ops.size()) b.ops[b.next].fail("waits for ever");
        for (std::size_t r = 0; r < gpus_.size(); ++r)
            for (std::size_t c = 0; c < gpus_[r].channels.size(); ++c)
                if (!gpus_[r].arrived[c].empty())
                    all_.fail(fmt::format("rank {} waits for fewer signals of rank {} than that sends", r,
                                          gpus_[r].channels[c].peer));
        for (const block& b : blocks_)
            if (const auto own = b.made.find(b.number); own != b.made.end())
                for (const auto& [way, count] : own->second)
                    if (known_[{b.number, way}] < count)
                        all_.fail(fmt::format("rank {} uses memory of rank {}, which waits for no signal behind it",
                                              b.rank, way.first));
        if (!in_place_ || what_ != collective::reduce_scatter) return;
        for (int r = 0; r < static_cast<int>(gpus_.size()); ++r) {
            std::vector<int> after = gpus_[at(r)].first;
            for (const block& b : blocks_)
                if (b.rank == r) after.insert(after.end(), b.frontier.begin(), b.frontier.end());
            collected_->add(r, action::copy, {buffer::recv, {0, block_}}, {operand_of(r, buffer::recv, 0, block_)},
                            after);
        }
    }

    std::map<std::pair<std::size_t, way>, int> known_;  // by block and way: accesses that the peer has waited for
    std::string name_;
    json_file file_;
    value all_;
    collective what_ = collective::allreduce;
    bool in_place_ = false;
    std::int64_t block_ = 0, parts_ = 1;  // elements of a block, parts of a chunk
    std::vector<gpu> gpus_;
    std::vector<block> blocks_;
    std::optional<program_collector> collected_;
};

}  // namespace

written_call mscclpp_plan(const plan_data& plan, collective what, std::int64_t bytes) {
    const std::vector<rule>& rules = plan.rules.at(what);
    const rule& how = plan.choose(what, bytes);
    const auto number = static_cast<std::size_t>(&how - rules.data());
    const int ranks = plan.machine.ranks();
    // An element of the schedule is a chunk of the file, with any number of bytes, so the schedule must not be cut.
    constexpr std::size_t uncut = 64;
    collective_call call = equal_call(ranks, what, row_of(what).blocks ? 1 : even_chunks(plan.machine.shape), uncut);
    call.rounds_on_wire = false;
    const std::vector<schedule> all = message_schedules({plan.machine, how.stages, call}, ranks);
    const landing lands(all);
    const std::int64_t input = what == collective::allgather ? call.count : call.elements();
    const std::int64_t output = what == collective::reduce_scatter ? call.count : call.elements();
    json gpus = json::array();
    for (const schedule& s : all)
        gpus.push_back(gpu_writer(s.rank, lands).write(translator(s, lands, plan.machine).operations(), input, output));
    const auto name = std::ranges::find(names, what, [](const auto& row) { return row.first; })->second;
    const json made{{"name", fmt::format("{}_{}_{}", plan.name, name, number)},
                    {"made_by", "terrace export --to mscclpp"},
                    {"collective", name},
                    {"protocol", "Simple"},
                    {"inplace", false},
                    {"reuse_resources", false},
                    {"num_threads_per_block", 1024},
                    {"use_double_scratch_buffer", false},
                    {"buffer_alignment", mscclpp_alignment},
                    {"min_message_size", number == 0 ? 0 : rules[number - 1].up_to + 1},
                    {"max_message_size", how.up_to == rule::no_bound ? std::numeric_limits<std::uint64_t>::max()
                                                                     : static_cast<std::uint64_t>(how.up_to)},
                    {"gpus", gpus}};
    const std::int64_t chunks = std::max(input, output), multiple = chunks * mscclpp_alignment;
    return {{made.dump(1) + "\n"},
            fmt::format("MSCCL++ runs the file for messages of a multiple of {} bytes ({} chunks){}", multiple, chunks,
                        bytes % multiple == 0 ? "" : fmt::format(", so not for {}", bytes))};
}

call_program read_mscclpp(std::span<const named_text> files) { return plan_reader(files[0]).read(); }

}  // namespace terrace::detail
