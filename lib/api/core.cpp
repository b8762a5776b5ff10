#include "api/core.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/version.hpp>

#include "schedule/compose.hpp"

namespace terrace {

namespace {

constexpr std::size_t cached_programs = 32;

// What all ranks must have in common, in a form that travels.
using identity = std::array<char, 64>;

identity identity_of(const std::string& plan_id) {
    identity i{};
    const std::string text = fmt::format("{}, plan {}", version(), plan_id);
    std::copy_n(text.begin(), std::min(text.size(), i.size() - 1), i.begin());
    return i;
}

}  // namespace

communicator::core::core(const plan& p, std::unique_ptr<transport> net, int rank, options o)
    : plan_(p), net_(std::move(net)), rank_(rank), options_(std::move(o)) {
    agree_on_plan();
    number_ranks();
    check_rules();
    if (options_.log)
        options_.log(log_level::info,
                     fmt::format("terrace {}: plan {} \"{}\", {} ranks ({}), transport {}; allreduce of 1 MiB: {}", version(),
                                 plan_.id(), plan_.name(), size(), shape_text(plan_.get().machine.shape), net_->name(),
                                 shape(1 << 20)));
}

// The value most ranks have is taken to be the right one; the others are named.
void communicator::core::agree_on_plan() {
    const identity mine = identity_of(plan_.id());
    std::vector<identity> all(static_cast<std::size_t>(size()));
    net_->gather_all(mine.data(), all.data(), sizeof(identity));
    std::map<identity, std::vector<int>> ranks;
    for (int r = 0; r < size(); ++r) ranks[all[static_cast<std::size_t>(r)]].push_back(r);
    if (ranks.size() == 1) return;
    const auto most = std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
    });
    std::string others;
    for (const auto& [value, who] : ranks)
        if (value != most->first) others += fmt::format("; rank {} has terrace {}", fmt::join(who, ", "), value.data());
    throw plan_error(fmt::format("ranks differ in plan or version: most have terrace {}{} (ranks in the plan's order)",
                                 most->first.data(), others));
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
    program& p = find_or_bind(call);
    p.start(send, recv);
    run_to_end(p, *net_);
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
    const bool has_blocks = call.what == collective::reduce_scatter || call.what == collective::allgather;
    const int blocks = has_blocks ? size() : 1;
    const std::int64_t total =
        call.counts.empty() ? call.count * blocks : std::reduce(call.counts.begin(), call.counts.end());
    const rule& chosen = r.choose(call.what, total * static_cast<std::int64_t>(element));
    // Blocks of different counts have no common part; they go in one chunk.
    const slicing chunks = call.counts.empty() ? slice(call.count, element, chosen, blocks) : slicing{};
    const auto schedule_of = [&](std::int64_t count) {
        return lower(has_blocks ? block_program_of(call, chosen, count) : program_of(call, chosen, count), net_->can());
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
    const bool rooted = call.what == collective::broadcast || call.what == collective::reduce;
    const auto root = std::find(callers_rank_.begin(), callers_rank_.end(), call.root) - callers_rank_.begin();
    const composition c = compose(plan_.get().machine, chosen.stages, count, quantum_of(size_of(call.type)),
                                  rooted ? static_cast<int>(root) : -1);
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
