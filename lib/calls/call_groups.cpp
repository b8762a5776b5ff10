#include "calls/call_groups.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"
#include "calls/call_runner.hpp"

namespace terrace::detail {

// The factors of premul_sum may differ between ranks, so ranks might join different calls.
bool may_join(const call_shape& call, int ranks) {
    const bool is_plain = !call.is_barrier && call.part_of.empty() && call.counts.empty() && call.count > 0;
    return is_plain && !call.multiplies() && bytes_of(call, ranks) <= most_bytes_to_join;
}

// ---- joined calls

// Joined calls use memory of their program, unless the program accepts vectors in pieces.
std::uint64_t joined_calls::begin_copied(call_runner& runner, const call_shape& call) {
    call_runner::programs::entry& found = runner.program_for(call);
    if (found.run.takes_pieces()) return runner.issue(call, {.layout = vector_pieces{parts_}}, 1, &found);
    const bool is_root = call.root == runner.rank(), blocks = row_of(call.what).blocks;
    const auto whole = static_cast<std::size_t>(round_up(bytes_of(call, runner.size()), 64));
    found.memory.resize(blocks ? 2 * whole : whole);
    std::byte* send = found.memory.data();
    std::byte* recv = blocks ? send + whole : send;  // recv has the data of a broadcast, and is send on the root
    element_ = size_of(call.type);
    blocks_got_ = row_of(call.what).blocks_got(is_root, runner.size());
    for_each_block(row_of(call.what).blocks_given(is_root, runner.size()),
                   [&](const call_piece& part, std::size_t there, std::size_t here, std::size_t bytes) {
                       std::memcpy(send + here, part.given + there, bytes);
                   });
    const std::uint64_t number = runner.issue(call, {send, recv}, 1, &found);
    recv_ = recv;
    return number;
}

std::optional<full_call> joined_calls::go_on() {
    for_each_block(blocks_got_, [&](const call_piece& part, std::size_t there, std::size_t here, std::size_t bytes) {
        std::memcpy(part.result + there, recv_ + here, bytes);
    });
    return {};
}

template <class Copy>
void joined_calls::for_each_block(int blocks, Copy copy) const {
    std::size_t at = 0;  // offset in the joined call [bytes]
    for (int b = 0; b < blocks; ++b)
        for (const call_piece& part : parts_) {
            const std::size_t bytes = static_cast<std::size_t>(part.count) * element_;
            copy(part, static_cast<std::size_t>(b) * bytes, at, bytes);
            at += bytes;
        }
}

// ---- the calls of a group

std::uint64_t open_group::join(const call_shape& call, const call_piece& part, int ranks) {
    const auto same = std::ranges::find_if(open_, [&](const open_start& o) {
        const call_shape& first = o.made->shape();
        return first.what == call.what && first.type == call.type && first.op == call.op && first.root == call.root &&
               first.exact == call.exact;
    });
    if (same == open_.end() || !may_join(call, ranks)) return 0;
    const std::int64_t bytes = bytes_of(call, ranks);
    if (same->bytes + bytes > most_joined_bytes) {
        open_.erase(same);
        return 0;
    }
    same->work->add(part);
    same->made->carry(call.count);
    same->bytes += bytes;
    return same->ticket;
}

// ---- groups

void call_groups::start(std::optional<std::uint64_t> number) {
    if (number) {
        if (own() != nullptr)
            throw usage_error("group_start: a group is open already; the outermost one alone has a number");
        if (*number < next_ || !numbered_.try_emplace(*number).second)
            throw usage_error(
                fmt::format("group_start: there has been a group {} already; each number is for one group, and the "
                            "next to begin is {}",
                            *number, next_));
    }
    open_group& mine = open_[caller()];
    if (mine.depth++ == 0) mine.number = number;
}

std::vector<std::uint64_t> call_groups::end() {
    open_group* mine = own();
    if (mine == nullptr) throw usage_error("group_end: there is no group; call group_start first");
    if (--mine->depth > 0) return {};
    const std::optional<std::uint64_t> number = mine->number;
    std::vector<std::uint64_t> calls = mine->list();
    open_.erase(caller());
    if (!number) return calls;
    numbered_.at(*number) = std::move(calls);
    calls.clear();
    for (auto first = numbered_.begin(); first != numbered_.end() && first->first == next_ && first->second;
         first = numbered_.erase(first)) {
        calls.insert(calls.end(), first->second->begin(), first->second->end());
        ++next_;
        since_ = {};
    }
    return calls;
}

std::chrono::duration<double> call_groups::age() noexcept {
    const bool waits = std::ranges::any_of(numbered_, [](const auto& each) { return each.second.has_value(); });
    return waits ? time_since_first_call(since_) : std::chrono::duration<double>{};
}

void call_groups::add_waits(waiting& all) const {
    for (const auto& [number, calls] : numbered_)
        if (calls) all.lines.push_back(fmt::format("group {}: this rank has not ended group {}", number, next_));
}

}  // namespace terrace::detail
