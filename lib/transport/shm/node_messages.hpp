#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "transport/messages.hpp"
#include "transport/shared_region.hpp"
#include "transport/shm/node_peers.hpp"
#include "transport/shm/record_ring.hpp"

namespace terrace::detail {

/// Messages between ranks of a node through memory that they share. All other messages go through a network.
///
/// Each rank has one part of the memory: a flag that it has withdrawn, marks of its offers that peers have taken, and a
/// ring for each peer that writes to it. A short message lies in the ring. A longer one is an *offer* there: the
/// receiver copies the message from the sender's memory (process_vm_readv), and then marks the offer as taken. If ranks
/// may not read each other's memory, longer messages go through the network. Messages then have the length of the
/// receiver's buffer (network_traits::takes_shorter is false), so both ends choose the same way, and messages of one
/// tag keep their order.
class node_messages final : public messages {
public:
    /// Values on which the ranks of a node agree.
    struct node {
        node_peers peers;
        shared_region memory;      ///< part_bytes() for each rank, by position
        std::size_t capacity = 0;  ///< capacity of a ring [bytes]
        std::vector<pid_t> pids;   ///< by position, if ranks may read each other's memory; else empty
        bool all_read = false;     ///< true if ranks may do so on every node of the team
    };

    /// @param network for all other messages   @param rank number in the team   @param slots as for the network
    node_messages(std::unique_ptr<messages> network, int rank, node on, int slots);
    ~node_messages() override;

    /// Returns the capacity of each ring for `ranks` ranks on a node: in all a few hundred KiB for each rank.
    static std::size_t ring_capacity(int ranks) noexcept;
    /// Returns the bytes of a rank's part of the memory.
    static std::size_t part_bytes(int ranks, int slots) noexcept {
        return rings_at(slots) + at(ranks) * record_ring::bytes_for(ring_capacity(ranks));
    }
    /// Returns the length of the longest message that lies in a ring [bytes].
    static std::size_t short_bytes(std::size_t capacity) noexcept;

    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept override;
    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept override;
    std::span<const int> poll() noexcept override;
    void send_control(int peer, const control_message& m) noexcept override;
    std::optional<control_message> take_control() noexcept override;
    bool abandon() noexcept override;
    void look() noexcept override {
        progress();
        network_->look();
        adopt_fault();
    }
    bool settled() noexcept override {
        progress();
        return fault() || (nothing_waits() && network_->settled());
    }

private:
    enum kind : std::uint32_t { message, offer, control_record };

    struct receive {
        int slot, tag;
        void* to;
        std::size_t bytes;
    };
    // A message that arrived before its receive was posted.
    struct early_message {
        record_ring::header head;
        std::vector<std::byte> stored;
    };
    // A record that found no room in its ring: a message still in the caller's memory, or a few words.
    struct waiting_record {
        record_ring::header head;
        const void* from;  // null: the record is in `words`
        std::array<std::uint64_t, 5> words;
    };
    // Begin of a part.
    struct alignas(cache_line) part_head {
        std::atomic<std::uint32_t> withdrawn;  // 1: the rank has given up its messages; offers may no longer be read
    };
    struct link {
        int rank = 0, position = 0;
        record_ring in, out;
        std::vector<receive> expected;       // receives, in the order posted
        std::deque<early_message> early;     // in the order sent
        std::deque<waiting_record> waiting;  // in the order sent
    };

    link* link_to(int peer) noexcept {
        const int position = on_.peers.position[at(peer)];
        if (position < 0 || peer == rank_) return nullptr;
        return &links_[at(position - (position > on_.peers.position[at(rank_)]))];
    }
    link* way_of(int peer, std::size_t bytes) noexcept;
    void put(link& to, const record_ring::header& h, const void* from) noexcept;
    bool written(link& to, const waiting_record& r) noexcept {
        if (!to.out.write(r.head, r.from != nullptr ? r.from : r.words.data())) return false;
        if (r.head.kind == message) done_.push_back(r.head.slot);
        return true;
    }
    bool progress() noexcept;
    void arrived(link& from, const record_ring::header& h, const std::byte* stored) noexcept;
    void take(link& from, const receive& by, const record_ring::header& h, const std::byte* stored) noexcept;
    bool pull(const link& from, void* to, std::byte* address, std::size_t bytes) noexcept;
    bool nothing_waits() const noexcept;
    void adopt_fault() noexcept;

    static std::size_t rings_at(int slots) noexcept { return sizeof(part_head) + round_up(at(slots), cache_line); }
    part_head& head_of(int position) const noexcept {
        return *reinterpret_cast<part_head*>(on_.memory.parts[at(position)]);
    }
    std::atomic<std::uint8_t>& taken(int position, int slot) const noexcept {
        return reinterpret_cast<std::atomic<std::uint8_t>*>(on_.memory.parts[at(position)] + sizeof(part_head))[slot];
    }
    record_ring ring(int from, int to) const noexcept {
        std::byte* rings = on_.memory.parts[at(to)] + rings_at(slots_);
        return {rings + at(from) * record_ring::bytes_for(on_.capacity), on_.capacity};
    }

    const std::unique_ptr<messages> network_;
    const int rank_, slots_;
    const node on_;
    std::vector<link> links_;           // to the other ranks of the node
    std::vector<int> offered_;          // slots of sends that peers will read
    std::vector<int> done_, reported_;  // slots of complete messages
    std::deque<control_message> control_;
    std::size_t over_network_ = 0;  // messages in flight in the network
};

}  // namespace terrace::detail
