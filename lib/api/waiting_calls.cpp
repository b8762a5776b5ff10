// Calls that do not begin when they are made: in a group, or of several parts.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/core.hpp"

namespace terrace::detail {

namespace {

call_piece piece_of(const call_shape& call, const call_buffers& b) {
    return {static_cast<const std::byte*>(b.send), static_cast<std::byte*>(b.recv), call.count};
}

}  // namespace

// ---- blocks whose lengths few know

request communicator_core::start(const uneven_blocks& b) {
    const auto held = hold();
    expect_unbroken(name_of(b));
    // What ranks that make it see, where one refuses it.
    call_shape named = uneven_call::lengths_of(b);
    if (!row_of(b.what).has_root()) {
        named.count = b.most;
        named.type = b.type;
    }
    open_group* group = groups_.own();
    const auto refuse = [&](std::string why) {
        if (group != nullptr && group->number) throw refusal_of(named, why);
        check_call(named, signature_of(named), nullptr, nullptr, std::move(why));
    };
    if (std::string why = objection_to(b, rank_, size()); !why.empty()) refuse(std::move(why));
    if (device_calls_ && device_calls_->holds(named, rank_, b.send, b.recv))
        refuse("buffers are on the device; pass buffers of the host");
    auto work = std::make_unique<uneven_call>(b, rank_, size(), runner_->way_of(b));
    call_part first = work->first();
    if (std::string why = runner_->objection_to(first.call, first.send, first.recv); !why.empty())
        refuse(std::move(why));
    const std::uint64_t ticket = calls_->add(std::move(first.call), std::move(work));
    if (group != nullptr) group->calls.add(ticket, (*calls_)[ticket], nullptr, size());
    else begin_in_order({ticket});
    return request_access::make(*this, ticket | ticket_bit);
}

// ---- groups

void communicator_core::group_start(std::optional<std::uint64_t> number) {
    const auto held = hold();
    expect_unbroken("group_start");
    groups_.start(number);
}

void communicator_core::group_end() {
    const auto held = hold();
    const std::vector<std::uint64_t> calls = groups_.end();
    if (groups_.own() != nullptr) return;  // in another one
    expect_unbroken("group_end");
    begin_in_order(calls);
}

void communicator_core::begin_in_order(const std::vector<std::uint64_t>& calls) {
    for (const std::uint64_t ticket : calls) calls_->enqueue(ticket);
    calls_->begin_waiting();
    if (driver_) driver_->wake();
}

request communicator_core::add_to_group(open_group& group, const call_shape& call, const call_buffers& b,
                                        double factor) {
    std::uint64_t ticket = join_group(group, call, b);
    if (ticket != 0) return request_access::make(*this, ticket | ticket_bit);
    if (may_join(call, size())) {
        auto work = std::make_unique<joined_calls>(piece_of(call, b));
        joined_calls* others_may_join = work.get();
        ticket = calls_->add(call, std::move(work));
        group.calls.add(ticket, (*calls_)[ticket], others_may_join, size());
    } else {
        ticket = calls_->add(call, std::make_unique<one_call>(b, factor));
        group.calls.add(ticket, (*calls_)[ticket], nullptr, size());
    }
    return request_access::make(*this, ticket | ticket_bit);
}

// Returns the ticket of the calls that it is joined with, 0 where there are none.
std::uint64_t communicator_core::join_group(open_group& group, const call_shape& call, const call_buffers& b) {
    const std::uint64_t ticket = group.calls.join(call, piece_of(call, b), size());
    if (ticket != 0) calls_->share(ticket);
    return ticket;
}

void communicator_core::expect_no_group(std::string_view call) {
    const auto held = hold();
    if (groups_.own() != nullptr)
        throw usage_error(fmt::format(
            "{}: a group is open; call group_end first, or make an _async call and wait for it then", call));
}

// What is waited for would begin with group_end alone.
void communicator_core::expect_begun(std::uint64_t call) {
    const open_group* mine = groups_.own();
    if (mine == nullptr || (call & ticket_bit) == 0) return;
    const std::uint64_t ticket = call & ~ticket_bit;
    if (std::ranges::find(mine->calls.list(), ticket) == mine->calls.list().end()) return;
    calls_->close(ticket);
    throw usage_error("request: its call is in a group that is open; call group_end before you wait for it");
}

}  // namespace terrace::detail
