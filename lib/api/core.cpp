#include "api/core.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "api/log_line.hpp"
#include "schedule/compose.hpp"

namespace terrace {

namespace {

constexpr std::size_t cached_programs = 32;

}  // namespace

communicator::core::core(const plan& p, std::unique_ptr<transport> net, int rank, options o)
    : plan_(p), rank_(rank), options_(std::move(o)), net_(std::move(net)) {
    number_ranks();
    check_rules();
    if (options_.log && rank_ == 0) options_.log(log_level::info, log_line(plan_.get(), net_->name()));
}

// A plan that names an algorithm nobody knows is refused now, not at the first message of that size.
void communicator::core::check_rules() const {
    const recipe& r = plan_.get();
    for (const auto& [what, rules] : r.rules)
        for (const rule& each : rules) compose(r.machine, each.stages, r.machine.ranks(), 1);
}

void communicator::core::number_ranks() {
    callers_rank_.resize(static_cast<std::size_t>(size()));
    net_->gather_all(&rank_, callers_rank_.data(), sizeof(int));
}

void communicator::core::run(const shape_of_call& call, const void* send, void* recv) {
    const auto refuse = [&](const std::string& why) {
        throw usage_error(fmt::format("{}: {}", to_string(call.what), why));
    };
    if (call.count < 0) refuse(fmt::format("count is {}; it must not be negative", call.count));
    if (call.root < 0 || call.root >= size())
        refuse(fmt::format("root is {}, but ranks are 0 to {}", call.root, size() - 1));
    if (call.count == 0 && call.counts.empty()) return;
    const bool receives = call.what != collective::reduce || call.root == rank_;
    if (call.counts.empty() && (send == nullptr || (receives && recv == nullptr)))
        refuse(fmt::format("a buffer is null, but count is {}", call.count));
    if (broken_) refuse("an earlier call failed, and the communicator is broken; make a new one");
    program& p = find_or_bind(call);
    broken_ = true;
    p.start(send, recv);
    run_to_end(p, *net_);
    broken_ = false;
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
    const bool in_blocks = has_blocks(call.what);
    const int blocks = in_blocks ? size() : 1;
    const std::int64_t total =
        call.counts.empty() ? call.count * blocks : std::reduce(call.counts.begin(), call.counts.end());
    const rule& chosen = r.choose(call.what, total * static_cast<std::int64_t>(element));
    // Blocks of different counts have no common part; they go in one chunk.
    const slicing chunks = call.counts.empty() ? slice(call.count, element, chosen, blocks) : slicing{};
    const auto schedule_of = [&](std::int64_t count) {
        return lower(in_blocks ? block_program_of(call, chosen, count) : program_of(call, chosen, count), net_->can());
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
    const int divisor = call.op == reduce_op::avg ? size() : 1;
    return program(std::move(full), std::move(tail), {element, find_reduce(call.type, call.op), divisor, chunks, lanes},
                   *net_, 0);
}

schedule communicator::core::program_of(const shape_of_call& call, const rule& chosen, std::int64_t count) const {
    const auto root = std::find(callers_rank_.begin(), callers_rank_.end(), call.root) - callers_rank_.begin();
    const composition c = compose(plan_.get().machine, chosen.stages, count, quantum_of(size_of(call.type)),
                                  has_root(call.what) ? static_cast<int>(root) : -1);
    return generate(c, call.what, net_->rank());
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
    return generate(compose_blocks(plan_.get().machine, chosen.stages, counts), call.what, net_->rank(), begins);
}

std::string communicator::core::shape(std::int64_t bytes) const {
    const recipe& r = plan_.get();
    return describe(r.machine, r.choose(collective::allreduce, bytes).stages);
}

}  // namespace terrace
