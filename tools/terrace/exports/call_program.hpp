#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan_data.hpp"
#include "schedule/call_schedule.hpp"
#include "schedule/verify.hpp"

namespace terrace::detail {

/// What all ranks do in one call, as other programs run it: messages, copies and reductions.
struct call_program {
    collective what = collective::allreduce;
    std::int64_t elements = 0;  ///< of the vector, or of all blocks together
    int root = 0;               ///< of collectives with a root
    std::vector<schedule> ranks = {};

    /// Returns what the caller passes in and gets; of collectives with blocks in equal ones.
    expectation terms() const;
    /// Nothing if the verifier proves it, else the fault.
    std::optional<std::string> fault() const { return find_fault(ranks, terms()); }
};

/// Collects instructions and puts them in an order that the verifier accepts: by the waits and the messages alone, as
/// in a data flow.
class program_collector {
public:
    program_collector(int ranks, collective what, std::int64_t elements, int root = 0);

    /// Adds an instruction and returns its number on the rank.
    /// @param dst what it writes; a send writes nothing   @param sources what it reads
    /// @param after numbers on the rank that it waits for
    int add(int rank, action what, const operand& dst, std::vector<operand> sources, std::span<const int> after);
    /// Says that these two are the ends of one message.
    void pair(int from, int send, int to, int recv);
    /// Returns the elements of scratch that no operand so far lies in, and takes `count` of them.
    operand fresh_scratch(int rank, std::int64_t count);
    std::size_t size() const noexcept { return all_; }

    /// @throws input_error of `source` if something can never run
    call_program finish(std::string_view source);

private:
    struct entry {
        action what;
        operand dst;
        std::vector<operand> sources;
        std::vector<int> after;
        int peer = -1, partner = -1;  // of messages: the rank and the number of the other end
        int turn = -1;                // in the common order
    };

    void order(std::string_view source);
    schedule packed(int rank);

    call_program made_;
    std::vector<std::vector<entry>> entries_;              // [rank][number]
    std::vector<std::array<std::int64_t, buffers>> used_;  // by rank and buffer, so far
    std::size_t all_ = 0;
};

/// Returns what ranks 0, 1, ... run, stages in shared memory as messages.
std::vector<schedule> message_schedules(const call_layout& layout, int ranks);

/// Returns what a call of a plan does, its chunks and lanes as they are, stages in shared memory as messages, from or
/// to root 0.
call_program program_of(const plan_data& plan, collective what, std::int64_t bytes);

}  // namespace terrace::detail
