// alltoallv, gatherv and scatterv: blocks whose lengths each rank knows of its own alone. To or from a root they go as
// long ones do.
//
//   short blocks    [length|data......|length|data..    |...]    one alltoall of blocks that hold the longest
//   long blocks     [length|length|...]                          an alltoall of lengths, then each block straight to
//                   [data......|data..|...]                      its rank, as long as it is
//
// Of short ones start-ups are what counts, and the plan saves them.

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
    return {.what = collective::alltoall, .count = count, .counts = {}, .type = type, .part_of = "alltoallv"};
}

call_shape lengths_of(collective what, std::string_view name, int root = 0) {
    return {.what = what, .count = 1, .counts = {}, .type = element_type::int64, .root = root, .part_of = name};
}

std::int64_t sum_of(std::span<const std::int64_t> counts) { return std::reduce(counts.begin(), counts.end()); }

void expect_room(std::string_view name, std::int64_t all, std::int64_t capacity) {
    if (all > capacity)
        throw usage_error(
            fmt::format("{}: {} elements have come for recv, which holds {}; other ranks have what is theirs", name,
                        all, capacity));
}

}  // namespace

void communicator_core::refuse(const call_shape& call, std::string objection) {
    const auto held = hold();
    expect_unbroken(name_of(call));
    check_call(call, signature_of(call), nullptr, nullptr, std::move(objection));
}

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

void communicator_core::alltoallv(const uneven_blocks& b) {
    const auto element = static_cast<std::int64_t>(size_of(b.type));
    if (std::string why = objection_to_blocks(b); !why.empty()) refuse(part_of_v(b.most, b.type), std::move(why));
    const std::int64_t slot = round_up(length_bytes + b.most * element, length_bytes);
    const rule& chosen = data_of(plan_).choose(collective::alltoall, slot * size());
    if (chosen.stages.size() > 1) run_behind_lengths(b, slot);
    else {
        run(lengths_of(collective::alltoall, "alltoallv"), b.send_counts.data(), b.recv_counts.data());
        run_straight(b, "alltoallv");
    }
}

void communicator_core::gatherv(const void* send, std::int64_t count, const uneven_blocks& b, int root) {
    const bool is_root = rank_ == root;
    const call_shape lengths = lengths_of(collective::gather, "gatherv", root);
    if (count < 0) refuse(lengths, fmt::format("count is {}; it must not be negative", count));
    if (root < 0 || root >= size()) refuse(lengths, fmt::format("root is {}, but ranks are 0 to {}", root, size() - 1));
    if (is_root && b.recv_counts.size() != at(size()))
        refuse(lengths, fmt::format("there are {} counts for {} ranks", b.recv_counts.size(), size()));
    if ((send == nullptr && count > 0) || (is_root && b.recv == nullptr && b.capacity > 0))
        refuse(lengths, "a buffer is null, but its count is not 0");
    if (device_calls_ && device_calls_->holds(lengths, rank_, send, b.recv))
        refuse(lengths, "buffers are on the device; pass buffers of the host");
    run(lengths, &count, b.recv_counts.data());
    std::vector<std::int64_t> sent(at(size())), received(at(size()));
    sent[at(root)] = count;
    if (is_root) std::copy(b.recv_counts.begin(), b.recv_counts.end(), received.begin());
    run_straight({send, sent, b.recv, b.capacity, received, 0, b.type}, "gatherv");
}

std::int64_t communicator_core::scatterv(const uneven_blocks& b, int root) {
    const bool is_root = rank_ == root;
    const call_shape lengths = lengths_of(collective::scatter, "scatterv", root);
    if (root < 0 || root >= size()) refuse(lengths, fmt::format("root is {}, but ranks are 0 to {}", root, size() - 1));
    if (is_root && b.send_counts.size() != at(size()))
        refuse(lengths, fmt::format("there are {} counts for {} ranks", b.send_counts.size(), size()));
    for (std::size_t r = 0; is_root && r < b.send_counts.size(); ++r)
        if (b.send_counts[r] < 0)
            refuse(lengths, fmt::format("count {} is {}; none may be negative", r, b.send_counts[r]));
    if ((is_root && b.send == nullptr && sum_of(b.send_counts) > 0) || (b.recv == nullptr && b.capacity > 0))
        refuse(lengths, "a buffer is null, but its count is not 0");
    if (device_calls_ && device_calls_->holds(lengths, rank_, b.send, b.recv))
        refuse(lengths, "buffers are on the device; pass buffers of the host");
    std::int64_t count = 0;
    run(lengths, b.send_counts.data(), &count);
    std::vector<std::int64_t> sent(at(size())), received(at(size()));
    if (is_root) std::copy(b.send_counts.begin(), b.send_counts.end(), sent.begin());
    received[at(root)] = count;
    run_straight({b.send, sent, b.recv, b.capacity, received, 0, b.type}, "scatterv");
    return count;
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
    expect_room("alltoallv", sum_of(b.recv_counts), b.capacity);
    auto* room = static_cast<std::byte*>(b.recv);
    for (int r = 0; r < size(); ++r) {
        const std::size_t bytes = static_cast<std::size_t>(b.recv_counts[at(r)]) * element;
        if (bytes > 0) std::memcpy(room, in.data() + r * slot + length_bytes, bytes);
        room += bytes;
    }
}

// A rank whose buffer is too small takes what comes all the same, so that nobody waits for it.
void communicator_core::run_straight(const uneven_blocks& b, std::string_view name) {
    const std::int64_t all = sum_of(b.recv_counts);
    std::vector<std::byte> instead(all > b.capacity ? static_cast<std::size_t>(all) * size_of(b.type) : 0);
    run({.what = collective::alltoall,
         .count = b.most,
         .counts = {b.send_counts.begin(), b.send_counts.end()},
         .type = b.type,
         .part_of = name,
         .received = {b.recv_counts.begin(), b.recv_counts.end()}},
        b.send, instead.empty() ? b.recv : instead.data());
    expect_room(name, all, b.capacity);
}

}  // namespace terrace::detail
