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

/// Where an operand lies. `send` is what the caller passed in and is never written; `recv` is the result, and the same
/// memory as `send` where a call is in place; `scratch` belongs to the program, and so does `wire`, which holds what is
/// encoded for the wire: operands there begin at multiples of wire_block, and each is encoded and decoded as a whole.
enum class buffer : std::uint8_t { send, recv, scratch, wire };
inline constexpr int buffers = 4;

/// Elements of a buffer.
struct operand {
    buffer where = buffer::recv;
    range part;

    friend bool operator==(operand, operand) = default;
};

/// The instruction set. Closed: alltoall, gather and scatter need none of their own.
enum class action : std::uint8_t {
    send,         ///< src to `peer`
    recv,         ///< dst from `peer`
    recv_reduce,  ///< dst = src + what arrives from `peer`
    copy,         ///< dst = src
    reduce,       ///< dst = sources[0] + sources[1] + ..., in this order, rounded once; of a
                  ///< reproducible call by the tree (tree_stages.hpp), rounded at each node
    encode,       ///< dst, of the wire buffer, = src in the wire type
    decode,       ///< dst = src, of the wire buffer, as elements again
    // A provider's own collectives over groups[peer]. src is what this rank gives, at the same place in the same
    // buffer on all members; dst is what it gets. From the start of one to its completion peers may read src. MPI looks
    // at no second place: src then has this rank's part as well, and there are no sources.
    stage_reduce_scatter,  ///< src: the whole, but for this rank's shard, which is in sources[0]; dst: its shard
    stage_allgather,       ///< src: this rank's shard; dst: the whole
    stage_allreduce,  ///< src, dst: the whole. With its shard in sources[0] (and not in src) each rank reduces that
                      ///< for all; without, everybody may reduce everything
    stage_reduce,     ///< src: the whole, the root's is in sources[0]; dst: the whole on the root, else nothing
    stage_broadcast,  ///< src: the whole on the root, else nothing; dst: the whole
    stage_scatter,    ///< src: the whole on the root, else nothing; dst: this rank's shard, nothing on the root
    stage_gather,     ///< src: this rank's shard; dst: the whole on the root, else nothing
};
inline constexpr action last_action = action::stage_gather;
std::string_view to_string(action a) noexcept;
constexpr bool is_stage(action a) noexcept { return a >= action::stage_reduce_scatter; }
/// Whether it adds up.
constexpr bool reduces(action a) noexcept {
    return a == action::recv_reduce || a == action::reduce || a == action::stage_reduce_scatter ||
           a == action::stage_allreduce || a == action::stage_reduce;
}

/// Returns the number of a stage that ranks run together. Numbers ascend in program order.
/// @param turn of the phase, from 0: phases that run side by side have the same
/// @param ordinal group::ordinal
constexpr std::int32_t stage_number(int turn, int ordinal) noexcept { return turn << 14 | ordinal; }
inline constexpr int stage_number_bits = 20;

/// One instruction of one rank. Meaning of the fields by action; what an action does not use is zero.
struct instr {
    action what = action::copy;
    std::uint16_t phase = 0;  ///< index into schedule::phases
    std::int32_t step = 0;    ///< equal at both ends of a message
    std::int32_t peer = -1;   ///< rank; index into schedule::groups for stages
    operand dst;
    operand src;
    std::uint32_t first_source = 0, sources = 0;        ///< into schedule::sources
    std::uint32_t first_successor = 0, successors = 0;  ///< into schedule::successors: who waits for this one
    std::uint32_t waits = 0;                            ///< how many instructions this one waits for
    provider by = provider::messages;                   ///< of stages: runs it as a collective of its own
    bool completes = false;             ///< of reductions: dst then holds all ranks' contributions (where avg divides)
    wire_type wire = wire_type::exact;  ///< of conversions, and of messages to and from the wire buffer
    std::int32_t channel = 0;  ///< of messages: how many earlier ones go the same way between the same two ranks;
                               ///< of stages: stage_number, which the group's members agree on

    friend bool operator==(const instr&, const instr&) = default;
};

/// Which stage a run of instructions belongs to: for traces and simulation.
struct phase {
    int stage = 0;      ///< index into the plan's stages
    bool down = false;  ///< the way back (allgather, broadcast)
    int route = 0;      ///< composed_stage::route

    friend bool operator==(const phase&, const phase&) = default;
};

/// Where the vector that generators speak of lies, and where its elements are before anything is written to it.
struct vector_home {
    buffer where = buffer::recv;  ///< recv, or the first `count` elements of scratch
    bool starts_in_send = true;   ///< element i is send[i] until it is written; else it is written before it is read

    friend bool operator==(const vector_home&, const vector_home&) = default;
};

/// One rank's work for one chunk of one collective. Pure data: elements, no addresses, no types. Instructions stand
/// in program order, by ascending step. Immutable once built.
struct schedule {
    int rank = 0;
    int ranks = 1;
    collective what = collective::allreduce;
    std::int64_t count = 0;  ///< elements of the vector
    vector_home home;
    std::vector<range> owned;  ///< of the vector: what this rank has after the way up, reduced over all ranks
    std::int64_t send = 0;     ///< elements of each buffer, up to the last one that is used
    std::int64_t recv = 0;
    std::int64_t scratch = 0;
    std::int64_t wire = 0;
    std::vector<instr> instrs;
    std::vector<operand> sources;
    std::vector<std::uint32_t> successors;
    std::vector<group> groups;  ///< of stages, as this rank sees them
    std::vector<phase> phases;

    std::span<const operand> sources_of(const instr& i) const { return {sources.data() + i.first_source, i.sources}; }
    std::span<const std::uint32_t> successors_of(const instr& i) const {
        return {successors.data() + i.first_successor, i.successors};
    }
    /// Returns about how many bytes of memory it takes.
    std::size_t bytes() const noexcept {
        std::size_t all = instrs.size() * sizeof(instr) + sources.size() * sizeof(operand) +
                          successors.size() * sizeof(std::uint32_t);
        for (const group& g : groups) all += g.shards().size() * (sizeof(range) + 2 * sizeof(int));
        return all;
    }
    friend bool operator==(const schedule&, const schedule&) = default;
};

}  // namespace terrace::detail
