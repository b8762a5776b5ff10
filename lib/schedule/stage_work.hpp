#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/range.hpp"
#include "schedule/schedule.hpp"

namespace terrace::detail {

/// Division of the work of an allreduce in shared memory among the members of a group.
enum class sharing : std::uint8_t {
    replicated,  ///< each reduces everything, for itself
    push,        ///< each reduces its shard and writes it into the result of every member
    pull,        ///< each reduces its shard where its peers can read it, and then copies the shards of its peers
};

/// Returns the division of the work of an allreduce. All members decide alike, since each knows the memory of all.
/// @param by_shards the schedule requires it: each member leaves its own shard out of the data that peers read
/// @param any_in_place some member's result replaces its input. Others may read the input until the end, so only the
///                     one shard that no other member reads may be written.
/// @param all_reachable peers can write the result of every member
constexpr sharing sharing_of(bool by_shards, bool any_in_place, bool all_reachable) noexcept {
    if (!by_shards && !any_in_place) return sharing::replicated;
    return all_reachable ? sharing::push : sharing::pull;
}

/// The part of a group's data that one member reads in the memory of another, the owner.
enum class extent : std::uint8_t {
    readers_shard,  ///< the shard of the member that reads
    owners_shard,   ///< the shard of the owner of the memory
    whole,          ///< all shards
};

/// Memory of a member.
enum class stage_memory : std::uint8_t {
    given,    ///< input: instr::src. A member reads its own input from instr::sources[0] instead, if there is one.
    result,   ///< output: instr::dst
    exposed,  ///< place where peers read reduced data: the member's result if they can access it, else its input
};

/// A set of members, without the member that waits.
enum class peers : std::uint8_t { none, root, all };

/// One round of a stage: the work of a member that takes part. A member reads its own memory like that of others.
struct stage_round {
    extent part = extent::whole;  ///< part that it reads of each member that gives data
    bool adds = false;            ///< writes the sum of the parts, in the order of positions; else copies the parts
    bool by_root = false;         ///< only the root works
    bool from_root = false;       ///< only the root's data are read
    bool to_all = false;          ///< writes the same part of every member's result; else of its own memory `to`
    stage_memory from = stage_memory::given, to = stage_memory::result;

    friend bool operator==(const stage_round&, const stage_round&) = default;
};

/// The work of a stage in shared memory: the only place that defines the data that each member of a group reads, adds
/// and writes, and the peers that it waits for. The transport runs stages by it, prices and simulations count by it,
/// and the verifier proves it.
///
/// A member arrives, and from then on peers may use its memory. It does its rounds one after another. Before each round
/// it waits until the awaited peers have done theirs before it. It leaves once no peer uses its memory any more.
///
/// | stage                 | reads from every member             | writes                          |
/// |-----------------------|-------------------------------------|---------------------------------|
/// | reduce_scatter        | its own shard, adds up              | its own result                  |
/// | allgather             | the shard of each                   | its own result                  |
/// | reduce                | everything, adds up (the root only) | its own result                  |
/// | broadcast             | everything, from the root only      | its own result                  |
/// | scatter               | its own shard, from the root only   | its own result; the root nothing |
/// | gather                | the shard of each (the root only)   | its own result                  |
/// | allreduce, replicated | everything, adds up                 | its own result                  |
/// | allreduce, push       | its own shard, adds up              | the result of every member      |
/// | allreduce, pull       | its own shard, adds up              | its own memory, for peers       |
/// | ... second round      | the shard of each, from there       | its own result                  |
class stage_work {
public:
    constexpr stage_work() = default;
    /// @param root position of the member that gives or gets everything in stages with a root
    /// @param how of an allreduce; the waits before the first round are the same for all ways
    constexpr explicit stage_work(action stage, int root = 0, sharing how = sharing::pull) noexcept : root_(root) {
        constexpr stage_round own_shard{.part = extent::readers_shard, .adds = true};
        switch (stage) {
            case action::stage_reduce_scatter: add(own_shard); break;
            case action::stage_allgather: add({.part = extent::owners_shard}); break;
            case action::stage_reduce: add({.adds = true, .by_root = true}); break;
            case action::stage_broadcast: add({.from_root = true}); break;
            case action::stage_scatter: add({.part = extent::readers_shard, .from_root = true}); break;
            case action::stage_gather: add({.part = extent::owners_shard, .by_root = true}); break;
            default: add_allreduce(how, own_shard);
        }
    }

    constexpr int rounds() const noexcept { return rounds_; }
    constexpr const stage_round& round(int r) const noexcept { return work_[static_cast<std::size_t>(r)]; }
    constexpr int root() const noexcept { return root_; }
    /// Returns true if all members add: each then waits for the others before it leaves.
    constexpr bool closes() const noexcept { return round(0).adds && !round(0).by_root; }

    /// Returns true if the member works in the round.
    constexpr bool works(int r, int member) const noexcept { return !round(r).by_root || member == root_; }

    /// Returns the peers that a member must wait for before round `r`: until they have arrived and done all earlier
    /// rounds. With r = rounds(), before the member may leave: until they have done all rounds.
    constexpr peers awaited(int r, int member) const noexcept {
        if (r == rounds_) return users_of(member);
        if (!works(r, member)) return peers::none;
        return round(r).from_root && !round(r).to_all ? only_root(member) : peers::all;
    }
    constexpr bool awaits(int r, int member, int peer) const noexcept {
        if (peer == member) return false;
        const peers who = awaited(r, member);
        return who == peers::all || (who == peers::root && peer == root_);
    }

    /// Returns the elements that the reader reads of the owner's memory in a round; both may be the same member.
    /// @param shards by position, consecutive
    constexpr range read(int r, int reader, int owner, std::span<const range> shards) const noexcept {
        const stage_round& now = round(r);
        if (!works(r, reader) || (now.from_root && owner != root_)) return nothing(shards);
        return part(now.part, reader, owner, shards);
    }
    /// Returns the elements of the owner's memory that the writer writes in a round, as one sum or as several copies.
    constexpr range written(int r, int writer, int owner, std::span<const range> shards) const noexcept {
        const stage_round& now = round(r);
        if (!works(r, writer) || (!now.to_all && writer != owner)) return nothing(shards);
        return now.part == extent::readers_shard ? shards[static_cast<std::size_t>(writer)] : all(shards);
    }

    /// Returns the number of elements that a member's processor reads and writes in a round.
    /// @param in_place the member's input and output are the same memory: it need not copy its own part
    constexpr std::int64_t touched(int r, int member, bool in_place, std::span<const range> shards) const noexcept {
        std::int64_t elements = 0;
        for (int owner = 0; owner < static_cast<int>(shards.size()); ++owner) {
            const std::int64_t from = read(r, member, owner, shards).count();
            if (round(r).adds) elements += from + written(r, member, owner, shards).count();
            else if (owner != member || !in_place) elements += 2 * from;
        }
        return elements;
    }

    friend bool operator==(const stage_work&, const stage_work&) = default;

private:
    constexpr void add(const stage_round& r) noexcept { work_[static_cast<std::size_t>(rounds_++)] = r; }

    constexpr void add_allreduce(sharing how, stage_round own_shard) noexcept {
        if (how == sharing::replicated) return add({.adds = true});
        own_shard.to_all = how == sharing::push;
        if (how == sharing::pull) own_shard.to = stage_memory::exposed;
        add(own_shard);
        if (how == sharing::pull) add({.part = extent::owners_shard, .from = stage_memory::exposed});
    }

    /// Returns the peers that use a member's memory in any round.
    constexpr peers users_of(int member) const noexcept {
        peers who = peers::none;
        for (int r = 0; r < rounds_; ++r) {
            if (round(r).from_root && !round(r).to_all && member != root_) continue;
            if (!round(r).by_root) return peers::all;
            who = only_root(member);
        }
        return who;
    }

    constexpr peers only_root(int member) const noexcept { return member == root_ ? peers::none : peers::root; }

    static constexpr range all(std::span<const range> shards) noexcept {
        return {shards.front().begin, shards.back().end};
    }
    static constexpr range nothing(std::span<const range> shards) noexcept {
        return {shards.front().begin, shards.front().begin};
    }
    static constexpr range part(extent e, int reader, int owner, std::span<const range> shards) noexcept {
        if (e == extent::whole) return all(shards);
        return shards[static_cast<std::size_t>(e == extent::readers_shard ? reader : owner)];
    }

    std::array<stage_round, 2> work_{};
    std::uint8_t rounds_ = 0;
    int root_ = 0;
};

}  // namespace terrace::detail
