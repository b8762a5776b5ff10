// alltoallv: blocks whose lengths each rank knows of its own alone.
//
//   short blocks    [length|data......|length|data..    |...]    one alltoall of blocks that hold the longest:
//   start-ups
//                                                                are what counts, and the plan saves them
//   long blocks     [length|length|...]                          an alltoall of lengths, then each block straight to
//                   [data......|data..|...]                      its rank, as long as it is

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "api/core.hpp"
#include "base/element_types.hpp"
#include "base/index.hpp"
#include "base/partition.hpp"
#include "plan/plan_access.hpp"

namespace terrace::detail {

namespace {

constexpr std::int64_t length_bytes = sizeof(std::int64_t);

call_shape part_of_v(std::int64_t count, element_type type) {
    return {.what = collective::alltoall, .count = count, .counts = {}, .type = type, .is_part_of_v = true};
}

std::int64_t sum_of(std::span<const std::int64_t> counts) { return std::reduce(counts.begin(), counts.end()); }

void expect_room(const uneven_blocks& b) {
    if (const std::int64_t all = sum_of(b.recv_counts); all > b.capacity)
        throw usage_error(
            fmt::format("alltoallv: {} elements have come for recv, which holds {}; other ranks have "
                        "what is theirs",
                        all, b.capacity));
}

}  // namespace

std::string communicator_core::objection_to_blocks(const uneven_blocks& b) const {
    for (const std::size_t counts : {b.send_counts.size(), b.recv_counts.size()})
        if (counts != at(size())) return fmt::format("there are {} counts for {} ranks", counts, size());
    if (b.most < 0) return fmt::format("the longest block has {} elements; it must not be negative", b.most);
    for (std::size_t r = 0; r < b.send_counts.size(); ++r)
        if (b.send_counts[r] < 0 || b.send_counts[r] > b.most)
            return fmt::format("count {} is {}; each is 0 to {}, which is the longest block", r, b.send_counts[r],
                               b.most);
    if ((b.send == nullptr && sum_of(b.send_counts) > 0) || (b.recv == nullptr && b.capacity > 0))
        return "a buffer is null, but its count is not 0";
    if (device_calls_ && device_calls_->holds(part_of_v(b.most, b.type), rank_, b.send, b.recv))
        return "buffers are on the device; pass buffers of the host";
    return {};
}

void communicator_core::run(const uneven_blocks& b) {
    const auto element = static_cast<std::int64_t>(size_of(b.type));
    if (std::string why = objection_to_blocks(b); !why.empty()) {
        const auto held = hold();
        const call_shape as = part_of_v(b.most, b.type);
        expect_unbroken(name_of(as));
        check_call(as, signature_of(as), b.send, b.recv, std::move(why));
    }
    const std::int64_t slot = round_up(length_bytes + b.most * element, length_bytes);
    const rule& chosen = data_of(plan_).choose(collective::alltoall, slot * size());
    if (chosen.stages.size() > 1) run_behind_lengths(b, slot);
    else run_straight(b);
}

void communicator_core::run_behind_lengths(const uneven_blocks& b, std::int64_t slot) {
    const std::size_t element = size_of(b.type);
    std::vector<std::byte> out(at(size()) * static_cast<std::size_t>(slot)), in(out.size());
    const auto* from = static_cast<const std::byte*>(b.send);
    std::byte* to = out.data();
    for (const std::int64_t count : b.send_counts) {
        const std::size_t bytes = static_cast<std::size_t>(count) * element;
        std::memcpy(to, &count, length_bytes);
        if (bytes > 0) std::memcpy(to + length_bytes, from, bytes);
        from += bytes;
        to += slot;
    }
    run(part_of_v(slot, element_type::uint8), out.data(), in.data());
    for (int r = 0; r < size(); ++r) std::memcpy(&b.recv_counts[at(r)], in.data() + r * slot, length_bytes);
    for (const std::int64_t count : b.recv_counts)
        if (count < 0 || count > b.most)
            throw usage_error(
                fmt::format("alltoallv: a block of {} elements has come where {} was said to be the most; "
                            "pass the same on every rank",
                            count, b.most));
    expect_room(b);
    auto* room = static_cast<std::byte*>(b.recv);
    for (int r = 0; r < size(); ++r) {
        const std::size_t bytes = static_cast<std::size_t>(b.recv_counts[at(r)]) * element;
        if (bytes > 0) std::memcpy(room, in.data() + r * slot + length_bytes, bytes);
        room += bytes;
    }
}

// A rank whose buffer is too small takes what comes all the same, so that nobody waits for it.
void communicator_core::run_straight(const uneven_blocks& b) {
    run(part_of_v(1, element_type::int64), b.send_counts.data(), b.recv_counts.data());
    const std::int64_t all = sum_of(b.recv_counts);
    std::vector<std::byte> instead(all > b.capacity ? static_cast<std::size_t>(all) * size_of(b.type) : 0);
    call_shape straight = part_of_v(b.most, b.type);
    straight.counts.assign(b.send_counts.begin(), b.send_counts.end());
    straight.received.assign(b.recv_counts.begin(), b.recv_counts.end());
    run(straight, b.send, instead.empty() ? b.recv : instead.data());
    expect_room(b);
}

}  // namespace terrace::detail
