#include "api/device_calls.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"
#include "schedule/registry.hpp"
#include "schedule/stage_groups.hpp"
#include "transport/nccl/nccl_transport.hpp"

namespace terrace {

namespace {

constexpr std::size_t device_programs = 32;  // cached
constexpr std::size_t most_roots = 16;  // of collectives, other than rank 0: groups take the device's memory for good

}  // namespace

device_calls::device_calls(const binding& b, const device_setting& on, transport& host, const options& o, int lanes)
    : binding_(b),
      net_(make_nccl_transport(*on.gpu, host,
                               {.device = on.number,
                                .rounds = native_groups(b.plan),
                                .ways = most_stages(b.plan),
                                .queues = lanes,
                                .timeout = o.timeout,
                                .mpi = any_over_mpi(b.plan),
                                .callers_rank = b.callers_rank})) {}

device_calls::~device_calls() { net_.reset(); }  // first: queues may still use the programs' memory

bool device_calls::holds(const call_shape& call, int callers_rank, const void* send, const void* recv) const {
    const bool gets = call.what != collective::reduce || call.root == callers_rank;
    const bool first = send != nullptr && net_->holds(send);
    if (!gets || recv == send || recv == nullptr || send == nullptr)
        return first || (recv != nullptr && gets && net_->holds(recv));
    const bool second = net_->holds(recv);
    if (first != second)
        throw usage_error(fmt::format("{}: {} is memory of the device and {} is not; both must be, or neither",
                                      to_string(call.what), first ? "send" : "recv", first ? "recv" : "send"));
    return first;
}

std::optional<std::uint64_t> device_calls::signature_of_known(const call_shape& call) const noexcept {
    const auto found = std::find_if(cache_.begin(), cache_.end(), [&](const bound& b) { return b.what == call; });
    if (found == cache_.end()) return {};
    return found->signature;
}

std::uint64_t device_calls::enqueue(const call_shape& call, std::uint64_t signature, const void* send, void* recv,
                                    CUstream_st* stream) {
    check();
    prepare_root(call, stream);
    bound& b = find(call, signature);
    net_->begin(stream, b.run.lanes());
    b.run.enqueue(send, recv);
    b.call = last_ = net_->end();
    check();
    return b.call;
}

bool device_calls::test(std::uint64_t call) {
    const bool done = net_->done(call);
    check();  // what was aborted ends, too
    return done;
}

void device_calls::wait(std::uint64_t call) {
    constexpr int soon = 200;
    for (int n = 0; !test(call); ++n) {
        if (n < soon) std::this_thread::yield();
        else std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

void device_calls::check() const {
    const std::optional<transport_fault> f = net_->fault();
    if (!f) return;
    if (net_->timed_out()) throw timeout_error(fmt::format("{}: {}", f->call, f->message));
    throw transport_error(f->library, f->call, f->code, f->message);
}

// Native stages of what has a root have other groups for other roots. All ranks meet a root in the same call, so that
// it is then that the groups are made; a stream that is captured can do with messages.
void device_calls::prepare_root(const call_shape& call, CUstream_st* stream) {
    if (!has_root(call.what) || roots_.size() == most_roots) return;
    const std::vector<int>& all = binding_.callers_rank;
    const auto root = static_cast<int>(std::find(all.begin(), all.end(), call.root) - all.begin());
    if (root == 0 || roots_.contains({call.what, root}) || net_->captures(stream)) return;
    roots_.insert({call.what, root});
    const std::vector<disjoint_groups> rounds = native_groups(binding_.plan, call.what, root);
    if (rounds.empty()) return;
    wait_for_all();
    net_->prepare(rounds);
    check();
}

// Queues keep the calls of a program apart by themselves: it needs no second one.
device_calls::bound& device_calls::find(const call_shape& call, std::uint64_t signature) {
    const auto found = std::find_if(cache_.begin(), cache_.end(), [&](const bound& b) { return b.what == call; });
    if (found != cache_.end()) {
        cache_.splice(cache_.begin(), cache_, found);
        return cache_.front();
    }
    cache_.push_front({call, signature, bind(call)});
    if (cache_.size() > device_programs && net_->done(cache_.back().call)) cache_.pop_back();
    return cache_.front();
}

stream_program device_calls::bind(const call_shape& call) const {
    const rule& chosen = binding_.rule_of(call);
    const slicing chunks = slice_call(call, chosen);
    const capabilities can = net_->can(call.type, call.op);
    const auto schedule_of = [&](std::int64_t count) {
        return binding_.schedule_of(call, chosen, count, can, buffer::recv);
    };
    schedule tail = schedule_of(chunks.tail);
    schedule full = chunks.chunks > 1 ? schedule_of(chunks.chunk) : schedule{};
    return stream_program(std::move(full), std::move(tail),
                          {.type = call.type,
                           .op = call.op,
                           .divisor = call.op == reduce_op::avg ? binding_.plan.machine.ranks() : 1,
                           .chunks = chunks,
                           .lanes = static_cast<int>(std::min<std::int64_t>(chosen.lanes, chunks.chunks)),
                           .over_mpi = over_mpi(chosen)},
                          *net_);
}

// In words, those that do.
std::vector<std::string> device_calls::over_mpi(const rule& chosen) const {
    std::vector<std::string> all;
    for (const stage& s : chosen.stages)
        all.push_back(s.over == carrier::mpi
                          ? fmt::format("{} of {}", all.size() + 1, describe(binding_.plan.machine, chosen.stages))
                          : "");
    return all;
}

std::string device_calls::objection_to(const call_shape& call, CUstream_st* stream) const {
    if (binding_.elements_of(call) == 0) return {};
    const std::vector<stage>& stages = binding_.rule_of(call).stages;
    const auto found =
        std::find_if(stages.begin(), stages.end(), [](const stage& s) { return s.over == carrier::mpi; });
    if (found == stages.end() || !net_->captures(stream)) return {};
    return fmt::format(
        "the stream is being captured into a CUDA graph, but stage {} of its plan ({}) goes over MPI, which "
        "a graph cannot hold; make the call outside of the capture, or plan all stages over nccl",
        found - stages.begin() + 1, describe(binding_.plan.machine, stages));
}

// NCCL divides evenly or not at all: chunks are so long that every stage of an even machine does, and what is left over
// is a last chunk of its own, shorter than a cache line for each rank.
slicing device_calls::slice_call(const call_shape& call, const rule& chosen) const {
    if (!call.counts.empty()) return {};
    const std::size_t element = size_of(call.type);
    const slicing plain = slice(call.count, element, chosen, has_blocks(call.what) ? binding_.plan.machine.ranks() : 1);
    const std::int64_t even = quantum_of(element) * binding_.plan.machine.ranks();
    if (!any_stage(chosen, &algorithm::native) || has_blocks(call.what) || call.count < even) return plain;
    const std::int64_t chunk = std::max(even, round_down(plain.chunk, even));
    const std::int64_t chunks = div_ceil(call.count, chunk);
    return {.chunk = chunk, .chunks = chunks, .tail = call.count - (chunks - 1) * chunk};
}

}  // namespace terrace
