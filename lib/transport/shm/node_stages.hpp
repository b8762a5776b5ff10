#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/index.hpp"
#include "schedule/stage_work.hpp"
#include "transport/shm/node_memory.hpp"
#include "transport/stage_runner.hpp"

namespace terrace::detail {

/// Runs stages among ranks that share memory, by the rules of stage_work. Each rank reads the memory of its peers,
/// reduces with one kernel that has as many inputs as there are ranks, and writes its own memory or that of its peers.
///
/// Ranks show their progress by one sequence number per lane slot, which only grows, and beside it the locations of
/// their memory: in a slot or in a window, as each rank chooses. A waiting rank polls the numbers of its peers, and
/// sleeps if sleep() is called.
class node_stages : public node_stage_runner {
public:
    /// @param part_of part of the node's memory, by rank; -1 for ranks of other nodes
    /// @param arena the first region, with mailboxes and slots; all zero at first
    /// @param sleeps true if any rank of the node calls sleep(): the same on all
    node_stages(int rank, std::vector<int> part_of, shared_region arena, int slots, std::size_t slot_bytes,
                bool sleeps);

    /// node_memory::add_window
    std::shared_ptr<std::byte> add_window(shared_region region) { return memory_.add_window(std::move(region)); }
    bool reachable(const void* memory, std::size_t bytes) const noexcept override {
        return memory_.reachable(static_cast<const std::byte*>(memory), bytes);
    }

    void take_lanes(std::size_t bytes) override { memory_.take_slots(bytes); }
    std::byte* lane_memory(int lane_slot, std::size_t bytes) noexcept override {
        return memory_.slot_memory(lane_slot, bytes);
    }
    bool lane_ready(int lane_slot) noexcept override;
    std::vector<int> lane_readers(int lane_slot) const override;

    void start(int slot, const stage_call& call) noexcept override;
    void poll(std::vector<int>& done) noexcept override;
    std::vector<int> missing(int slot) const override;
    int first_missing(int slot) const noexcept override;
    bool idle() const noexcept { return running_.empty(); }
    bool sleeps() const noexcept { return sleeps_; }
    /// Sleeps until a peer progresses, or for a short time. Returns false, without sleep, if there is work to do.
    bool sleep() noexcept;

private:
    using location = node_memory::location;
    using mailbox = node_memory::mailbox;

    // Progress of a rank in a stage. A stage of one round has no `reduced`.
    enum progress : std::uint64_t { arrived = 1, reduced = 2, finished = 3 };

    // A stage of this rank.
    struct running_stage {
        int slot = 0;
        const stage_call* call = nullptr;
        location given = node_memory::nowhere, result = node_memory::nowhere;  // as in its mailbox
        stage_work work;
        int round = 0;         // next round; work.rounds() if the stage only waits for peers
        std::size_t seen = 0;  // number of members, from the first, that allow the next round
        bool differs = false;  // a peer has made other calls: the stage does not run, and call_check reports it
    };

    // Ranks that may still read the memory of a lane slot although the stage is complete here.
    struct slot_readers {
        std::vector<int> ranks;
        std::uint64_t sequence = 0;  // a rank with this number or a higher one has read the slot
        std::uint64_t call = 0;      // a rank that has completed this call has read the slot, too
        bool awaited = false;
    };

    bool advance(running_stage& s) noexcept;
    bool leaves_early(const running_stage& s) noexcept;
    bool peers_reached(running_stage& s) const noexcept;
    bool reached(const running_stage& s, std::size_t peer) const noexcept;
    template <class F>
    void for_each_awaited(const running_stage& s, F&& f) const;
    void read_calls_of_peers(running_stage& s) noexcept;
    bool has_read(const slot_readers& r, int lane_slot, int rank) const noexcept {
        return completed_[at(part_of(rank))] >= r.call ||
               memory_.mailbox_of(part_of(rank), lane_slot).sequence.load(std::memory_order_acquire) >= r.sequence;
    }

    // Returns the progress that peers must have made before the next round, or before the end.
    static progress needed_for(const running_stage& s) noexcept {
        return s.round == s.work.rounds() ? finished : s.round == 0 ? arrived : reduced;
    }
    static std::uint64_t sequence_of(const stage_call& c, progress p) noexcept {
        return c.turn << (stage_number_bits + 2) | static_cast<std::uint64_t>(c.channel) << 2 | p;
    }
    void announce(const stage_call& c, progress p) noexcept;

    sharing how_shared(const running_stage& s) const noexcept;
    void run_round(const running_stage& s) noexcept;
    void reduce(const running_stage& s, range part, const std::byte* own, std::byte* to) noexcept;
    void reduce_for_all(const running_stage& s, range shard) noexcept;

    int part_of(int rank) const noexcept { return part_of_[at(rank)]; }
    int part_of(const stage_call& c, int member) const noexcept { return part_of(c.group->members()[at(member)]); }
    const mailbox& mailbox_of(const stage_call& c, int member) const noexcept {
        return memory_.mailbox_of(part_of(c, member), c.lane_slot);
    }
    // Return locations of a member's memory. A rank does not read its own mailbox, since peers that poll keep taking
    // the cache line away.
    location given_by(const running_stage& s, int member) const noexcept {
        return member == s.call->group->position() ? s.given : mailbox_of(*s.call, member).given;
    }
    location result_of(const running_stage& s, int member) const noexcept {
        return member == s.call->group->position() ? s.result : mailbox_of(*s.call, member).result;
    }
    // Returns the location where peers read a member's reduced data: stage_memory::exposed.
    location exposed_by(const running_stage& s, int member) const noexcept {
        const location result = result_of(s, member);
        return result != node_memory::nowhere ? result : given_by(s, member);
    }
    std::byte* address(const stage_call& c, int member, location l) const noexcept {
        return memory_.address(part_of(c, member), l);
    }

    std::vector<int> part_of_;  // by rank
    int part_;                  // this rank's
    node_memory memory_;
    bool sleeps_;
    std::vector<running_stage> running_;
    std::vector<slot_readers> readers_;     // by lane slot
    std::vector<std::uint64_t> completed_;  // number up to which a rank has completed all calls, by part
    std::vector<const void*> inputs_;       // sources of the current reduction
};

}  // namespace terrace::detail
