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

/// The programs of all ranks for one call, as other software runs them: messages, copies and reductions.
struct call_program {
    collective what = collective::allreduce;
    std::int64_t elements = 0;  ///< of the vector, or of all blocks together
    int root = 0;               ///< of collectives with a root
    std::vector<schedule> ranks = {};

    /// Returns the call's input and output; blocks of collectives have equal counts.
    expectation terms() const;
    /// Returns the fault that the verifier finds; nothing if the program is right.
    std::optional<std::string> fault() const { return find_fault(ranks, terms()); }
};

/// Collects instructions and puts them in an order that the verifier accepts. Only waits and messages determine the
/// order, as in a data flow.
class program_collector {
public:
    program_collector(int ranks, collective what, std::int64_t elements, int root = 0);

    /// Adds an instruction and returns its number on the rank.
    /// @param dst operand written; none for a send   @param sources operands read
    /// @param after numbers of earlier instructions on the rank that it waits for
    int add(int rank, action what, const operand& dst, std::vector<operand> sources, std::span<const int> after);
    /// Connects the two ends of one message.
    void pair(int from, int send, int to, int recv);
    /// Returns `count` elements of scratch that no operand uses so far.
    operand fresh_scratch(int rank, std::int64_t count);
    std::size_t size() const noexcept { return all_; }

    /// @throws input_error with the name `source` if an instruction can never run
    call_program finish(std::string_view source);

private:
    struct entry {
        action what;
        operand dst;
        std::vector<operand> sources;
        std::vector<int> after;
        int peer = -1, partner = -1;  // of messages: rank of the other end, and its number there
        int turn = -1;                // position in the common order
    };

    void order(std::string_view source);
    schedule packed(int rank);

    call_program made_;
    std::vector<std::vector<entry>> entries_;              // [rank][number]
    std::vector<std::array<std::int64_t, buffers>> used_;  // by rank and buffer: elements in use so far
    std::size_t all_ = 0;
};

/// Returns the schedules of ranks 0, 1, ...; stages in shared memory become messages.
std::vector<schedule> message_schedules(const call_layout& layout, int ranks);

/// Returns the program of a call of a plan, with its chunks and lanes, and root 0. Stages in shared memory become
/// messages.
call_program program_of(const plan_data& plan, collective what, std::int64_t bytes);

}  // namespace terrace::detail
