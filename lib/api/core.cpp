#include "api/core.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "api/auto_plan.hpp"
#include "api/log_line.hpp"
#include "base/partition.hpp"
#include "schedule/compose.hpp"
#include "transport/shm/shm_transport.hpp"

namespace terrace {

namespace {

constexpr std::size_t cached_programs = 32;

}  // namespace

communicator::core::core(const plan& p, std::unique_ptr<transport> net, int rank, options o)
    : plan_(p), rank_(rank), options_(std::move(o)), net_(std::move(net)) {
    if (options_.shared_memory) share_memory();
    turns_.resize(static_cast<std::size_t>(net_->can().slots));
    number_ranks();
    check_ = std::make_unique<call_check>(*net_, callers_rank_, options_.check, options_.timeout,
                                          [] {});  // calls end before the next one begins
    check_runnable(plan_.get());  // an algorithm nobody knows is refused now, not at the first message of that size
    if (options_.log && rank_ == 0) options_.log(log_level::info, log_line(plan_.get(), net_->name()));
}

// A slot holds the longest chunk of any rule that says how long chunks are; there are enough for two calls in flight.
void communicator::core::share_memory() {
    constexpr std::int64_t unbounded = 1 << 20;
    std::int64_t bytes = 1 << 16;
    int lanes = 2;
    for (const auto& [what, rules] : plan_.get().rules)
        for (const rule& r : rules) {
            bytes = std::max(bytes, r.chunk > 0 ? r.chunk : std::min(r.up_to, unbounded));
            lanes = std::max(lanes, r.lanes);
        }
    net_ = add_shared_memory(std::move(net_), 2 * lanes, static_cast<std::size_t>(bytes));
}

void communicator::core::number_ranks() {
    callers_rank_.resize(static_cast<std::size_t>(size()));
    net_->gather_all(&rank_, callers_rank_.data(), sizeof(int));
}

void communicator::core::run(const shape_of_call& call, const void* send, void* recv) {
    if (broken_)
        throw usage_error(fmt::format("{}: an earlier call failed, and the communicator is broken; make a new one",
                                      to_string(call.what)));
    const std::string objection = objection_to(call, rank_, size(), send, recv);
    broken_ = true;
    if (objection.empty()) check_->begin(call);
    else check_->meet(describe(call) + ", refused", ": " + objection);
    broken_ = false;
    if (!objection.empty()) throw usage_error(fmt::format("{}: {}", to_string(call.what), objection));
    if (call.count == 0 && call.counts.empty()) return;
    program& p = find_or_bind(call);
    broken_ = true;
    p.start(send, recv, take_slots(p));
    if (check_->listens()) run_to_end(p, *net_, [this] { check_->listen(); });
    else run_to_end(p, *net_);
    broken_ = false;
}

// Every rank takes the same slots for the same call, whether or not it has a use for them.
std::vector<program::place> communicator::core::take_slots(const program& p) {
    std::vector<program::place> places;
    for (int l = 0; l < p.lanes() && !turns_.empty(); ++l) {
        std::uint64_t& turn = turns_[static_cast<std::size_t>(next_slot_)];
        places.push_back({next_slot_, turn});
        turn += static_cast<std::uint64_t>(p.chunks_of(l));
        next_slot_ = wrap(next_slot_ + 1, static_cast<int>(turns_.size()));
    }
    return places;
}

program& communicator::core::find_or_bind(const shape_of_call& call) {
    const auto found = std::find_if(cache_.begin(), cache_.end(), [&](const bound& b) { return b.what == call; });
    if (found != cache_.end()) {
        cache_.splice(cache_.begin(), cache_, found);
    } else {
        cache_.push_front({call, bind(call)});
        if (cache_.size() > cached_programs) cache_.pop_back();
    }
    return cache_.front().run;
}

program communicator::core::bind(const shape_of_call& call) {
    const recipe& r = plan_.get();
    const std::size_t element = size_of(call.type);
    const std::int64_t total = elements_of(call);
    const rule& chosen = r.choose(call.what, total * static_cast<std::int64_t>(element));
    const slicing chunks = slice_call(call, chosen);
    const auto schedule_of = [&](std::int64_t count) {
        return has_blocks(call.what) ? block_program_of(call, chosen, count) : program_of(call, chosen, count);
    };
    schedule tail = schedule_of(chunks.tail);
    schedule full = chunks.chunks > 1 ? schedule_of(chunks.chunk) : schedule{};
    const int lanes = static_cast<int>(std::min<std::int64_t>(chosen.lanes, chunks.chunks));
    if (options_.log)
        options_.log(log_level::debug,
                     fmt::format("{} of {} {}: {}, {} lanes, {} chunks of {}", to_string(call.what), total,
                                 to_string(call.type), describe(r.machine, chosen.stages), lanes, chunks.chunks,
                                 chunks.chunk));
    net_->reserve(program::slots(lanes));
    return program(std::move(full), std::move(tail),
                   {.element = element,
                    .reduce = find_reduce(call.type, call.op),
                    .divisor = call.op == reduce_op::avg ? size() : 1,
                    .chunks = chunks,
                    .lanes = lanes,
                    .windowed = fits_slot(tail.count, call) && fits_slot(full.count, call)},
                   *net_, 0);
}

// Of all blocks together, where there are blocks.
std::int64_t communicator::core::elements_of(const shape_of_call& call) const {
    if (!call.counts.empty()) return std::reduce(call.counts.begin(), call.counts.end());
    return has_blocks(call.what) ? call.count * size() : call.count;
}

slicing communicator::core::slice_call(const shape_of_call& call, const rule& chosen) const {
    // Blocks of different counts have no common part; they go in one chunk.
    if (!call.counts.empty()) return {};
    const bool native = std::any_of(chosen.stages.begin(), chosen.stages.end(),
                                    [](const stage& s) { return find_algorithm(s.algorithm)->native; });
    return slice(call.count, size_of(call.type), chosen, has_blocks(call.what) ? size() : 1,
                 native ? net_->can().slot_bytes : 0);
}

bool communicator::core::fits_slot(std::int64_t count, const shape_of_call& call) const {
    return static_cast<std::size_t>(count) * size_of(call.type) <= net_->can().slot_bytes;
}

schedule communicator::core::program_of(const shape_of_call& call, const rule& chosen, std::int64_t count) const {
    const auto root = std::find(callers_rank_.begin(), callers_rank_.end(), call.root) - callers_rank_.begin();
    const composition c = compose(plan_.get().machine, chosen.stages, count, quantum_of(size_of(call.type)),
                                  has_root(call.what) ? static_cast<int>(root) : -1);
    const capabilities& can = net_->can();
    if (!fits_slot(count, call) || !runs_natively(c, net_->rank(), can))
        return lower(generate(c, call.what, net_->rank()), {});
    return lower(generate(c, call.what, net_->rank(), can, buffer::scratch), can);
}

// Blocks stand in the caller's order in the caller's buffer; `count` elements of each are this chunk's.
schedule communicator::core::block_program_of(const shape_of_call& call, const rule& chosen, std::int64_t count) const {
    std::vector<std::int64_t> callers_counts = call.counts, callers_begins(callers_rank_.size());
    if (callers_counts.empty()) callers_counts.assign(callers_rank_.size(), call.count);
    std::exclusive_scan(callers_counts.begin(), callers_counts.end(), callers_begins.begin(), std::int64_t{0});
    std::vector<std::int64_t> counts, begins;
    for (int r : callers_rank_) {
        counts.push_back(call.counts.empty() ? count : callers_counts[static_cast<std::size_t>(r)]);
        begins.push_back(callers_begins[static_cast<std::size_t>(r)]);
    }
    const block_layout layout = compose_blocks(plan_.get().machine, chosen.stages, counts);
    return lower(generate(layout, call.what, net_->rank(), begins),
                 fits_slot(layout.c.count, call) ? net_->can() : capabilities{});
}

std::unique_ptr<communicator::core> communicator::core::split(int color, int key) {
    if (broken_) throw usage_error("split: an earlier call failed, and the communicator is broken; make a new one");
    broken_ = true;
    check_->meet("split");
    struct choice {
        int color, key;
    };
    const choice mine{color, key};
    std::vector<choice> all(callers_rank_.size());
    net_->gather_all(&mine, all.data(), sizeof mine);
    std::unique_ptr<transport> net = net_->split(color);
    broken_ = false;
    if (!net) return nullptr;
    std::vector<int> members;  // by rank of the plan, as in `net`
    int before = 0;            // members that the caller's numbering puts before this rank
    for (std::size_t r = 0; r < all.size(); ++r) {
        if (all[r].color != color) continue;
        members.push_back(static_cast<int>(r));
        before += std::pair(all[r].key, callers_rank_[r]) < std::pair(key, rank_);
    }
    const plan p = plan_part(plan_.get(), members, *net);
    return std::make_unique<core>(p, std::move(net), before, options_);
}

std::string communicator::core::shape(std::int64_t bytes) const {
    const recipe& r = plan_.get();
    return describe(r.machine, r.choose(collective::allreduce, bytes).stages);
}

}  // namespace terrace
