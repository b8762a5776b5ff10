#include "calls/call_admission.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace terrace::detail {

namespace {

call_piece piece_of(const call_shape& call, const call_buffers& b) {
    return {static_cast<const std::byte*>(b.send), static_cast<std::byte*>(b.recv), call.count};
}

}  // namespace

call_admission::call_admission(const parts& with)
    : with_(with),
      runner_(with.runs, with.begun),
      queue_(runner_, with.runs.call_order, with.runs.failure),
      groups_(with.runs.o.threads == options::threading::any) {}

// Calls of a group that has others of their kind join these at once.
request call_admission::start(const call_shape& call, const call_buffers& b, double factor) {
    open_group* group = groups_.own();
    if (group != nullptr && !on_device_ && !with_.runs.o.rounds_on_wire && are_right_buffers(call, b.send, b.recv))
        if (const std::uint64_t ticket = join_group(*group, call, b)) return request_for(ticket);
    if (on_device_ && on_device_->holds(call, runner_.rank(), b.send, b.recv)) {
        const std::uint64_t number = enqueue(call, b.send, b.recv, on_device_->own_stream(), factor);
        return number == 0 ? request{} : request_access::make(*on_device_, number);
    }
    if (std::string wrong = runner_.objection_to(call, b.send, b.recv); !wrong.empty()) {
        if (group != nullptr && group->number) throw refusal_of(call, wrong);  // it is not this call's turn
        check(call, signature_of(call), b.send, b.recv, std::move(wrong));
    }
    if (group != nullptr) return add_to_group(*group, call, b, factor);
    const bool is_next = queue_.none_waits() && runner_.follow_plan();
    call_runner::programs::entry* found = runner_.find_idle(call, b.send, b.recv);
    const std::uint64_t signature = found != nullptr ? found->signature : signature_of(call);
    bool may_run = false;
    with_.runs.failure.latch([&] { may_run = is_next && with_.runs.call_order.start(call, signature); });
    if (!may_run) return start_later(call, b, factor, is_next);
    if (with_.times) with_.times->begin();
    const std::uint64_t number = runner_.issue(call, b, factor, found);
    if (with_.times && !call.is_barrier && !row_of(call.what).has_root() && !call.has_own_lengths())
        with_.times->started(number, call.what,
                             with_.runs.bound.elements_of(call) * static_cast<std::int64_t>(size_of(call.type)));
    return number == 0 ? request{} : with_.requests(number);
}

request call_admission::start_later(const call_shape& call, const call_buffers& b, double factor, bool is_compared) {
    const std::uint64_t ticket = queue_.add(call, std::make_unique<one_call>(b, factor),
                                            is_compared ? call_state::comparing : call_state::queued);
    queue_.enqueue(ticket);
    with_.wake();
    return request_for(ticket);
}

// A call that is wrong in itself takes part in the comparison as such. @throws its objection
void call_admission::check(const call_shape& call, std::uint64_t signature, const void* send, const void* recv,
                           std::string objection) {
    if (objection.empty()) objection = runner_.objection_to(call, send, recv);
    with_.empty_queue();
    with_.runs.failure.latch([&] {
        if (objection.empty()) with_.runs.call_order.start_and_wait(call, signature);
        else with_.runs.call_order.meet_refused(call, objection);
    });
    if (!objection.empty()) throw refusal_of(call, objection);
}

// ---- blocks whose lengths few know

request call_admission::start(const uneven_blocks& b) {
    const int rank = runner_.rank(), ranks = runner_.size();
    // What ranks that make the call see where one refuses it.
    call_shape named = uneven_call::lengths_of(b);
    if (!row_of(b.what).has_root()) {
        named.count = b.most;
        named.type = b.type;
    }
    open_group* group = groups_.own();
    const auto refuse = [&](std::string why) {
        if (group != nullptr && group->number) throw refusal_of(named, why);
        check(named, signature_of(named), nullptr, nullptr, std::move(why));
    };
    if (std::string why = objection_to(b, rank, ranks); !why.empty()) refuse(std::move(why));
    if (on_device_ && on_device_->holds(named, rank, b.send, b.recv))
        refuse("buffers are on the device; pass buffers of the host");
    std::unique_ptr<uneven_call> work = uneven_call::make(b, rank, ranks, runner_.way_of(b));
    call_part first = work->first();
    if (std::string why = runner_.objection_to(first.call, first.send, first.recv); !why.empty())
        refuse(std::move(why));
    const std::uint64_t ticket = queue_.add(std::move(first.call), std::move(work));
    if (group != nullptr) group->add(ticket, queue_[ticket], nullptr, ranks);
    else begin_in_order({ticket});
    return request_for(ticket);
}

// ---- groups

void call_admission::group_end() {
    const std::vector<std::uint64_t> calls = groups_.end();
    if (groups_.own() != nullptr) return;  // in another one
    expect_unbroken("group_end");
    begin_in_order(calls);
}

void call_admission::begin_in_order(const std::vector<std::uint64_t>& calls) {
    for (const std::uint64_t ticket : calls) queue_.enqueue(ticket);
    queue_.begin_waiting();
    with_.wake();
}

request call_admission::add_to_group(open_group& group, const call_shape& call, const call_buffers& b, double factor) {
    if (const std::uint64_t joined = join_group(group, call, b)) return request_for(joined);
    std::unique_ptr<call_work> work;
    joined_calls* others_may_join = nullptr;
    if (may_join(call, runner_.size())) {
        auto joined = std::make_unique<joined_calls>(piece_of(call, b));
        others_may_join = joined.get();
        work = std::move(joined);
    } else {
        work = std::make_unique<one_call>(b, factor);
    }
    const std::uint64_t ticket = queue_.add(call, std::move(work));
    group.add(ticket, queue_[ticket], others_may_join, runner_.size());
    return request_for(ticket);
}

// Returns the ticket of the calls that it is joined with, 0 where there are none.
std::uint64_t call_admission::join_group(open_group& group, const call_shape& call, const call_buffers& b) {
    const std::uint64_t ticket = group.join(call, piece_of(call, b), runner_.size());
    if (ticket != 0) queue_.share(ticket);
    return ticket;
}

void call_admission::expect_unbroken(std::string_view what) const {
    with_.runs.failure.expect_none(what);
    if (on_device_) on_device_->check();
}

void call_admission::expect_no_group(std::string_view call) {
    if (groups_.own() != nullptr)
        throw usage_error(fmt::format(
            "{}: a group is open; call group_end first, or make an _async call and wait for it then", call));
}

void call_admission::expect_begun(std::uint64_t ticket) {
    const open_group* mine = groups_.own();
    if (mine == nullptr || std::ranges::find(mine->list(), ticket) == mine->list().end()) return;
    queue_.close(ticket);
    throw usage_error("request: its call is in a group that is open; call group_end before you wait for it");
}

// ---- the device

void call_admission::use_device(const device_setting& on, int lanes) {
    const call_runner::parts& by = with_.runs;
    on_device_ = std::make_unique<device_calls>(by.bound, on, by.net.base(), by.o, lanes);
    device_ = on;
}

device_calls& call_admission::device_for(std::string_view what) const {
    if (on_device_) return *on_device_;
    throw usage_error(
        fmt::format("{}: this communicator has no device; give it one by terrace::nccl::create or "
                    "terrace::nccl::use_device",
                    what));
}

std::uint64_t call_admission::enqueue(const call_shape& call, const void* send, void* recv, CUstream_st* stream,
                                      double factor) {
    const binding& bound = with_.runs.bound;
    const std::optional<std::uint64_t> known = on_device_->signature_of_known(call);
    const std::uint64_t signature = known ? *known : signature_of(call);
    std::string objection = on_device_->objection_to(call, stream);
    if (const open_group* group = groups_.own(); group != nullptr && group->number)
        throw refusal_of(call, "buffers are on the device; groups with numbers are for buffers of the host");
    if (factor != 1) objection = fmt::format("factor {} is for buffers of the host; multiply before the call", factor);
    if (bound.uses_tree(call)) objection = "options::reproducible is for buffers of the host";
    if (bound.meets_wire_types(call)) objection = "options::rounds_on_wire is for buffers of the host";
    check(call, signature, send, recv, std::move(objection));
    if (bound.elements_of(call) == 0) return 0;
    std::uint64_t number = 0;
    with_.runs.failure.latch([&] { number = on_device_->enqueue(call, signature, send, recv, stream); });
    return number;
}

}  // namespace terrace::detail
