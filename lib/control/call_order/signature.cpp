#include "control/call_order/signature.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/element_types.hpp"
#include "base/hash.hpp"

namespace terrace::detail {

namespace {

// A range of bytes in memory.
struct extent {
    std::uintptr_t begin = 0, end = 0;

    static extent of(const void* at, std::int64_t bytes) {
        const auto begin = reinterpret_cast<std::uintptr_t>(at);
        return {begin, begin + static_cast<std::uintptr_t>(bytes)};
    }
    bool overlaps(const extent& o) const { return begin < o.end && o.begin < end; }
    std::string text() const { return fmt::format("[{:#x}, {:#x})", begin, end); }
};

std::string overlap(const call_shape& call, int rank, int ranks, const void* send, const void* recv) {
    const collective_row& row = row_of(call.what);
    const bool own_lengths = call.has_own_lengths(), gathers = row.gives_own_block();
    if (!row.blocks && (send == recv || row.gets_nothing(call.root == rank))) return {};
    if (!own_lengths && row.blocks && row.has_root() && call.root != rank) return {};  // only one buffer is used
    const std::vector<std::int64_t>& counts = call.counts;
    std::int64_t before = call.count * rank, own = call.count;
    if (!own_lengths && !counts.empty()) {
        before = std::reduce(counts.begin(), counts.begin() + rank);
        own = counts[static_cast<std::size_t>(rank)];
    }
    const std::int64_t element = static_cast<std::int64_t>(size_of(call.type)), all = elements_of(call, ranks);
    const std::int64_t sent = own_lengths ? std::reduce(counts.begin(), counts.end()) : gathers ? own : all;
    const std::int64_t got = own_lengths            ? std::reduce(call.received.begin(), call.received.end())
                             : row.gets_own_block() ? own
                                                    : all;
    const extent from = extent::of(send, sent * element), to = extent::of(recv, got * element);
    if (!from.overlaps(to)) return {};
    const auto clash = [&](std::string_view allowed) {
        return fmt::format("send {} and recv {} overlap; {}", from.text(), to.text(), allowed);
    };
    if (!row.blocks) return clash("pass the same buffer to work in place, or two that do not overlap");
    if (call.what == collective::alltoall || own_lengths)
        return clash(fmt::format("{} does not work in place: pass two buffers that do not overlap", name_of(call)));
    const std::uintptr_t place = (gathers ? to : from).begin + static_cast<std::uintptr_t>(before * element);
    if ((gathers ? from : to).begin == place) return {};
    return clash(fmt::format("to work in place let {} be rank {}'s own block of {}, which begins at {:#x}",
                             gathers ? "send" : "recv", rank, gathers ? "recv" : "send", place));
}

std::string miscounted(std::size_t counts, int ranks) {
    return fmt::format("there are {} counts for {} ranks; pass one for each rank", counts, ranks);
}

// Returns why blocks cannot have these counts; empty if they can.
std::string objection_to_counts(std::span<const std::int64_t> counts, int ranks) {
    if (counts.size() != static_cast<std::size_t>(ranks)) return miscounted(counts.size(), ranks);
    for (std::size_t r = 0; r < counts.size(); ++r)
        if (counts[r] < 0) return fmt::format("count {} is {}; none may be negative", r, counts[r]);
    return {};
}

}  // namespace

std::int64_t elements_of(const call_shape& call, int ranks) {
    if (!call.counts.empty()) return std::reduce(call.counts.begin(), call.counts.end());
    return row_of(call.what).blocks ? call.count * ranks : call.count;
}

std::uint64_t signature_of(const call_shape& call) noexcept {
    const bool is_same_on_all = !call.has_own_lengths();
    const std::array<std::uint64_t, 10> words{call.is_barrier,
                                              static_cast<std::uint64_t>(call.known),
                                              hash_of(call.part_of.data(), call.part_of.size()),
                                              static_cast<std::uint64_t>(call.what),
                                              static_cast<std::uint64_t>(call.count),
                                              is_same_on_all ? call.counts.size() : 0,
                                              static_cast<std::uint64_t>(call.type),
                                              static_cast<std::uint64_t>(call.op),
                                              static_cast<std::uint64_t>(call.root),
                                              static_cast<std::uint64_t>(call.exact)};
    std::uint64_t fixed = hash_of(words.data(), sizeof words);
    if (!call.joined.empty()) fixed = hash_of(call.joined.data(), call.joined.size() * sizeof(std::int64_t), fixed);
    return call.counts.empty() || !is_same_on_all
               ? fixed
               : hash_of(call.counts.data(), call.counts.size() * sizeof(std::int64_t), fixed);
}

call_shape call_shape::of_program() const {
    call_shape made = *this;
    if (has_own_lengths()) made.counts = made.received = {};
    return made;
}

std::string describe(const call_shape& call) {
    if (call.is_barrier) return "barrier";
    constexpr std::size_t shown = 8;
    std::string counts = fmt::format("{}", call.count);
    if (call.has_own_lengths()) {
        counts = "any length,";
    } else if (!call.counts.empty()) {
        counts = fmt::format("{}", fmt::join(std::span(call.counts).first(std::min(shown, call.counts.size())), " "));
        if (call.counts.size() > shown)
            counts += fmt::format(" ... ({} counts, sum {}, hash {:016x})", call.counts.size(),
                                  std::reduce(call.counts.begin(), call.counts.end()), signature_of(call));
    }
    std::string text = fmt::format("{} of {}{} {}", name_of(call), row_of(call.what).blocks ? "blocks of " : "", counts,
                                   to_string(call.type));
    if (row_of(call.what).up) text += fmt::format(", {}{}", call.exact ? "exact " : "", to_string(call.op));
    if (row_of(call.what).has_root())
        text += fmt::format(", {} rank {}", row_of(call.what).gets_nothing(false) ? "to" : "from", call.root);
    if (!call.joined.empty()) text += fmt::format(", for {} calls of a group", call.joined.size());
    return text;
}

usage_error refusal_of(const call_shape& call, const std::string& objection) {
    return usage_error(fmt::format("{}: {}", name_of(call), objection));
}

std::string objection_to(const call_shape& call, int rank, int ranks, const void* send, const void* recv) {
    if (call.is_barrier) return {};
    if (call.count < 0) return fmt::format("count is {}; it must not be negative", call.count);
    if (call.has_own_lengths()) return overlap(call, rank, ranks, send, recv);
    if (!call.counts.empty())
        if (std::string wrong = objection_to_counts(call.counts, ranks); !wrong.empty()) return wrong;
    if (call.root < 0 || call.root >= ranks)
        return fmt::format("root is {}, but ranks are 0 to {}", call.root, ranks - 1);
    if (row_of(call.what).up && !is_defined(call.op, call.type)) return undefined_text(call.op, call.type);
    if (call.count == 0 && call.counts.empty()) return {};
    const bool is_root = call.root == rank;
    const bool receives = !row_of(call.what).gets_nothing(is_root),
               sends = !row_of(call.what).gives_nothing(is_root) || call.what == collective::broadcast;
    if (call.counts.empty() && ((sends && send == nullptr) || (receives && recv == nullptr)))
        return fmt::format("a buffer is null, but count is {}", call.count);
    return overlap(call, rank, ranks, send, recv);
}

void expect_counts(std::string_view call, std::span<const std::int64_t> counts, int rank, int ranks, std::int64_t all,
                   std::int64_t own) {
    if (const std::string wrong = objection_to_counts(counts, ranks); !wrong.empty())
        throw usage_error(fmt::format("{}: {}", call, wrong));
    const std::int64_t sum = std::reduce(counts.begin(), counts.end());
    const std::int64_t mine = counts[static_cast<std::size_t>(rank)];
    if (all != sum || own != mine)
        throw usage_error(
            fmt::format("{}: the counts require buffers of {} elements in all and {} for rank {}, but the buffers have "
                        "{} and {}",
                        call, sum, mine, rank, all, own));
}

// The root is checked together with the call that exchanges the lengths.
std::string objection_to(const uneven_blocks& b, int rank, int ranks) {
    const bool is_root = rank == b.root;
    if (row_of(b.what).has_root() && (b.root < 0 || b.root >= ranks)) return {};
    if (b.most < 0) return fmt::format("the longest block has {} elements; it must not be negative", b.most);
    const std::size_t all = static_cast<std::size_t>(ranks);
    const bool gives = !row_of(b.what).gives_nothing(is_root), gets = !row_of(b.what).gets_nothing(is_root);
    if (gives && !row_of(b.what).gives_own_block() && b.send_counts.size() != all)
        return miscounted(b.send_counts.size(), ranks);
    if (gets && !row_of(b.what).gets_own_block() && b.recv_counts.size() != all)
        return miscounted(b.recv_counts.size(), ranks);
    std::int64_t sent = 0;
    for (std::size_t r = 0; gives && r < b.send_counts.size(); ++r) {
        const std::int64_t count = b.send_counts[r];
        if (!row_of(b.what).has_root() && (count < 0 || count > b.most))
            return fmt::format("count {} is {}; each is 0 to {}, which is the longest block", r, count, b.most);
        if (count < 0) return fmt::format("count {} is {}; none may be negative", r, count);
        sent += count;
    }
    if ((b.send == nullptr && sent > 0) || (gets && b.recv == nullptr && b.capacity > 0))
        return "a buffer is null, but its count is not 0";
    return {};
}

}  // namespace terrace::detail
