#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace terrace::detail {

/// The arguments of a call besides its count; allreduce needs neither root nor blocks.
struct expectation {
    int root = 0;                  ///< for collectives with a root
    std::vector<range> blocks;     ///< for collectives with blocks: by rank, in the caller's buffer of all blocks
    std::vector<int> tree = {};    ///< for a reproducible reduction: as in collective_call
    bool marks_completion = true;  ///< reductions that complete a sum are marked; if false, the call is no avg
};

/// Proves the schedules of all ranks of a collective (schedules[r].rank == r, lowered) for one chunk, in place and out
/// of place; alltoall only out of place. Providers' own collectives, except those of MPI, are proved as stage_work
/// defines them. In place, send and recv are one buffer; with blocks, the buffer of a rank's own block is that block in
/// the buffer of all. In a broadcast or scatter only the root has a `send`, in a reduce or gather only the root has a
/// `recv`.
/// * well-formed: operands lie inside their buffers, and inside the data that the caller passes in or gets; no
///   instruction writes `send`, no message is empty, the order graph points forward in program order;
/// * ends matched: the n-th message from a to b is the n-th that b expects from a, equal in count and step;
/// * stages: all members of a group run each of its stages, with the same arguments; they use memory of one another
///   inside the operands, which peers can access; two that use the same elements wait for one another;
/// * no race: two instructions of a rank whose operands overlap, one of them writing (send and recv are the same memory
///   in place), are ordered by waits and messages, the earlier in the program first. An instruction uses its operands
///   from its start to its completion;
/// * no deadlock with one send and one receive at a time, each in program order, without buffering: more only helps;
/// * postcondition of allreduce, reduce and reduce_scatter: every rank's contribution to every element is counted
///   exactly once, at the same element. All ranks that get the element have equal bits: the same expression, up to
///   exchanging the two operands of an addition; in a reproducible reduction that of the tree. Only the reduction that
///   completes a sum is marked (avg divides there, once). Of broadcast, allgather, gather and scatter: every element is
///   as its rank passed it in. Of alltoall: block d of rank s is block s of rank d, element by element.
/// Returns nothing if all hold, else the first fault, with rank and instruction.
std::optional<std::string> find_fault(std::span<const schedule> schedules, const expectation& of = {});

}  // namespace terrace::detail
