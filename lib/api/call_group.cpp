#include "api/call_group.hpp"

#include <algorithm>
#include <cstring>

#include "base/element_types.hpp"
#include "base/partition.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t usual_calls = 64;  // of a joined one: room for so many at once

std::int64_t element_of(const call_shape& call, int ranks) {
    return (has_blocks(call.what) ? ranks : 1) * static_cast<std::int64_t>(size_of(call.type));
}

// The factors of premul_sum may differ between ranks, so that ranks would join different calls.
bool may_join(const call_shape& call, std::int64_t bytes) {
    const bool is_plain = !call.is_barrier && call.part_of.empty() && call.counts.empty() && call.count > 0;
    const bool multiplies = goes_up(call.what) && call.op == reduce_op::premul_sum;
    return is_plain && !multiplies && bytes <= most_bytes_to_join;
}

bool are_of_one_kind(const call_shape& a, const call_shape& b) {
    return a.what == b.what && a.type == b.type && a.op == b.op && a.root == b.root && a.exact == b.exact;
}

}  // namespace

std::uint64_t group_calls::join(const call_shape& call, const given_call& part) {
    const auto same = std::find_if(open_.begin(), open_.end(),
                                   [&](const open_start& o) { return are_of_one_kind(list_[o.number].call, call); });
    if (same == open_.end()) return 0;
    const std::int64_t bytes = call.count * same->element;
    if (!may_join(call, bytes)) return 0;
    if (same->bytes + bytes > most_joined_bytes) {
        open_.erase(same);
        return 0;
    }
    waiting_start& whole = list_[same->number];
    if (whole.parts.size() == 1) whole.parts.reserve(usual_calls);
    whole.parts.push_back(part);
    whole.call.count += call.count;
    same->bytes += bytes;
    return whole.ticket;
}

void group_calls::add(waiting_start s, int ranks) {
    const std::int64_t element = element_of(s.call, ranks), bytes = s.call.count * element;
    if (!s.uneven && may_join(s.call, bytes)) open_.push_back({list_.size(), element, bytes});
    list_.push_back(std::move(s));
}

std::vector<waiting_start> group_calls::take() {
    for (waiting_start& s : list_)
        if (s.parts.size() > 1)
            for (const given_call& part : s.parts) s.call.joined.push_back(part.count);
    return std::move(list_);
}

joined_call::joined_call(const waiting_start& s, int rank, int ranks, std::vector<std::byte>& memory)
    : what_(s.call.what),
      is_root_(s.call.root == rank),
      ranks_(ranks),
      element_(size_of(s.call.type)),
      count_(s.call.count),
      parts_(s.parts) {
    const auto whole = static_cast<std::size_t>(round_up(s.call.count * element_of(s.call, ranks), 64));
    memory.resize(has_blocks(what_) ? 2 * whole : whole);
    send_ = memory.data();
    recv_ = has_blocks(what_) ? send_ + whole : send_;
}

template <class Copy>
void joined_call::for_each_block(int blocks, Copy copy) const {
    std::size_t at = 0;  // in the joined call [bytes]
    for (int b = 0; b < blocks; ++b)
        for (const given_call& part : parts_) {
            const std::size_t bytes = static_cast<std::size_t>(part.count) * element_;
            copy(part, static_cast<std::size_t>(b) * bytes, at, bytes);
            at += bytes;
        }
}

// A broadcast has its data in recv, which the root's send is.
void joined_call::collect() const {
    if (gives_nothing(what_, is_root_)) return;
    const int blocks = has_blocks(what_) && !gives_own_block(what_) ? ranks_ : 1;
    for_each_block(blocks, [&](const given_call& part, std::size_t there, std::size_t here, std::size_t bytes) {
        std::memcpy(send_ + here, static_cast<const std::byte*>(part.send) + there, bytes);
    });
}

void joined_call::hand_out() const {
    if (gets_nothing(what_, is_root_)) return;
    const int blocks = has_blocks(what_) && !gets_own_block(what_) ? ranks_ : 1;
    for_each_block(blocks, [&](const given_call& part, std::size_t there, std::size_t here, std::size_t bytes) {
        std::memcpy(static_cast<std::byte*>(part.recv) + there, recv_ + here, bytes);
    });
}

}  // namespace terrace::detail
