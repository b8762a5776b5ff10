#pragma once

#include <optional>
#include <span>
#include <string>

#include "schedule/schedule.hpp"

namespace terrace {

/// Proves the schedules of all ranks of an allreduce (schedules[r].rank == r, lowered: no stage instructions), for one
/// chunk, in place and out of place:
/// * well-formed: operands inside their buffers, nothing writes `send`, no message is empty, the order graph points
///   forward in program order;
/// * ends matched: the n-th message from a to b is the n-th that b expects from a, equal in count and step;
/// * no race: two instructions of a rank whose operands overlap, one of them writing (send and recv are the same memory
///   in place), are ordered by waits and messages, the earlier in the program first. An instruction uses its operands
///   from its start to its completion;
/// * no deadlock with one send and one receive at a time, each in program order, and no buffering: more only helps;
/// * postcondition: every rank's contribution to every element counted exactly once, at the same element, with equal
///   bits on all ranks (the same expression, up to exchanging the two operands of an addition).
/// Returns nothing if all hold, else the first thing that does not, naming rank and instruction.
std::optional<std::string> find_fault(std::span<const schedule> schedules);

}  // namespace terrace
