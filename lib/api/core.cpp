#include "api/core.hpp"

#include <chrono>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "api/creation/connect.hpp"
#include "api/plan_follower.hpp"
#include "base/index.hpp"
#include "base/keep_for_ever.hpp"
#include "base/units.hpp"
#include "plan/wire_limit.hpp"
#include "schedule/slice.hpp"
#include "schedule/stage_groups.hpp"
#include "transport/shm/node_network.hpp"
#include "transport/shm/shm_stages.hpp"

namespace terrace::detail {

namespace {

// Returns the plan with wire types limited by options::wire_error, which is the same on all ranks.
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

void expect_one_rounding(const options& o) {
    if (o.reproducible && o.rounds_on_wire)
        throw usage_error(
            "options::reproducible and options::rounds_on_wire contradict each other: bits that are rounded on the "
            "wire depend on the plan; switch one of them off");
    if (o.adapt == options::adapting::on && o.rounds_on_wire)
        throw usage_error(
            "options::adapt and options::rounds_on_wire contradict each other: what is rounded depends on the plan; "
            "switch one of them off");
}

// Connects the ranks and prepares all that the plan's stages require: MPI communicators for stages of MPI's own
// collectives, and shared memory for stages on a node. Collective. @throws transport_error
std::unique_ptr<endpoint> equip(connection by, const plan_data& p, const options& o) {
    if (o.shared_memory && by.memory && by.net->traits().by_node_memory)
        by.net = with_node_messages(std::move(by.net), by.memory);
    auto made =
        std::make_unique<endpoint>(std::move(by), engine::request_slots(most_lanes(p, o)) + point_to_point::wire_slots);
    connection& on = made->base();
    if (const std::vector<std::vector<int>> groups = mpi_groups(p); !groups.empty())
        made->add(on.net->own_collectives(on.ranks, groups, lane_slots(p)));
    if (o.shared_memory && on.memory)
        made->add(make_shm_stages(on, lane_slots(p), static_cast<std::size_t>(slot_bytes(p))));
    return made;
}

// Describes a communicator in one line: version, plan, shape, transports, allreduce by size, and the number of rules of
// each other collective.
std::string log_line(const plan_data& plan, std::string_view transports) {
    std::string line = fmt::format("terrace {}: plan {} \"{}\", {} ranks ({}), transport {}", version(), plan.id,
                                   plan.name, plan.machine.ranks(), shape_text(plan.machine.shape), transports);
    for (const auto& [what, rules] : plan.rules) {
        line += fmt::format("; {}", to_string(what));
        if (what != collective::allreduce) {
            line += rules.size() == 1 ? " 1 rule" : fmt::format(" {} rules", rules.size());
            continue;
        }
        const char* separator = " ";
        for (std::size_t i = 0; i < rules.size(); ++i) {
            const rule& r = rules[i];
            if (i + 1 < rules.size() && rules[i + 1].stages == r.stages) continue;  // only lanes or chunk differ
            const std::string bound = r.up_to != rule::no_bound ? "up to " + format_bytes(r.up_to)
                                      : *separator == ' '       ? "of any size"
                                                                : "above";
            line += fmt::format("{}{}: {}", separator, bound, describe(plan.machine, r.stages));
            separator = ", ";
        }
    }
    return line;
}

}  // namespace

// Unknown algorithms are rejected here, not at the first call of a size that requires them.
communicator_core::communicator_core(planned_ranks with, options o, std::optional<device_setting> device)
    : plan_(rounding_plan(with.by, o)),
      options_(std::move(o)),
      ranks_{with.rank},
      net_((expect_one_rounding(options_), check_runnable(data_of(plan_)),
            equip(std::move(with.net), data_of(plan_), options_))),
      reports_(data_of(plan_), options_, ranks_) {
    const int lanes = most_lanes(data_of(plan_), options_);
    running_ = std::make_unique<engine>(*net_, lanes, reports_.events());
    ranks_.gather(net_->ranks());
    control_ = std::make_unique<control_plane>(
        *net_, *running_, engine::request_slots(lanes), ranks_.callers, reports_.events(), options_,
        [this] { progress_->move_along(); }, [this] { progress_->watch(); });
    running_->serve([this](int slot) { control_->messages.complete(slot); });
    reports_.begin(*control_, net_->rank());
    const binding bound{data_of(plan_), net_->rank(), ranks_.callers, options_.reproducible, options_.rounds_on_wire};
    calls_ = std::make_unique<call_admission>(call_admission::parts{
        .runs = {bound, *net_, *running_, reports_.events(), control_->call_order, control_->plan_change, failure_,
                 options_, [this] { progress_->begun(); }},
        .times = reports_.times(),
        .requests = [this](std::uint64_t call) { return request_access::make(*progress_, call); },
        .wake = [this] { progress_->wake(); },
        .empty_queue = [this] { progress_->drive_until([&] { return calls_->queue().none_waits(); }); }});
    // Calls on the device are ended at once, before the caller frees the memory that they use.
    failure_.at_failure = [this] {
        if (calls_->device()) calls_->device()->abandon();
    };
    progress_ = std::make_unique<call_progress>(call_progress::parts{
        {*control_, *running_, calls_->groups(), reports_, ranks_}, *net_, *calls_, failure_, options_});
    if (device) calls_->use_device(*device, most_lanes(data_of(plan_)));
    on_all_ranks(ranks_.callers, net_->ranks(), [&] {
        progress_->start_thread();  // first: collective, since ranks exchange the names of their nodes
        if (!options_.trace_file.empty() && ranks_.own == 0) begin_trace(options_.trace_file);
    });
    if (options_.log && ranks_.own == 0) options_.log(log_level::info, log_line(data_of(plan_), transports()));
}

// After a failure, or if calls are still in flight, the network may still read and write their memory.
communicator_core::~communicator_core() {
    progress_->stop();
    calls_->drop_device();
    progress_->deliver_copies();
    if (!failure_.is_broken()) reports_.end_links();
    const bool is_quiet = progress_->is_quiet() && !control_->wait_report.is_open() &&
                          !control_->call_order.stamps().is_open() && !control_->link_report.is_open();
    if ((failure_.is_broken() || !is_quiet) && !net_->abandon()) {
        calls_->runner().keep_for_ever();
        calls_->queue().keep_for_ever();
        keep_for_ever(std::move(control_));
    }
    or_warn(options_, "", [&] { reports_.write_last(*running_, failure_.is_broken()); });
}

// Calls in flight are completed, since other ranks may wait for them.
void communicator_core::end_calls_for(const std::string& what) {
    calls_->expect_unbroken(what);
    progress_->drive_until([&] { return calls_->queue().none_waits(); });
    failure_.latch([&] { control_->call_order.meet(what); });
    progress_->drive_until([&] { return running_->idle(); });
}

void communicator_core::set_timeout(std::chrono::duration<double> timeout) {
    if (!(timeout.count() >= 0))
        throw usage_error(fmt::format("set_timeout: {:g} s; allowed: 0 (no limit) or more", timeout.count()));
    const auto held = hold();
    options_.timeout = timeout;
    control_->wait_report.set_timeout(timeout);
}

std::string communicator_core::transports() const {
    return calls_->device() ? fmt::format("{}; {}", net_->name(), calls_->device()->name()) : net_->name();
}

// ---- messages

void communicator_core::expect_message(const char* what, const void* memory, std::int64_t count, int rank, int tag,
                                       bool any) const {
    calls_->expect_unbroken(what);
    std::string objection;
    if (count < 0) objection = fmt::format("count is {}; it must not be negative", count);
    else if (memory == nullptr && count > 0) objection = fmt::format("the buffer is null, but count is {}", count);
    else if (tag < 0) objection = fmt::format("tag is {}; it must not be negative", tag);
    else if ((rank < 0 || rank >= net_->size()) && !(any && rank == any_source))
        objection = fmt::format("rank is {}, but ranks are 0 to {}{}", rank, net_->size() - 1,
                                any                  ? ", or any_source"
                                : rank == any_source ? "; a send has one receiver"
                                                     : "");
    else if (calls_->device() && calls_->device()->holds(memory))
        objection =
            "the buffer is on a device, and NCCL has no tags and no receive from any source; pass memory of the host";
    if (!objection.empty()) throw usage_error(fmt::format("{}: {}", what, objection));
}

request communicator_core::send(const void* from, std::int64_t count, element_type type, int rank, int tag) {
    const auto held = hold();
    expect_message("send", from, count, rank, tag, false);
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(type);
    return progress_->message_begun(
        control_->messages.send({position_of(rank, ranks_.callers), tag, type, bytes}, from));
}

request communicator_core::recv(void* to, std::int64_t count, element_type type, int source, int tag,
                                received* result) {
    const auto held = hold();
    expect_message("recv", to, count, source, tag, true);
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(type);
    const int from = source == any_source ? any_source : position_of(source, ranks_.callers);
    return progress_->message_begun(control_->messages.recv({from, tag, type, bytes}, to, result));
}

}  // namespace terrace::detail
