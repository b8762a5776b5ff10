#include "pmpi/decision.hpp"

#include "pmpi/datatypes.hpp"
#include "pmpi/settings.hpp"

namespace terrace::detail::pmpi {

namespace {

// Returns the side with the size of a call: send for non-roots of gather and the root of scatter, else receive.
const side& side_with_size(const call& c, bool is_root) noexcept {
    const bool sends = (c.what == call_kind::gather && !is_root) || (c.what == call_kind::scatter && is_root);
    return sends ? c.send : c.recv;
}

// Returns true if MPI_IN_PLACE is passed where MPI does not allow it.
bool misplaced(const call& c, bool is_root) noexcept {
    const bool scatters = c.what == call_kind::scatter;
    if (c.recv.at == MPI_IN_PLACE && !(scatters && is_root)) return true;
    if (c.send.at != MPI_IN_PLACE) return false;
    return scatters || c.what == call_kind::bcast || (has_root(c.what) && !is_root);
}

// Returns the number of elements of all blocks; negative if a count is negative.
std::int64_t elements_of(call_kind what, const side& s, int ranks) noexcept {
    if (s.counts) {
        std::int64_t all = 0;
        for (int r = 0; r < ranks; ++r) {
            if (s.counts[r] < 0) return -1;
            all += s.counts[r];
        }
        return all;
    }
    const bool one_block = what == call_kind::allreduce || what == call_kind::reduce || what == call_kind::bcast;
    return one_block ? s.count : s.count * ranks;
}

bool wrong_side(const call& c, const side& s, int ranks) noexcept {
    return s.at != MPI_IN_PLACE && (s.type == MPI_DATATYPE_NULL || elements_of(c.what, s, ranks) < 0);
}

}  // namespace

call_facts facts_of(const call& c, const attached& on) noexcept {
    constexpr call_facts refused{.bytes = 0, .invalid = true};
    if (c.what == call_kind::barrier || passes(c.what) || on.is_inter) return {};  // roots of intercommunicators differ
    if (has_root(c.what) && (c.root < 0 || c.root >= on.size)) return refused;
    const bool is_root = has_root(c.what) && on.rank == c.root;
    if (misplaced(c, is_root) || (reduces(c.what) && c.op == MPI_OP_NULL)) return refused;
    const side& sized = side_with_size(c, is_root);
    if (wrong_side(c, sized, on.size)) return refused;
    const bool reads_both = !has_root(c.what) || is_root;
    if (reads_both && (wrong_side(c, c.send, on.size) || wrong_side(c, c.recv, on.size))) return refused;
    if (!has_size(c.what)) return {};
    return {.bytes = elements_of(c.what, sized, on.size) * size_of_type(sized.type)};
}

decision decide(const call& c, const call_facts& f, const attached& on, const trial& tried, bool starts) noexcept {
    const auto pass = [](passed why) { return decision{runner::mpi, why}; };
    const mode is = mode_of(current_settings().modes[static_cast<std::size_t>(c.what)], f.bytes);
    if (passes(c.what)) return pass(passed::unsupported);
    if (f.invalid) return pass(passed::invalid);
    if (is == mode::off) return pass(passed::switched_off);
    if (on.is_inter) return pass(passed::intercommunicator);
    if (on.size == 1) return pass(passed::one_rank);
    if (has_size(c.what) && f.bytes == 0) return pass(passed::no_elements);
    if (reduces(c.what)) {
        const std::optional<reduce_op> op = operation_of(c.op);
        if (!op) return pass(passed::operation);
        const std::optional<element_type> type = element_of(c.recv.type);
        if (!type || !is_defined(*op, *type)) return pass(passed::datatype);
    }
    if (on.tried && !on.by) return pass(passed::no_communicator);
    // Ranks may make a started call at different times, so it must not wait for other ranks: neither to make a
    // communicator, nor to compare times.
    if (starts) {
        if (!on.by || (is == mode::automatic && !tried.settled())) return pass(passed::not_tried);
    } else if (is == mode::automatic && !tried.settled()) return {tried.next(), passed::not_at_all, true};
    if (is == mode::automatic && tried.chosen() == runner::mpi) return pass(passed::mpi_is_faster);
    return {.by = runner::terrace};
}

}  // namespace terrace::detail::pmpi
