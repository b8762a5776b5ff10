#include "api/core.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "schedule/compose.hpp"

namespace terrace {

namespace {

constexpr std::size_t cached_programs = 32;

}  // namespace

communicator::core::core(const plan& p, std::unique_ptr<transport> net, int rank, options o)
    : plan_(p), rank_(rank), options_(std::move(o)), net_(std::move(net)) {
    check_rules();
    if (options_.log)
        options_.log(log_level::info,
                     fmt::format("terrace {}: plan {} \"{}\", {} ranks ({}), transport {}; allreduce of 1 MiB: {}", version(),
                                 plan_.id(), plan_.name(), size(), shape_text(plan_.get().machine.shape), net_->name(),
                                 shape(1 << 20)));
}

// A plan that names an algorithm nobody knows is refused now, not at the first message of that size.
void communicator::core::check_rules() const {
    const recipe& r = plan_.get();
    for (const auto& [what, rules] : r.rules)
        for (const rule& each : rules) compose(r.machine, each.stages, r.machine.ranks(), 1);
}

void communicator::core::allreduce(const void* send, void* recv, std::int64_t count, element_type type, reduce_op op) {
    if (count < 0) throw usage_error(fmt::format("allreduce: count is {}; it must not be negative", count));
    if (count > 0 && (send == nullptr || recv == nullptr))
        throw usage_error(fmt::format("allreduce: the buffer is null, but count is {}", count));
    if (count == 0) return;
    if (broken_) throw usage_error("allreduce: an earlier call failed, and the communicator is broken; make a new one");
    program& p = find_or_bind({count, type, op});
    broken_ = true;
    p.start(send, recv);
    run_to_end(p, *net_);
    broken_ = false;
}

program& communicator::core::find_or_bind(const key& k) {
    const auto found = std::find_if(cache_.begin(), cache_.end(), [&](const bound& b) { return b.what == k; });
    if (found != cache_.end()) {
        cache_.splice(cache_.begin(), cache_, found);
    } else {
        cache_.push_front({k, bind(k)});
        if (cache_.size() > cached_programs) cache_.pop_back();
    }
    return cache_.front().run;
}

program communicator::core::bind(const key& k) {
    const recipe& r = plan_.get();
    const std::size_t element = size_of(k.type);
    const rule& chosen = r.choose(collective::allreduce, k.count * static_cast<std::int64_t>(element));
    const slicing chunks = slice(k.count, element, chosen);
    const auto schedule_of = [&](std::int64_t count) {
        const composition c = compose(r.machine, chosen.stages, count, quantum_of(element));
        return lower(generate(c, collective::allreduce, net_->rank()), net_->can());
    };
    schedule tail = schedule_of(chunks.tail);
    schedule full = chunks.chunks > 1 ? schedule_of(chunks.chunk) : schedule{};
    const int lanes = static_cast<int>(std::min<std::int64_t>(chosen.lanes, chunks.chunks));
    if (options_.log)
        options_.log(log_level::debug, fmt::format("allreduce of {} {}: {}, {} lanes, {} chunks of {}", k.count,
                                                   to_string(k.type), describe(r.machine, chosen.stages), lanes,
                                                   chunks.chunks, chunks.chunk));
    net_->reserve(program::slots(lanes));
    return program(std::move(full), std::move(tail), {element, find_reduce(k.type, k.op), chunks, lanes}, *net_, 0);
}

std::string communicator::core::shape(std::int64_t bytes) const {
    const recipe& r = plan_.get();
    return describe(r.machine, r.choose(collective::allreduce, bytes).stages);
}

}  // namespace terrace
