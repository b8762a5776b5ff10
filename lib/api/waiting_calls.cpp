// Calls that do not begin when they are made: until ranks have compared them, until their group ends, or until it is
// known how long their blocks are.

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "api/core.hpp"
#include "plan/plan_access.hpp"

namespace terrace::detail {

// ---- compared first

// @param call ranks compare it already, unless others wait before it
request communicator_core::start_later(const call_shape& call, const void* send, void* recv, double factor,
                                       void* rounding_errors) {
    const std::uint64_t ticket = tickets_.take();
    const bool compared = starts_.empty();
    starts_.push_back({.call = call,
                       .factor = factor,
                       .ticket = ticket,
                       .parts = {{call.count, send, recv, rounding_errors}},
                       .compared = compared});
    if (driver_) driver_->wake();
    return request_access::make(*this, ticket | ticket_bit);
}

// Begins calls in their order, each once ranks have compared it.
void communicator_core::start_compared() {
    while (!starts_.empty() && may_begin(starts_.front())) {
        waiting_start next = std::move(starts_.front());
        starts_.pop_front();
        if (begin(next)) starts_.push_front(std::move(next));
    }
}

// The second part of a call is compared when the first is complete; calls behind it wait, in one order on all ranks.
bool communicator_core::may_begin(waiting_start& s) {
    if (s.first_part) {
        if (!engine_->done(*s.first_part)) return false;
        const uneven_call::part second = s.uneven->second();
        s.call = second.call;
        s.parts.front().send = second.send;
        s.parts.front().recv = second.recv;
        s.compared = false;
        s.first_part.reset();
        if (const std::string wrong = objection_to_host(s.call, second.send, second.recv); !wrong.empty()) {
            or_fail([&] { check_->meet(describe(s.call) + ", refused", ": " + wrong); });
            s.error = error_in([&] { refuse_alone(s.call, wrong); });
            return true;
        }
    }
    bool may_run = false;
    or_fail([&] {
        may_run = std::exchange(s.compared, true) ? check_->advance() : check_->start(s.call, signature_of(s.call));
    });
    return may_run;
}

// Returns true if the call has another part. Where a call cannot begin, as for lack of a rule, its callers are told.
bool communicator_core::begin(waiting_start& s) {
    const given_call& first = s.parts.front();
    std::uint64_t number = 0;
    if (!s.error)
        s.error = error_in([&] {
            number = s.parts.size() > 1 ? issue_joined(s)
                     : s.uneven && !s.uneven->filled().empty()
                         ? issue_filled(s)
                         : issue(s.call, signature_of(s.call), first.send, first.recv, s.factor, first.rounding_errors);
        });
    if (!s.uneven || s.error) {
        tickets_.begin(s.ticket, number, s.error);
        return false;
    }
    if (s.uneven->has_more()) {
        s.first_part = number;
        return true;
    }
    ends_.emplace_back(number, [this, ticket = s.ticket, call = s.uneven] {
        tickets_.begin(ticket, 0, error_in([&] { call->finish(); }));
    });
    end_calls();
    return false;
}

// Blocks behind their lengths, of which no more is sent than there is.
std::uint64_t communicator_core::issue_filled(const waiting_start& s) {
    const std::uint64_t signature = signature_of(s.call);
    programs::entry& by = program_for(s.call, signature, false);
    by.run.set_filled(s.call.count, s.uneven->filled());
    return issue(s.call, signature, s.parts.front().send, s.parts.front().recv, 1, nullptr, &by);
}

void communicator_core::end_calls() {
    std::erase_if(ends_, [&](const auto& each) {
        if (!engine_->done(each.first)) return false;
        each.second();
        return true;
    });
}

// ---- blocks whose lengths few know

request communicator_core::start(const uneven_blocks& b) {
    const auto held = hold();
    expect_unbroken(name_of(b));
    // What ranks that make it see, where one refuses it.
    call_shape named = uneven_call::lengths_of(b);
    if (!has_root(b.what)) {
        named.count = b.most;
        named.type = b.type;
    }
    open_group* group = own_group();
    const auto refuse = [&](std::string why) {
        if (group != nullptr && group->number) refuse_alone(named, why);
        check_call(named, signature_of(named), nullptr, nullptr, std::move(why));
    };
    if (std::string why = objection_to(b, rank_, size()); !why.empty()) refuse(std::move(why));
    if (device_calls_ && device_calls_->holds(named, rank_, b.send, b.recv))
        refuse("buffers are on the device; pass buffers of the host");
    auto call = std::make_shared<uneven_call>(b, rank_, size(), way_of(b));
    const uneven_call::part first = call->first();
    if (std::string why = objection_to_host(first.call, first.send, first.recv); !why.empty()) refuse(std::move(why));
    const std::uint64_t ticket = tickets_.take();
    waiting_start s{.call = first.call,
                    .factor = 1,
                    .ticket = ticket,
                    .parts = {{first.call.count, first.send, first.recv}},
                    .uneven = std::move(call)};
    if (group != nullptr) group->calls.add(std::move(s), size());
    else begin_in_order({std::move(s)});
    return request_access::make(*this, ticket | ticket_bit);
}

// By what all ranks know alike.
uneven_call::way communicator_core::way_of(const uneven_blocks& b) const {
    using way = uneven_call::way;
    if (has_root(b.what)) return way::lengths_first;
    const std::int64_t slot = uneven_call::slot_of(b);
    const rule& r = data_of(plan_).choose(collective::alltoall, slot * size());
    if (r.stages.size() > 1) return way::full_slots;
    const bool in_whole_blocks = is_straight(r) && r.stages.front().sends() && r.chunk == 0;
    return in_whole_blocks && net_->wire().traits().takes_shorter && slot <= uneven_call::most_filled_slot
               ? way::filled_slots
               : way::lengths_first;
}

// ---- groups

// A group is the thread's that opened it.
std::thread::id communicator_core::caller() const noexcept {
    return options_.threads == options::threading::any ? std::this_thread::get_id() : std::thread::id();
}

open_group* communicator_core::find_own_group() noexcept {
    const auto found = groups_.find(caller());
    return found == groups_.end() ? nullptr : &found->second;
}

void communicator_core::group_start(std::optional<std::uint64_t> number) {
    const auto held = hold();
    expect_unbroken("group_start");
    if (number) {
        if (own_group() != nullptr)
            throw usage_error("group_start: a group is open already; the outermost one alone has a number");
        numbers_.open(*number);
    }
    open_group& mine = groups_[caller()];
    if (mine.depth++ == 0) mine.number = number;
}

request communicator_core::add_to_group(open_group& group, const call_shape& call, const void* send, void* recv,
                                        double factor, void* rounding_errors) {
    const given_call part{call.count, send, recv, rounding_errors};
    std::uint64_t ticket = join_group(group, call, part);
    if (ticket == 0) {
        ticket = tickets_.take();
        group.calls.add({.call = call, .factor = factor, .ticket = ticket, .parts = {part}}, size());
    }
    return request_access::make(*this, ticket | ticket_bit);
}

// Returns the ticket of the calls that it is joined with, 0 where there are none.
std::uint64_t communicator_core::join_group(open_group& group, const call_shape& call, const given_call& part) {
    const std::uint64_t ticket = group.calls.join(call, part);
    if (ticket != 0) tickets_.share(ticket);
    return ticket;
}

void communicator_core::group_end() {
    const auto held = hold();
    open_group* mine = own_group();
    if (mine == nullptr) throw usage_error("group_end: there is no group; call group_start first");
    if (--mine->depth > 0) return;
    const std::optional<std::uint64_t> number = mine->number;
    std::vector<waiting_start> calls = mine->calls.take();
    groups_.erase(caller());
    expect_unbroken("group_end");
    if (!number) return begin_in_order(std::move(calls));
    numbers_.end(*number, std::move(calls));
    while (auto next = numbers_.next()) begin_in_order(std::move(*next));
}

void communicator_core::begin_in_order(std::vector<waiting_start> calls) {
    std::ranges::move(calls, std::back_inserter(starts_));
    start_compared();
    if (driver_) driver_->wake();
}

// A call that carries others works on memory of its program, unless that takes pieces.
std::uint64_t communicator_core::issue_joined(const waiting_start& s) {
    const std::uint64_t signature = signature_of(s.call);
    programs::entry& by = program_for(s.call, signature, false);
    if (by.run.takes_pieces()) {
        std::vector<call_piece>& pieces = by.run.pieces();
        pieces.clear();
        for (const given_call& part : s.parts)
            pieces.push_back(
                {static_cast<const std::byte*>(part.send), static_cast<std::byte*>(part.recv), part.count});
        return issue(s.call, signature, nullptr, nullptr, 1, nullptr, &by);
    }
    joined_call joined(s, rank_, size(), by.memory);
    joined.collect();
    const std::uint64_t number = issue(s.call, signature, joined.send(), joined.recv(), 1, nullptr, &by);
    ends_.emplace_back(number, [joined = std::move(joined)] { joined.hand_out(); });
    end_calls();
    return number;
}

void communicator_core::expect_no_group(std::string_view call) {
    const auto held = hold();
    if (own_group() != nullptr)
        throw usage_error(fmt::format(
            "{}: a group is open; call group_end first, or make an _async call and wait for it then", call));
}

// What is waited for would begin with group_end alone.
void communicator_core::expect_begun(std::uint64_t call) {
    const open_group* mine = own_group();
    if (mine == nullptr || (call & ticket_bit) == 0) return;
    const std::uint64_t ticket = call & ~ticket_bit;
    if (std::ranges::none_of(mine->calls.list(), [&](const waiting_start& s) { return s.ticket == ticket; })) return;
    tickets_.close(ticket);
    throw usage_error("request: its call is in a group that is open; call group_end before you wait for it");
}

}  // namespace terrace::detail
