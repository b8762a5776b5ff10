#include "calls/device/device_calls.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "schedule/stage_groups.hpp"
#include "transport/nccl/nccl_transport.hpp"

namespace terrace::detail {

namespace {

bool fits(collective what, const nccl::stream_call& c, const communicator& comm, int root) {
    const bool is_root = comm.rank() == root;
    const auto given = static_cast<std::size_t>(row_of(what).blocks_given(is_root, comm.size()));
    const auto got = static_cast<std::size_t>(row_of(what).blocks_got(is_root, comm.size()));
    if (what == collective::broadcast || given == 0 || got == 0) return true;
    return c.sent * got == c.received * given && c.sent % given == 0;
}

}  // namespace

device_calls::device_calls(const binding& b, const device_setting& on, connection& host, const options& o, int lanes)
    : binding_(b),
      net_(make_nccl_transport(*on.gpu, host,
                               {.device = on.number,
                                .rounds = nccl_groups(b.plan),
                                .ways = most_stages(b.plan),
                                .queues = lanes,
                                .timeout = o.timeout,
                                .mpi = any_over_mpi(b.plan),
                                .callers_rank = b.callers_rank,
                                .host = on.nccl_host})),
      programs_(o.memory) {}

device_calls::~device_calls() { net_.reset(); }  // first: queues may still use the programs' memory

bool device_calls::holds(const call_shape& call, int callers_rank, const void* send, const void* recv) const {
    const bool is_root = call.root == callers_rank, gets = !row_of(call.what).gets_nothing(is_root);
    if (call.what == collective::scatter && !is_root) return recv != nullptr && net_->holds(recv);
    const bool first = send != nullptr && net_->holds(send);
    if (!gets || recv == send || recv == nullptr || send == nullptr)
        return first || (recv != nullptr && gets && net_->holds(recv));
    const bool second = net_->holds(recv);
    if (first != second)
        throw usage_error(fmt::format("{}: {} is memory of the device and {} is not; both must be, or neither",
                                      to_string(call.what), first ? "send" : "recv", first ? "recv" : "send"));
    return first;
}

std::uint64_t device_calls::enqueue(const full_call& c, CUstream_st* stream) {
    check();
    prepare_root(c.shape, stream);
    programs::entry& found = find(c.shape);
    found.in_graph |= net_->begin(stream, found.run.lanes());
    found.run.enqueue(c.buffers.send, c.buffers.recv);
    found.last_call = last_ = net_->end();
    check();
    return last_;
}

bool device_calls::test(std::uint64_t call) {
    const bool done = net_->done(call);
    check();  // an aborted call counts as done, too
    return done;
}

void device_calls::wait(std::uint64_t call) {
    constexpr int soon = 200;
    for (int n = 0; !test(call); ++n) {
        if (n < soon) std::this_thread::yield();
        else std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

void device_calls::then(std::uint64_t, callback) {
    throw usage_error(
        "request: a call of device buffers has no callback; put the function behind it in its stream "
        "(cudaLaunchHostFunc), or wait for the request");
}

void device_calls::check() const {
    const std::optional<transport_fault> f = net_->fault();
    if (!f) return;
    if (net_->timed_out()) throw timeout_error(fmt::format("{}: {}", f->call, f->message));
    throw transport_error(f->library, f->call, f->code, f->message);
}

// Makes the groups of a root in the first call with this root. NCCL's own broadcasts and reductions have other groups
// for each root, and all ranks use a new root in the same call. During a capture, messages replace these collectives.
void device_calls::prepare_root(const call_shape& call, CUstream_st* stream) {
    constexpr std::size_t most_roots = 16;  // pairs of collective and root, except root 0; groups keep device memory
    if (!row_of(call.what).has_root() || roots_.size() == most_roots) return;
    const int root = position_of(call.root, binding_.callers_rank);
    if (root == 0 || roots_.contains({call.what, root}) || net_->captures(stream)) return;
    roots_.insert({call.what, root});
    const std::vector<disjoint_groups> rounds = nccl_groups(binding_.plan, call.what, root);
    if (rounds.empty()) return;
    wait_for_all();
    net_->prepare(rounds);
    check();
}

stream_program device_calls::bind(const call_shape& call) const {
    const rule& chosen = binding_.rule_of(call);
    // NCCL's collectives support only shards of equal length.
    call_schedules made =
        binding_.schedules_of(call, chosen, net_->can(call.type, call.op), buffer::recv, {.divides_evenly = true});
    return stream_program(std::move(made.full), std::move(made.tail),
                          {.type = call.type,
                           .op = call.op,
                           .divisor = call.op == reduce_op::avg ? binding_.plan.machine.ranks() : 1,
                           .chunks = made.chunks,
                           .steps = std::move(made.steps),
                           .lanes = made.lanes,
                           .over_mpi = over_mpi(chosen)},
                          *net_);
}

// Returns by stage its description, if it goes over MPI; otherwise empty.
std::vector<std::string> device_calls::over_mpi(const rule& chosen) const {
    std::vector<std::string> all;
    for (const stage& s : chosen.stages)
        all.push_back(s.provider == provider::mpi
                          ? fmt::format("{} of {}", all.size() + 1, describe(binding_.plan.machine, chosen.stages))
                          : "");
    return all;
}

std::string device_calls::objection_to(const call_shape& call, CUstream_st* stream) const {
    if (binding_.elements_of(call) == 0) return {};
    const std::vector<stage>& stages = binding_.rule_of(call).stages;
    const auto found = std::ranges::find(stages, provider::mpi, &stage::provider);
    if (found == stages.end() || !net_->captures(stream)) return {};
    return fmt::format(
        "the stream is being captured into a CUDA graph, but stage {} of its plan ({}) goes over MPI, which "
        "a graph cannot hold; make the call outside of the capture, or plan without provider mpi",
        found - stages.begin() + 1, describe(binding_.plan.machine, stages));
}

// ---- shapes

call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm, reduce_op op, int root) {
    if (!fits(what, c, comm, root))
        throw usage_error(
            fmt::format("{}: send has {} elements and recv has {}, which contradict each other on {} ranks",
                        to_string(what), c.sent, c.received, comm.size()));
    const std::size_t all = row_of(what).gets_own_block() ? c.received : c.sent;
    const std::size_t count = what == collective::alltoall ? all / static_cast<std::size_t>(comm.size()) : all;
    return {
        .what = what, .count = static_cast<std::int64_t>(count), .counts = {}, .type = c.type, .op = op, .root = root};
}

call_shape shape_of(collective what, const nccl::stream_call& c, const communicator& comm,
                    std::span<const std::int64_t> counts, reduce_op op) {
    const bool gathers = what == collective::allgather;
    expect_counts(to_string(what), counts, comm.rank(), comm.size(),
                  static_cast<std::int64_t>(gathers ? c.received : c.sent),
                  static_cast<std::int64_t>(gathers ? c.sent : c.received));
    return {.what = what, .counts = {counts.begin(), counts.end()}, .type = c.type, .op = op};
}

}  // namespace terrace::detail
