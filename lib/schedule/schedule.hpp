#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/range.hpp"
#include "base/wire_type.hpp"
#include "plan/plan_data.hpp"
#include "schedule/group.hpp"

namespace terrace::detail {

/// The memory of an operand. `send` is the caller's input and never written. `recv` is the result; in place it is the
/// same memory as `send`. `scratch` and `wire` belong to the program. `wire` holds encoded data: operands begin at
/// multiples of wire_block, and each is encoded and decoded as a whole.
enum class buffer : std::uint8_t { send, recv, scratch, wire };
inline constexpr int buffers = 4;

/// Elements of a buffer.
struct operand {
    buffer where = buffer::recv;
    range part;

    friend bool operator==(operand, operand) = default;
};

/// The instruction set. It is closed: alltoall, gather and scatter need no instructions of their own.
enum class action : std::uint8_t {
    send,         ///< src to `peer`
    recv,         ///< dst from `peer`
    recv_reduce,  ///< dst = src + message from `peer`
    copy,         ///< dst = src
    reduce,       ///< dst = sources[0] + sources[1] + ..., in this order, rounded once; in a reproducible call by the
                  ///< tree (tree_stages.hpp), rounded at each node
    encode,       ///< dst, in the wire buffer, = src in the wire type
    decode,       ///< dst = src, in the wire buffer, decoded to elements
    // A provider's own collectives over groups[peer]. src is this rank's input, at the same place in the same buffer on
    // all members. dst is its output. Peers may read src from the start of the stage to its completion. In MPI's
    // collectives src includes this rank's own part, and there are no sources.
    stage_reduce_scatter,  ///< src: the whole, except this rank's shard, which is in sources[0]; dst: its shard
    stage_allgather,       ///< src: this rank's shard; dst: the whole
    stage_allreduce,  ///< src, dst: the whole. With its shard in sources[0] (and not in src) each rank reduces this
                      ///< shard for all; without, each rank may reduce everything
    stage_reduce,     ///< src: the whole, on the root in sources[0]; dst: the whole on the root, else nothing
    stage_broadcast,  ///< src: the whole on the root, else nothing; dst: the whole
    stage_scatter,    ///< src: the whole on the root, else nothing; dst: this rank's shard, nothing on the root
    stage_gather,     ///< src: this rank's shard; dst: the whole on the root, else nothing
};
inline constexpr action last_action = action::stage_gather;
std::string_view to_string(action a) noexcept;
constexpr bool is_stage(action a) noexcept { return a >= action::stage_reduce_scatter; }
/// Returns true for actions that add.
constexpr bool reduces(action a) noexcept {
    return a == action::recv_reduce || a == action::reduce || a == action::stage_reduce_scatter ||
           a == action::stage_allreduce || a == action::stage_reduce;
}

/// Returns the number of a stage that ranks run together. Numbers ascend in program order.
/// @param turn number of the phase, from 0: phases that run side by side have equal numbers
/// @param ordinal group::ordinal
constexpr std::int32_t stage_number(int turn, int ordinal) noexcept { return turn << 14 | ordinal; }
inline constexpr int stage_number_bits = 20;

/// One instruction of one rank. The action determines the meaning of the fields; unused ones have their defaults.
struct instr {
    action what = action::copy;
    std::uint16_t phase = 0;  ///< index into schedule::phases
    std::int32_t step = 0;    ///< equal at both ends of a message
    std::int32_t peer = -1;   ///< rank; for stages, index into schedule::groups
    operand dst;
    operand src;
    std::uint32_t first_source = 0, sources = 0;        ///< in schedule::sources
    std::uint32_t first_successor = 0, successors = 0;  ///< in schedule::successors: instructions waiting for this one
    std::uint32_t waits = 0;                            ///< number of instructions that this one waits for
    provider by = provider::messages;                   ///< for stages: runs them as its own collectives
    bool completes = false;             ///< for reductions: dst then has all ranks' contributions (avg divides here)
    wire_type wire = wire_type::exact;  ///< for conversions, and for messages from and to the wire buffer
    std::int32_t channel = 0;  ///< for messages: number of earlier ones in this direction between the same ranks;
                               ///< for stages: stage_number, equal on the group's members

    friend bool operator==(const instr&, const instr&) = default;
};

/// The stage, direction and route of instructions.
struct phase {
    int stage = 0;      ///< index into the plan's stages
    bool down = false;  ///< the way down
    int route = 0;      ///< composed_stage::route

    friend bool operator==(const phase&, const phase&) = default;
};

/// The place of the vector, and of its elements before they are written.
struct vector_home {
    buffer where = buffer::recv;  ///< recv, or the first `count` elements of scratch
    bool starts_in_send = true;   ///< element i is send[i] until it is written; else it is written before it is read

    friend bool operator==(const vector_home&, const vector_home&) = default;
};

/// One rank's work for one chunk of one collective. Pure data: elements, no addresses, no types. Instructions are in
/// program order, by ascending step. Immutable once built.
struct schedule {
    int rank = 0;
    int ranks = 1;
    collective what = collective::allreduce;
    std::int64_t count = 0;  ///< elements of the vector
    vector_home home;
    std::vector<range> owned;  ///< parts of the vector that this rank has after the way up, reduced over all ranks
    std::int64_t send = 0;     ///< size of each buffer in elements, up to the last one that is used
    std::int64_t recv = 0;
    std::int64_t scratch = 0;
    std::int64_t wire = 0;
    std::vector<instr> instrs;
    std::vector<operand> sources;
    std::vector<std::uint32_t> successors;
    std::vector<group> groups;  ///< groups of stages, as seen by this rank
    std::vector<phase> phases;

    std::span<const operand> sources_of(const instr& i) const { return {sources.data() + i.first_source, i.sources}; }
    std::span<const std::uint32_t> successors_of(const instr& i) const {
        return {successors.data() + i.first_successor, i.successors};
    }
    /// Returns the approximate memory of the schedule [bytes].
    std::size_t bytes() const noexcept {
        std::size_t all = instrs.size() * sizeof(instr) + sources.size() * sizeof(operand) +
                          successors.size() * sizeof(std::uint32_t);
        for (const group& g : groups) all += g.shards().size() * (sizeof(range) + 2 * sizeof(int));
        return all;
    }
    friend bool operator==(const schedule&, const schedule&) = default;
};

}  // namespace terrace::detail
