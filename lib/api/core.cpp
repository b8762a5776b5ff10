#include "api/core.hpp"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <new>
#include <system_error>

#include <fmt/format.h>

#include "api/auto_plan.hpp"
#include "api/log_line.hpp"
#include "api/transport_setup.hpp"
#include "plan/plan_access.hpp"
#include "plan/predicted_time.hpp"
#include "schedule/compose.hpp"
#include "schedule/stage_groups.hpp"

namespace terrace::detail {

namespace {

void expect_one_rounding(const options& o) {
    if (o.reproducible && o.rounds_on_wire)
        throw usage_error(
            "options::reproducible and options::rounds_on_wire contradict each other: bits that are rounded on the "
            "wire depend on the "
            "plan; switch one of them off");
}

}  // namespace

// Algorithms that are unknown are refused here, not at the first message of a size that requires them.
communicator_core::communicator_core(const plan& p, connection by, int rank, options o,
                                     std::optional<device_setting> device)
    : plan_(p),
      rank_(rank),
      binding_{data_of(plan_), by.ranks.rank(), callers_rank_, o.reproducible, o.rounds_on_wire},
      options_(std::move(o)),
      net_((expect_one_rounding(options_), check_runnable(data_of(plan_)),
            equip(std::move(by), data_of(plan_), options_))),
      events_(!options_.trace_file.empty(), rank),
      device_(device) {
    const int lanes = most_lanes(data_of(plan_));
    engine_ = std::make_unique<engine>(*net_, lanes, events_);
    gather_callers_ranks();
    chain_ = std::make_unique<wait_chain>(*net_, options_.timeout);
    check_ = std::make_unique<call_check>(
        *net_, callers_rank_, *chain_, options_.check, [this] { engine_->progress(); }, [this] { monitor_->watch(); });
    monitor_ = std::make_unique<wait_monitor>(
        wait_monitor::subject{*check_, *engine_, *chain_, events_, callers_rank_, rank_}, options_);
    if (device_) device_calls_ = std::make_unique<device_calls>(binding_, *device_, net_->by(), options_, lanes);
    on_all_ranks(callers_rank_, net_->ranks(), [&] {
        if (options_.progress_thread) thread_ = make_thread();  // first: all ranks tell each other where they are
        if (!options_.trace_file.empty() && rank_ == 0) begin_trace(options_.trace_file);
    });
    if (options_.log && rank_ == 0) options_.log(log_level::info, log_line(data_of(plan_), transports()));
}

// After a failure, or where a request was dropped, the network may still write to the programs' memory.
communicator_core::~communicator_core() {
    thread_.reset();
    device_calls_.reset();
    const bool is_quiet = engine_->idle() && !chain_->is_open();
    if ((failure_.failed() || !is_quiet) && !net_->abandon()) programs_.keep_for_ever();
    if (options_.trace_file.empty()) return;
    try {
        events_.write_trace(options_.trace_file, plan_.name());
    } catch (const std::exception& e) {
        if (options_.log) options_.log(log_level::warn, e.what());
    }
}

void communicator_core::gather_callers_ranks() {
    callers_rank_.resize(static_cast<std::size_t>(size()));
    net_->ranks().gather_all(&rank_, callers_rank_.data(), sizeof(int));
}

// The first rank of a node gets the last core for its thread, the second rank the core before it, and so on.
std::unique_ptr<progress_thread> communicator_core::make_thread() {
    const std::vector<int> nodes = net_->ranks().nodes();
    const auto me = nodes.begin() + net_->rank();
    const auto core = static_cast<int>(std::count(nodes.begin(), me, *me));
    const auto step = [this, w = waiter()]() mutable {
        try {
            const bool moved = progress();
            if (w.should_yield(moved, net_->spin_limit())) {
                look_around();
                net_->wire().look();
            }
            return moved;
        } catch (...) {
            return true;  // those who wait throw what failure_ holds
        }
    };
    try {
        return std::make_unique<progress_thread>(
            core, progress_thread::work{[this] { return !engine_->idle() && !failure_.failed(); }, step});
    } catch (const std::system_error& e) {
        throw usage_error(
            fmt::format("the progress thread cannot be started: {}; allow more threads (ulimit -u), or switch "
                        "options::progress_thread off",
                        e.what()));
    }
}

progress_thread::lock communicator_core::hold() { return thread_ ? thread_->hold() : progress_thread::lock{}; }

void communicator_core::run(const call_shape& call, const void* send, void* recv, double factor) {
    start(call, send, recv, factor).wait();
}

request communicator_core::start(const call_shape& call, const void* send, void* recv, double factor) {
    const auto held = hold();
    expect_unbroken(name_of(call));
    if (device_calls_ && device_calls_->holds(call, rank_, send, recv)) {
        const std::uint64_t number = start_on_device(call, send, recv, device_calls_->own_stream(), factor);
        return number == 0 ? request{} : request_access::make(*device_calls_, number);
    }
    // An allreduce multiplies its elements on the way to recv, and works in place there; else they are in plain memory.
    const bool multiplies = call.op == reduce_op::premul_sum && goes_up(call.what);
    const bool near =
        multiplies ? call.what == collective::allreduce && reachable(call, recv, recv) : reachable(call, send, recv);
    programs::entry* found = find_idle(call, near);
    const std::uint64_t signature = found != nullptr ? found->signature : signature_of(call);
    check_call(call, signature, send, recv);
    if (call.count == 0 && call.counts.empty()) return {};
    if (found == nullptr) found = &bind_new(call, signature, near);
    if (multiplies) send = multiplied(*found, send, recv, factor);
    if (call.is_barrier) {
        found->memory.resize(1);
        send = recv = found->memory.data();
    }
    found->last_call = engine_->issue(found->run, send, recv);
    if (events_.keeps_everything())
        events_.describe({found->last_call, call.what, call.type,
                          binding_.elements_of(call) * static_cast<std::int64_t>(size_of(call.type))});
    do progress();  // the caller may do something else for a long time
    while (engine_->beginning());
    if (thread_) thread_->wake();
    return request_access::make(*this, found->last_call);
}

// Returns this rank's elements, multiplied: in recv where there is room for all of them, else in the program's memory.
const void* communicator_core::multiplied(programs::entry& by, const void* send, void* recv, double factor) {
    const std::int64_t count = binding_.elements_of(by.shape);
    if (by.shape.what != collective::allreduce) {
        by.memory.resize(static_cast<std::size_t>(count) * size_of(by.shape.type));
        recv = by.memory.data();
    }
    multiply(recv, send, count, by.shape.type, factor);
    return recv;
}

void communicator_core::enqueue(const call_shape& call, const void* send, void* recv, CUstream_st* stream) {
    const auto held = hold();
    expect_unbroken(to_string(call.what));
    if (!device_calls_)
        throw usage_error(fmt::format(
            "{}: this communicator has no device; create one that has by terrace::nccl::create", to_string(call.what)));
    start_on_device(call, send, recv, stream, 1);
}

void communicator_core::synchronize() {
    const auto held = hold();
    expect_unbroken("synchronize");
    if (device_calls_) or_fail([&] { device_calls_->wait_for_all(); });
}

std::uint64_t communicator_core::start_on_device(const call_shape& call, const void* send, void* recv,
                                                 CUstream_st* stream, double factor) {
    const std::optional<std::uint64_t> known = device_calls_->signature_of_known(call);
    const std::uint64_t signature = known ? *known : signature_of(call);
    std::string objection = device_calls_->objection_to(call, stream);
    if (factor != 1) objection = fmt::format("factor {} is for buffers of the host; multiply before the call", factor);
    if (binding_.uses_tree(call)) objection = "options::reproducible is for buffers of the host";
    if (binding_.meets_wire_types(call)) objection = "options::rounds_on_wire is for buffers of the host";
    check_call(call, signature, send, recv, std::move(objection));
    if (binding_.elements_of(call) == 0) return 0;
    std::uint64_t number = 0;
    or_fail([&] { number = device_calls_->enqueue(call, signature, send, recv, stream); });
    return number;
}

void communicator_core::check_call(const call_shape& call, std::uint64_t signature, const void* send, const void* recv,
                                   std::string objection) {
    if (objection.empty()) objection = objection_to(call, rank_, size(), send, recv);
    if (objection.empty()) objection = binding_.objection_to_wire(call);
    or_fail([&] {
        if (objection.empty()) check_->begin(call, signature);
        else check_->meet(describe(call) + ", refused", ": " + objection);
    });
    if (!objection.empty()) throw usage_error(fmt::format("{}: {}", name_of(call), objection));
}

bool communicator_core::test(std::uint64_t call) {
    const auto held = hold();
    if (engine_->done(call)) return true;
    failure_.rethrow();
    if (!progress()) look_around();
    return engine_->done(call);
}

void communicator_core::wait(std::uint64_t call) {
    auto held = hold();
    if (thread_) thread_->wait(held, [&] { return failure_.failed() || engine_->done(call); });
    finish(call);
}

void communicator_core::finish(std::uint64_t call) {
    for (waiter w; !engine_->done(call);) {
        failure_.rethrow();
        if (!w.should_yield(progress(), net_->spin_limit())) continue;
        look_around();
        net_->idle();
    }
}

bool communicator_core::progress() {
    const bool moved = engine_->progress();
    if (net_->fault()) or_fail([&] { check_fault(*net_); });
    return moved;
}

void communicator_core::look_around() {
    or_fail([&] { monitor_->look_around(); });
}

// Calls on the device are ended first, before the caller frees the memory that they work on.
template <class Action>
void communicator_core::or_fail(Action action) {
    failure_.latch(action, [&] {
        if (device_calls_) device_calls_->abandon();
    });
}

// A shorter vector is copied into a slot sooner than peers have read it in the caller's memory, and the call would wait
// for them.
bool communicator_core::reachable(const call_shape& call, const void* send, const void* recv) const noexcept {
    constexpr std::size_t worth_no_copy = 1024;  // [bytes], as measured: docs/performance.md
    const std::size_t bytes = static_cast<std::size_t>(call.count) * size_of(call.type);
    return bytes >= worth_no_copy && !has_blocks(call.what) && net_->reachable(recv, bytes) &&
           (send == recv || net_->reachable(send, bytes));
}

communicator_core::programs::entry* communicator_core::find_idle(const call_shape& call, bool near) noexcept {
    return programs_.use(
        call, [&](const programs::entry& e) { return e.peers_reach_it == near && engine_->done(e.last_call); });
}

// While a call of the same shape is in flight, this one gets a program of its own.
communicator_core::programs::entry& communicator_core::bind_new(const call_shape& call, std::uint64_t signature,
                                                                bool near) {
    return programs_.add({call, signature, near, bind(call, near)},
                         [&](std::uint64_t number) { return engine_->done(number); });
}

program communicator_core::bind(const call_shape& call, bool near) {
    const rule chosen = call.received.empty() ? binding_.rule_of(call) : binding_.straight_rule();
    auto [chunks, lanes, full, tail] = binding_.schedules_of(
        call, chosen, net_->can(), near ? buffer::recv : buffer::scratch, {.slot_bytes = net_->can().slot_bytes});
    const bool placed = net_->can().slots > 0 && uses_lane_slots(chosen);
    const bool in_slot = placed && fits_slot(tail.count, call) && fits_slot(full.count, call);
    if (options_.log)
        options_.log(log_level::debug,
                     fmt::format("{} of {} {}: {}, {} lanes, {} chunks of {}", name_of(call),
                                 binding_.elements_of(call), to_string(call.type),
                                 describe(data_of(plan_).machine, chosen.stages), lanes, chunks.chunks, chunks.chunk));
    return program(std::move(full), std::move(tail),
                   {.element = size_of(call.type),
                    .reduce = find_reduce(call.type, call.op, widest_vectors(),
                                          binding_.uses_tree(call) ? grouping::by_tree : grouping::in_order),
                    .divisor = call.op == reduce_op::avg ? size() : 1,
                    .type = call.type,
                    .chunks = chunks,
                    .lanes = lanes,
                    .placed = placed,
                    .in_slot = in_slot,
                    .streams = streams(call)},
                   *net_);
}

// True for buffers so long that what is written has left the cache before anybody reads it.
bool communicator_core::streams(const call_shape& call) const {
    static const std::int64_t cache = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));
    return cache > 0 && 2 * binding_.elements_of(call) * static_cast<std::int64_t>(size_of(call.type)) > cache;
}

bool communicator_core::fits_slot(std::int64_t count, const call_shape& call) const {
    return static_cast<std::size_t>(count) * size_of(call.type) <= net_->can().slot_bytes;
}

void communicator_core::expect_unbroken(std::string_view what) const {
    failure_.expect_none(what);
    if (device_calls_) device_calls_->check();
}

// Completes all calls before a collective operation that does not move calls along: other ranks may wait for them.
void communicator_core::end_calls_for(const std::string& what) {
    expect_unbroken(what);
    or_fail([&] { check_->meet(what); });
    while (!engine_->idle()) finish(engine_->oldest());
}

std::shared_ptr<std::byte> communicator_core::allocate(std::size_t count, std::size_t element) {
    const auto held = hold();
    if (count > std::numeric_limits<std::ptrdiff_t>::max() / element) throw std::bad_array_new_length();
    end_calls_for(fmt::format("allocate of {} elements of {} bytes", count, element));
    if (count == 0) return nullptr;
    std::shared_ptr<std::byte> memory = net_->allocate(count * element);
    if (options_.log && net_->can().slots > 0 && !net_->reachable(memory.get(), count * element))
        options_.log(log_level::warn,
                     fmt::format("allocate: {} bytes for each rank cannot be shared (is /dev/shm full?); the window is "
                                 "plain memory, which calls copy",
                                 count * element));
    return memory;
}

std::unique_ptr<communicator_core> communicator_core::split(int color, int key) {
    const auto held = hold();
    end_calls_for("split");
    return part_of(color, key);
}

std::unique_ptr<communicator_core> communicator_core::split_by_node(int key) {
    const auto held = hold();
    end_calls_for("split_by_node");
    return part_of(net_->ranks().nodes()[static_cast<std::size_t>(net_->rank())], key);
}

std::unique_ptr<communicator_core> communicator_core::part_of(int color, int key) {
    struct choice {
        int color, key;
    };
    const choice mine{color, key};
    std::vector<choice> all(callers_rank_.size());
    net_->ranks().gather_all(&mine, all.data(), sizeof mine);
    std::optional<team> part = net_->ranks().split(color, 0);
    if (!part) return nullptr;
    std::vector<int> members;  // by rank of the plan, as in `part`
    int new_rank = 0;          // members that the caller's numbering puts before this rank
    for (std::size_t r = 0; r < all.size(); ++r) {
        if (all[r].color != color) continue;
        members.push_back(static_cast<int>(r));
        new_rank += std::pair(all[r].key, callers_rank_[r]) < std::pair(key, rank_);
    }
    const plan p = plan_part(data_of(plan_), members, *part);
    connection by{net_->by().net, net_->by().memory, std::move(*part)};
    return std::make_unique<communicator_core>(p, std::move(by), new_rank, options_, device_);
}

std::string communicator_core::transports() const {
    return device_calls_ ? fmt::format("{}; {}", net_->name(), device_calls_->name()) : net_->name();
}

double communicator_core::predicted(std::int64_t bytes) const {
    return predicted_time(data_of(plan_), collective::allreduce, bytes);
}

void communicator_core::trace(traced_span span) {
    const auto held = hold();
    events_.add(std::move(span));
}

std::string communicator_core::shape(std::int64_t bytes) const {
    const plan_data& data = data_of(plan_);
    return describe(data.machine, data.choose(collective::allreduce, bytes).stages);
}

}  // namespace terrace::detail
