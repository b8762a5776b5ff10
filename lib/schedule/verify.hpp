#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace terrace::detail {

/// The caller's terms of a call beside its count; allreduce needs neither.
struct expectation {
    int root = 0;                  ///< of broadcast and reduce
    std::vector<range> blocks;     ///< of collectives with blocks: by rank, in the caller's buffer of all blocks
    std::vector<int> tree = {};    ///< of a reproducible reduction: as in collective_call
    bool marks_completion = true;  ///< the reduction that completes a sum says so; else none does, and avg is not meant
};

/// Proves the schedules of all ranks of a collective (schedules[r].rank == r, lowered) for one chunk, in place and out
/// of place; alltoall out of place alone. Stages that providers run by themselves, but for those of MPI, are proved
/// as stage_work has them. In place, send and recv are one buffer; with blocks, the buffer of a rank's own block is
/// that block in the buffer of all. In a broadcast or scatter only the root has a `send`, in a reduce or gather only
/// the root has a `recv`.
/// * well-formed: operands inside their buffers, and there inside of what the caller passes in or gets; nothing writes
///   `send`, no message is empty, the order graph points forward in program order;
/// * ends matched: the n-th message from a to b is the n-th that b expects from a, equal in count and step;
/// * stages: all members of a group run each of its stages, on the same terms; what they use of one another's memory
///   lies inside the operands, in memory that peers reach; two that use the same elements wait for one another;
/// * no race: two instructions of a rank whose operands overlap, one of them writing (send and recv are the same memory
///   in place), are ordered by waits and messages, the earlier in the program first. An instruction uses its operands
///   from its start to its completion;
/// * no deadlock with one send and one receive at a time, each in program order, and no buffering: more only helps;
/// * postcondition of allreduce, reduce and reduce_scatter: every rank's contribution to every element counted exactly
///   once, at the same element, with equal bits on all ranks that get it (the same expression, up to exchanging the two
///   operands of an addition; of a reproducible reduction the tree's), and the reduction that completes it, and no
///   other, says so (avg divides there, once); of broadcast, allgather, gather and scatter: every element as its rank
///   passed it in; of alltoall: block d of rank s is block s of rank d, element by element.
/// Returns nothing if all hold, else the first thing that does not, naming rank and instruction.
std::optional<std::string> find_fault(std::span<const schedule> schedules, const expectation& of = {});

}  // namespace terrace::detail
