#include "api/core.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "api/creation/placement.hpp"
#include "api/creation/transport_setup.hpp"
#include "api/log_line.hpp"
#include "base/index.hpp"
#include "base/keep_for_ever.hpp"
#include "plan/plan_access.hpp"
#include "plan/predicted_time.hpp"
#include "plan/wire_limit.hpp"
#include "schedule/slice.hpp"
#include "schedule/stage_groups.hpp"

namespace terrace::detail {

namespace {

// By the limit, which all ranks pass alike.
plan rounding_plan(const plan& p, const options& o) {
    if (!(o.wire_error >= 0))
        throw usage_error(fmt::format("options::wire_error is {}; pass 0 for no limit, or more", o.wire_error));
    if (!o.rounds_on_wire) return p;
    if (o.wire_error > 0) return to_plan(limited_rounding(data_of(p), o.wire_error));
    if (requires_wire_error(data_of(p)))
        throw usage_error(
            "options::wire_error is 0, and the plan has stages with wire: auto, whose type it decides; set it, as by "
            "TERRACE_WIRE=0.01, or plan with another --wire");
    return p;
}

// How long a call waits until its rank says which calls it has made.
std::chrono::duration<double> patience_of(const options& o) {
    const std::chrono::duration<double> usual(1);
    return o.timeout.count() > 0 ? std::min(usual, std::chrono::duration<double>(o.timeout / 100)) : usual;
}

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
    : plan_(rounding_plan(p, o)),
      rank_(rank),
      binding_{data_of(plan_), by.ranks.rank(), callers_rank_, o.reproducible, o.rounds_on_wire},
      options_(std::move(o)),
      net_((expect_one_rounding(options_), check_runnable(data_of(plan_)),
            equip(std::move(by), data_of(plan_), options_))),
      events_(!options_.trace_file.empty(), rank),
      device_(std::move(device)),
      groups_(options_.threads == options::threading::any) {
    const int lanes = most_lanes(data_of(plan_));
    engine_ = std::make_unique<engine>(*net_, lanes, events_);
    gather_callers_ranks();
    router_ = std::make_unique<control_router>(*net_);
    messages_ = std::make_unique<point_to_point>(*router_, engine::request_slots(lanes), callers_rank_, events_);
    engine_->serve(*messages_);
    chain_ = std::make_unique<wait_chain>(*router_, options_.timeout);
    check_ = std::make_unique<call_check>(
        *router_, callers_rank_, options_.check, [this] { move_along(); }, [this] { monitor_->watch(); },
        patience_of(options_));
    runner_ = std::make_unique<call_runner>(
        call_runner::parts{binding_, *net_, *engine_, events_, *check_, failure_, options_}, rank_,
        [this] { begun(); });
    calls_ = std::make_unique<call_queue>(*runner_, *check_, failure_);
    // Calls on the device are ended first, before the caller frees the memory that they work on.
    failure_.at_failure = [this] {
        if (device_calls_) device_calls_->abandon();
    };
    failures_ = std::make_unique<failure_watch>(*router_, callers_rank_, options_.failure_timeout);
    monitor_ = std::make_unique<wait_monitor>(
        wait_monitor::subject{*router_, *check_, *engine_, *messages_, groups_, *chain_, *failures_, events_,
                              callers_rank_, world_ranks_, rank_, [this] { write_statistics_file(); },
                              [this] { write_metrics(false); }},
        options_);
    if (device_) device_calls_ = std::make_unique<device_calls>(binding_, *device_, net_->by(), options_, lanes);
    on_all_ranks(callers_rank_, net_->ranks(), [&] {
        driver_ = make_driver();  // first: all ranks tell each other where they are
        if (!options_.trace_file.empty() && rank_ == 0) begin_trace(options_.trace_file);
    });
    // Other rules than the plan's run where bits are fixed, and other bytes cross the links where they are rounded.
    if (!options_.profile_directory.empty() && net_->rank() == 0 && !options_.reproducible && !options_.rounds_on_wire)
        times_ = std::make_unique<call_times>();
    if (options_.log && rank_ == 0) options_.log(log_level::info, log_line(data_of(plan_), transports()));
}

// After a failure, or where a request was dropped, the network may still read and write the memory of calls.
communicator_core::~communicator_core() {
    if (driver_) driver_->stop();  // the thread uses driver_ until then
    drop_callbacks();
    device_calls_.reset();
    deliver_copies();
    const bool is_quiet = quiet() && !chain_->is_open() && !check_->is_open();
    if ((failure_.failed() || !is_quiet) && !net_->abandon()) {
        runner_->keep_for_ever();
        calls_->keep_for_ever();
        keep_for_ever(std::move(messages_));
    }
    try {
        if (!options_.trace_file.empty()) events_.write_trace(options_.trace_file, plan_.name());
        write_statistics_file();
        write_metrics(true);
        const std::vector<profiled_call> calls =
            times_ && !failure_.failed() ? times_->quartiles() : std::vector<profiled_call>();
        if (!calls.empty()) write_profile(options_.profile_directory, data_of(plan_), calls);
    } catch (const std::exception& e) {
        if (options_.log) options_.log(log_level::warn, e.what());
    }
}

// With the caller's rank each rank says when it is: the time of the first one tells communicators apart.
void communicator_core::gather_callers_ranks() {
    struct greeting {
        std::int64_t time, rank;
    };
    std::vector<greeting> all(at(size()));
    const greeting mine{std::chrono::system_clock::now().time_since_epoch().count(), rank_};
    net_->ranks().gather_all(&mine, all.data(), sizeof mine);
    id_ = fmt::format("{:x}-{}", all.front().time, net_->ranks().world_rank(0));
    for (const greeting& g : all) callers_rank_.push_back(static_cast<int>(g.rank));
    world_ranks_.resize(callers_rank_.size());
    for (int r = 0; r < size(); ++r) world_ranks_[at(callers_rank_[at(r)])] = net_->ranks().world_rank(r);
}

void communicator_core::run(const call_shape& call, const void* send, void* recv, double factor) {
    expect_no_group(name_of(call));
    start(call, send, recv, factor).wait();
}

void communicator_core::run(const uneven_blocks& b) {
    expect_no_group(name_of(b));
    start(b).wait();
}

request communicator_core::start(const call_shape& call, const void* send, void* recv, double factor,
                                 void* rounding_errors) {
    const auto held = hold();
    expect_unbroken(name_of(call));
    const call_buffers b{send, recv, rounding_errors};
    if (open_group* group = groups_.own();
        group != nullptr && !device_calls_ && !options_.rounds_on_wire && are_right_buffers(call, send, recv))
        if (const std::uint64_t ticket = join_group(*group, call, b))
            return request_access::make(*this, ticket | ticket_bit);
    return start_checked(call, b, factor);
}

// Not in a group that has calls of the same kind, which it might join at once.
request communicator_core::start_checked(const call_shape& call, const call_buffers& b, double factor) {
    if (device_calls_ && device_calls_->holds(call, rank_, b.send, b.recv)) {
        const std::uint64_t number = start_on_device(call, b.send, b.recv, device_calls_->own_stream(), factor);
        return number == 0 ? request{} : request_access::make(*device_calls_, number);
    }
    open_group* group = groups_.own();
    if (std::string wrong = runner_->objection_to(call, b.send, b.recv); !wrong.empty()) {
        if (group != nullptr && group->number) throw refusal_of(call, wrong);  // it is not this call's turn
        check_call(call, signature_of(call), b.send, b.recv, std::move(wrong));
    }
    if (group != nullptr) return add_to_group(*group, call, b, factor);
    call_runner::programs::entry* found = runner_->find_idle(call, b.send, b.recv);
    const std::uint64_t signature = found != nullptr ? found->signature : signature_of(call);
    bool may_run = false;
    failure_.latch([&] { may_run = calls_->none_waits() && check_->start(call, signature); });
    if (!may_run) return start_later(call, b, factor);
    if (times_) times_->begin();
    const std::uint64_t number = runner_->issue(call, b, factor, found);
    if (times_ && !call.is_barrier && !row_of(call.what).has_root() && !call.has_own_lengths())
        times_->started(number, call.what, binding_.elements_of(call) * static_cast<std::int64_t>(size_of(call.type)));
    return number == 0 ? request{} : request_access::make(*this, number);
}

// @param call ranks compare it already, unless others wait before it
request communicator_core::start_later(const call_shape& call, const call_buffers& b, double factor) {
    const std::uint64_t ticket = calls_->add(call, std::make_unique<one_call>(b, factor),
                                             calls_->none_waits() ? call_state::comparing : call_state::queued);
    calls_->enqueue(ticket);
    if (driver_) driver_->wake();
    return request_access::make(*this, ticket | ticket_bit);
}

// The caller may do something else for a long time.
void communicator_core::begun() {
    do step();
    while (engine_->beginning());
    if (driver_) driver_->wake();
}

void communicator_core::enqueue(const call_shape& call, const void* send, void* recv, CUstream_st* stream) {
    const auto held = hold();
    expect_unbroken(to_string(call.what));
    expect_device(to_string(call.what));
    start_on_device(call, send, recv, stream, 1);
}

void communicator_core::expect_device(std::string_view what) const {
    if (!device_calls_)
        throw usage_error(
            fmt::format("{}: this communicator has no device; give it one by terrace::nccl::create or "
                        "terrace::nccl::use_device",
                        what));
}

void communicator_core::synchronize() {
    const auto held = hold();
    expect_unbroken("synchronize");
    if (device_calls_) failure_.latch([&] { device_calls_->wait_for_all(); });
}

std::uint64_t communicator_core::start_on_device(const call_shape& call, const void* send, void* recv,
                                                 CUstream_st* stream, double factor) {
    const std::optional<std::uint64_t> known = device_calls_->signature_of_known(call);
    const std::uint64_t signature = known ? *known : signature_of(call);
    std::string objection = device_calls_->objection_to(call, stream);
    if (const open_group* group = groups_.own(); group != nullptr && group->number)
        throw refusal_of(call, "buffers are on the device; groups with numbers are for buffers of the host");
    if (factor != 1) objection = fmt::format("factor {} is for buffers of the host; multiply before the call", factor);
    if (binding_.uses_tree(call)) objection = "options::reproducible is for buffers of the host";
    if (binding_.meets_wire_types(call)) objection = "options::rounds_on_wire is for buffers of the host";
    check_call(call, signature, send, recv, std::move(objection));
    if (binding_.elements_of(call) == 0) return 0;
    std::uint64_t number = 0;
    failure_.latch([&] { number = device_calls_->enqueue(call, signature, send, recv, stream); });
    return number;
}

// A call that is wrong in itself takes part in the comparison as such. @throws its objection
void communicator_core::check_call(const call_shape& call, std::uint64_t signature, const void* send, const void* recv,
                                   std::string objection) {
    if (objection.empty()) objection = runner_->objection_to(call, send, recv);
    drive_until([&] { return calls_->none_waits(); });
    failure_.latch([&] {
        if (objection.empty()) check_->begin(call, signature);
        else check_->meet_refused(call, objection);
    });
    if (!objection.empty()) throw refusal_of(call, objection);
}

void communicator_core::expect_unbroken(std::string_view what) const {
    failure_.expect_none(what);
    if (device_calls_) device_calls_->check();
}

std::string communicator_core::transports() const {
    return device_calls_ ? fmt::format("{}; {}", net_->name(), device_calls_->name()) : net_->name();
}

double communicator_core::predicted(collective what, std::int64_t bytes) const {
    return predicted_time(data_of(plan_), what, bytes);
}

void communicator_core::keep_programs(int shapes) {
    const auto held = hold();
    runner_->keep_programs(static_cast<std::size_t>(std::max(shapes, 0)));
}

statistics communicator_core::counted() {
    const auto held = hold();
    return count(callers_rank_);
}

rank_statistics communicator_core::counted_in_job() {
    const auto held = hold();
    return count_in_job();
}

// @param callers_rank the number to name each rank of the plan by
statistics communicator_core::count(const std::vector<int>& callers_rank) {
    statistics s = engine_->counts().all(callers_rank, events_.micros_per_tick() * 1e-6);
    for (statistics::calls_of_size& c : s.calls)
        if (const std::optional<collective> what = parse_collective(c.call); what && c.calls > 0)
            c.limit = static_cast<double>(c.calls) * limit_time(data_of(plan_), *what, c.bytes / c.calls);
    return s;
}

rank_statistics communicator_core::count_in_job() {
    std::vector<int> ranks;
    for (const int r : callers_rank_) ranks.push_back(world_ranks_[at(r)]);
    return {id_, host_name(), plan_.name(), world_ranks_[at(rank_)], net_->size(), count(ranks)};
}

void communicator_core::write_statistics_file() {
    if (!options_.statistics_directory.empty()) write_statistics(options_.statistics_directory, count_in_job());
}

void communicator_core::write_metrics(bool ends) {
    if (!options_.metrics_file.empty()) renew_metrics(options_.metrics_file, count_in_job(), ends);
}

void communicator_core::set_timeout(std::chrono::duration<double> timeout) {
    if (!(timeout.count() >= 0))
        throw usage_error(fmt::format("set_timeout: {:g} s; allowed: 0 (no limit) or more", timeout.count()));
    const auto held = hold();
    options_.timeout = timeout;
    chain_->set_timeout(timeout);
}

// Without the lock: a thread that waits for a call may hold it, and sees the mark.
void communicator_core::abort() noexcept {
    failure_.give_up("the program has ended the calls: communicator::abort");
    if (device_calls_) device_calls_->abandon();
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
