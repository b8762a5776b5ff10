#include "calls/call_admission.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace terrace::detail {

namespace {

call_piece piece_of(const full_call& c) {
    return {static_cast<const std::byte*>(c.buffers.send), static_cast<std::byte*>(c.buffers.recv), c.shape.count};
}

}  // namespace

call_admission::call_admission(const parts& with)
    : with_(with),
      runner_(with.runs),
      queue_(runner_, with.runs.call_order, with.runs.failure),
      groups_(with.runs.o.threads == options::threading::any) {}

// In a group, a call joins earlier calls of the same kind at once, if there are any.
request call_admission::start(const full_call& c) {
    const auto& [call, b, factor] = c;
    open_group* group = groups_.own();
    if (group != nullptr && !on_device_ && !with_.runs.o.rounds_on_wire && are_right_buffers(call, b.send, b.recv))
        if (const std::uint64_t ticket = join_group(*group, c)) return request_for(ticket);
    if (on_device_ && on_device_->holds(call, runner_.rank(), b.send, b.recv)) {
        const std::uint64_t number = enqueue(c, on_device_->own_stream());
        return number == 0 ? request{} : request_access::make(*on_device_, number);
    }
    if (const std::string wrong = runner_.objection_to(c); !wrong.empty()) {
        if (group != nullptr && group->number) throw refusal_of(call, wrong);  // its group may have to wait for others
        meet(call, wrong);
    }
    if (group != nullptr) return add_to_group(*group, c);
    const bool is_next = queue_.none_waits() && runner_.follow_plan();
    call_runner::programs::entry* found = runner_.find_idle(c);
    const std::uint64_t signature = found != nullptr ? found->signature : signature_of(call);
    bool may_run = false;
    with_.runs.failure.latch([&] { may_run = is_next && with_.runs.call_order.start(c.shape, signature); });
    if (!may_run) {
        const std::uint64_t ticket = queue_.add(c, {}, is_next ? call_state::comparing : call_state::queued);
        queue_.enqueue(ticket);
        with_.wake();
        return request_for(ticket);
    }
    if (with_.times) with_.times->begin();
    const std::uint64_t number = runner_.issue(call, b, factor, found);
    if (with_.times && !call.is_barrier && !row_of(call.what).has_root() && !call.has_own_lengths())
        with_.times->started(number, call.what, with_.runs.bound.bytes_of(call));
    return number == 0 ? request{} : with_.requests(number);
}

// Compares a call at once. An invalid call takes part as a refused one. @throws usage_error with its objection
void call_admission::meet(const call_shape& call, const std::string& objection) {
    with_.empty_queue();
    with_.runs.failure.latch([&] {
        if (objection.empty()) with_.runs.call_order.start_and_wait(call, signature_of(call));
        else with_.runs.call_order.meet_refused(call, objection);
    });
    if (!objection.empty()) throw refusal_of(call, objection);
}

// ---- blocks with lengths that only their ranks know

request call_admission::start(const uneven_blocks& b) {
    const int rank = runner_.rank(), ranks = runner_.size();
    // The call as shown on ranks that make it, if another rank refuses it.
    call_shape named = uneven_call::lengths_of(b);
    if (!row_of(b.what).has_root()) {
        named.count = b.most;
        named.type = b.type;
    }
    open_group* group = groups_.own();
    const auto refuse = [&](const std::string& why) {
        if (group != nullptr && group->number) throw refusal_of(named, why);
        meet(named, why);
    };
    if (const std::string why = objection_to(b, rank, ranks); !why.empty()) refuse(why);
    if (on_device_ && on_device_->holds(named, rank, b.send, b.recv))
        refuse("buffers are on the device; pass buffers of the host");
    std::unique_ptr<uneven_call> work = uneven_call::make(b, rank, ranks, runner_.way_of(b));
    full_call first = work->first();
    if (const std::string why = runner_.objection_to(first); !why.empty()) refuse(why);
    const std::uint64_t ticket = queue_.add(std::move(first), std::move(work));
    if (group != nullptr) group->add(ticket, queue_[ticket], nullptr, ranks);
    else begin_in_order({ticket});
    return request_for(ticket);
}

// ---- groups

void call_admission::group_end() {
    const std::vector<std::uint64_t> calls = groups_.end();
    if (groups_.own() != nullptr) return;  // the group was inside another one
    expect_unbroken("group_end");
    begin_in_order(calls);
}

request call_admission::add_to_group(open_group& group, const full_call& c) {
    if (const std::uint64_t joined = join_group(group, c)) return request_for(joined);
    std::unique_ptr<joined_calls> work;
    if (may_join(c.shape, runner_.size())) work = std::make_unique<joined_calls>(piece_of(c));
    joined_calls* const others_may_join = work.get();
    const std::uint64_t ticket = queue_.add(c, std::move(work));
    group.add(ticket, queue_[ticket], others_may_join, runner_.size());
    return request_for(ticket);
}

// Joins a call with earlier ones, if possible. Returns their ticket; 0 if not joined.
std::uint64_t call_admission::join_group(open_group& group, const full_call& c) {
    const std::uint64_t ticket = group.join(c.shape, piece_of(c), runner_.size());
    if (ticket != 0) queue_.share(ticket);
    return ticket;
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

std::uint64_t call_admission::enqueue(const full_call& c, CUstream_st* stream) {
    const binding& bound = with_.runs.bound;
    const call_shape& call = c.shape;
    if (const open_group* group = groups_.own(); group != nullptr && group->number)
        throw refusal_of(call, "buffers are on the device; groups with numbers are for buffers of the host");
    std::string objection = on_device_->objection_to(call, stream);
    if (c.factor != 1)
        objection = fmt::format("factor {} is for buffers of the host; multiply before the call", c.factor);
    if (bound.uses_tree(call)) objection = "options::reproducible is for buffers of the host";
    if (bound.meets_wire_types(call)) objection = "options::rounds_on_wire is for buffers of the host";
    meet(call, objection.empty() ? runner_.objection_to(c) : objection);
    if (bound.elements_of(call) == 0) return 0;
    std::uint64_t number = 0;
    with_.runs.failure.latch([&] { number = on_device_->enqueue(c, stream); });
    return number;
}

}  // namespace terrace::detail
