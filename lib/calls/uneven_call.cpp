#include "calls/uneven_call.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "calls/call_runner.hpp"

namespace terrace::detail {

namespace {

constexpr std::int64_t length_bytes = sizeof(std::int64_t);
// Blocks are skewed if the longest is more than this many times the mean. Most chunks of most blocks would be empty.
constexpr double most_skew = 4;

std::int64_t sum_of(std::span<const std::int64_t> counts) { return std::reduce(counts.begin(), counts.end()); }

std::string blocks_for(const uneven_blocks& b, std::string_view which) {
    return fmt::format("blocks of {} {}", name_of(b), which);
}

void expect_room(std::string_view name, std::int64_t all, std::int64_t capacity) {
    if (all > capacity)
        throw usage_error(
            fmt::format("{}: {} elements have come for recv, which holds {}; other ranks have what is theirs", name,
                        all, capacity));
}

// One alltoall of slots, each a length and its block.
class slotted_call final : public uneven_call {
public:
    slotted_call(const uneven_blocks& b, int rank, int ranks, bool filled)
        : uneven_call(b, rank, ranks), fills_(filled) {}
    full_call first() override;
    rest left() const noexcept override { return rest::an_end; }
    std::optional<full_call> go_on() override;

private:
    bool fills_;                        // only the used part of a slot is sent
    std::vector<std::int64_t> filled_;  // used bytes, by block
    heap_memory out_, in_;
};

// An exchange of lengths, then of blocks with these lengths.
class lengths_first_call final : public uneven_call {
public:
    lengths_first_call(const uneven_blocks& b, int rank, int ranks) : uneven_call(b, rank, ranks) {}
    full_call first() override;
    rest left() const noexcept override { return has_more_ ? rest::another_part : rest::an_end; }
    std::optional<full_call> go_on() override;

private:
    std::int64_t block_of_program() const;
    lengths take_lengths();

    bool has_more_ = true;
    std::int64_t came_ = 0;                                      // received elements
    std::vector<std::int64_t> sent_lengths_, received_lengths_;  // buffers of the exchange, except in a gather
    heap_memory room_;                                           // for received blocks that do not fit into recv
};

}  // namespace

std::string_view name_of(const uneven_blocks& b) noexcept {
    return b.what == collective::gather ? "gatherv" : b.what == collective::scatter ? "scatterv" : "alltoallv";
}

std::int64_t uneven_call::slot_of(const uneven_blocks& b) noexcept {
    return round_up(length_bytes + b.most * static_cast<std::int64_t>(size_of(b.type)), length_bytes);
}

std::unique_ptr<uneven_call> uneven_call::make(const uneven_blocks& b, int rank, int ranks, way w) {
    if (w == way::lengths_first) return std::make_unique<lengths_first_call>(b, rank, ranks);
    return std::make_unique<slotted_call>(b, rank, ranks, w == way::filled_slots);
}

// Each rank first sends the lengths of its blocks. In an alltoall, each length comes with the sum of the sender's
// lengths; in a scatter, with the block length of the program for the longest block.
call_shape uneven_call::lengths_of(const uneven_blocks& b) {
    return {.what = b.what,
            .count = b.what == collective::gather ? 1 : 2,
            .counts = {},
            .type = element_type::int64,
            .root = b.root,
            .part_of = name_of(b)};
}

// ---- slots of lengths and blocks

full_call slotted_call::first() {
    const auto slot = static_cast<std::size_t>(slot_of(blocks_));
    for (heap_memory* each : {&out_, &in_})
        *each = take_memory(at(ranks_) * slot, blocks_for(blocks_, "behind lengths"));
    const auto* from = static_cast<const std::byte*>(blocks_.send);
    std::byte* to = out_.get();
    for (const std::int64_t count : send_counts_) {
        const std::size_t bytes = static_cast<std::size_t>(count) * size_of(blocks_.type);
        std::memcpy(to, &count, length_bytes);
        if (bytes > 0) std::memcpy(to + length_bytes, from, bytes);
        if (fills_) filled_.push_back(length_bytes + static_cast<std::int64_t>(bytes));
        else std::memset(to + length_bytes + bytes, 0, slot - length_bytes - bytes);
        from += bytes;
        to += slot;
    }
    full_call made{{.what = collective::alltoall,
                    .count = slot_of(blocks_),
                    .counts = {},
                    .type = element_type::uint8,
                    .part_of = name_of(blocks_)},
                   {out_.get(), in_.get()}};
    if (fills_) made.buffers.layout = filled_blocks{made.shape.count, filled_};
    return made;
}

std::optional<full_call> slotted_call::go_on() {
    const uneven_blocks& b = blocks_;
    const std::int64_t slot = slot_of(b);
    for (int r = 0; r < ranks_; ++r) std::memcpy(&b.recv_counts[at(r)], in_.get() + r * slot, length_bytes);
    for (const std::int64_t count : b.recv_counts)
        if (count < 0 || count > b.most)
            throw usage_error(
                fmt::format("alltoallv: a block of {} elements has come where {} was said to be the most; "
                            "pass the same on every rank",
                            count, b.most));
    expect_room(name_of(b), sum_of(b.recv_counts), b.capacity);
    auto* room = static_cast<std::byte*>(b.recv);
    for (int r = 0; r < ranks_; ++r) {
        const std::size_t bytes = static_cast<std::size_t>(b.recv_counts[at(r)]) * size_of(b.type);
        if (bytes > 0) std::memcpy(room, in_.get() + r * slot + length_bytes, bytes);
        room += bytes;
    }
    return {};
}

// ---- lengths first

full_call lengths_first_call::first() {
    call_shape call = lengths_of(blocks_);
    if (blocks_.what == collective::gather) return {std::move(call), {send_counts_.data(), blocks_.recv_counts.data()}};
    const bool scatters = blocks_.what == collective::scatter;
    const std::int64_t second = scatters ? block_of_program() : sum_of(send_counts_);
    for (const std::int64_t count : send_counts_) sent_lengths_.insert(sent_lengths_.end(), {count, second});
    received_lengths_.resize(scatters ? 2 : sent_lengths_.size());
    return {std::move(call), {sent_lengths_.data(), received_lengths_.data()}};
}

// Returns the block length of the program on a scatter's root: 1 if skewed, else a power of two, so programs are few.
std::int64_t lengths_first_call::block_of_program() const {
    if (send_counts_.empty()) return 0;
    const std::int64_t most = std::max(*std::ranges::max_element(send_counts_), std::int64_t{1});
    if (static_cast<double>(most) * ranks_ > most_skew * static_cast<double>(sum_of(send_counts_))) return 1;
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most)));
}

// A rank whose buffer is too small still receives the blocks, in other memory, so no rank waits for it. In a gather
// ranks agree on no longest length; a program for blocks of one element moves each block in one piece.
std::optional<full_call> lengths_first_call::go_on() {
    const uneven_blocks& b = blocks_;
    if (!std::exchange(has_more_, false)) {
        expect_room(name_of(b), came_, b.capacity);
        return {};
    }
    const lengths known = take_lengths();
    std::vector<std::int64_t> received;
    if (!row_of(b.what).gets_nothing(is_root())) received.assign(b.recv_counts.begin(), b.recv_counts.end());
    came_ = sum_of(received);
    if (came_ > b.capacity)
        room_ =
            take_memory(static_cast<std::size_t>(came_) * size_of(b.type), blocks_for(b, "that have no room in recv"));
    return full_call{{.what = b.what,
                      .count = b.what == collective::gather    ? 1
                               : b.what == collective::scatter ? received_lengths_[1]
                                                               : b.most,
                      .counts = send_counts_,
                      .type = b.type,
                      .root = b.root,
                      .part_of = name_of(b),
                      .known = known,
                      .received = received},
                     {b.send, room_ ? room_.get() : b.recv}};
}

// Stores the received lengths. In an alltoall, all ranks know the sum of all lengths, and return the same value.
lengths lengths_first_call::take_lengths() {
    if (blocks_.what == collective::scatter) blocks_.recv_counts[0] = received_lengths_[0];
    if (row_of(blocks_.what).has_root()) return lengths::own;
    double all = 0;
    for (int r = 0; r < ranks_; ++r) {
        blocks_.recv_counts[at(r)] = received_lengths_[2 * at(r)];
        all += static_cast<double>(received_lengths_[2 * at(r) + 1]);
    }
    const double mean = all / ranks_ / ranks_;
    return static_cast<double>(blocks_.most) > most_skew * mean ? lengths::skewed : lengths::own;
}

}  // namespace terrace::detail
