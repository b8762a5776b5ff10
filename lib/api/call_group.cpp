#include "api/call_group.hpp"

#include <algorithm>
#include <cstring>

#include "base/element_types.hpp"
#include "base/partition.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t usual_calls = 64;  // of a joined one: room for so many at once

std::int64_t bytes_of(const call_shape& call, int ranks) {
    return call.count * (has_blocks(call.what) ? ranks : 1) * static_cast<std::int64_t>(size_of(call.type));
}

// The factors of premul_sum may differ between ranks, so that ranks would join different calls.
bool may_join(const call_shape& call, int ranks) {
    const bool is_plain = !call.is_barrier && call.part_of.empty() && call.counts.empty() && call.count > 0;
    const bool multiplies = goes_up(call.what) && call.op == reduce_op::premul_sum;
    return is_plain && !multiplies && bytes_of(call, ranks) <= most_bytes_to_join;
}

bool are_of_one_kind(const call_shape& a, const call_shape& b) {
    return a.what == b.what && a.type == b.type && a.op == b.op && a.root == b.root && a.exact == b.exact;
}

}  // namespace

void group_calls::add(const call_shape& call, double factor, const given_call& part, int ranks) {
    if (!may_join(call, ranks)) return add({.call = call, .factor = factor, .parts = {part}});
    const auto same =
        std::find_if(open_.begin(), open_.end(), [&](std::size_t i) { return are_of_one_kind(list_[i].call, call); });
    if (same != open_.end() && bytes_of(list_[*same].call, ranks) + bytes_of(call, ranks) <= most_joined_bytes) {
        waiting_start& whole = list_[*same];
        if (whole.call.joined.empty()) {
            whole.parts.reserve(usual_calls);
            whole.call.joined.reserve(usual_calls);
            whole.call.joined.push_back(whole.call.count);
        }
        whole.call.joined.push_back(call.count);
        whole.call.count += call.count;
        whole.parts.push_back(part);
        return;
    }
    if (same != open_.end()) *same = list_.size();
    else open_.push_back(list_.size());
    add({.call = call, .factor = factor, .parts = {part}});
}

joined_call::joined_call(const waiting_start& s, int rank, int ranks, std::vector<std::byte>& memory)
    : what_(s.call.what),
      is_root_(s.call.root == rank),
      ranks_(ranks),
      element_(size_of(s.call.type)),
      count_(s.call.count),
      parts_(s.parts) {
    const auto whole = static_cast<std::size_t>(round_up(bytes_of(s.call, ranks), 64));
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
