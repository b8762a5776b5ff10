#pragma once

#include <sched.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/reduce.hpp"
#include "schedule/lower.hpp"

namespace terrace {

/// What a library below reported.
struct transport_fault {
    std::string library, call;
    int code = 0;
    std::string message;
};

/// A stage that a transport runs by itself. Addresses are of element 0 of the vector in the operand's buffer; src is
/// memory that peers reach.
struct stage_call {
    action what = action::stage_allreduce;
    const stage_group* group = nullptr;
    const std::byte* src = nullptr;  ///< what this rank gives
    const std::byte* own = nullptr;  ///< what it gives to itself
    std::byte* dst = nullptr;        ///< what it gets
    bool sharded = false;            ///< each rank reduces its own shard
    std::size_t element = 0;         ///< bytes of one
    reduce_kernel reduce = nullptr;
    int divisor = 1;
    bool last = false;          ///< of the chunk's stages, and nothing that follows writes src
    bool streams = false;       ///< the call's buffers do not fit the cache: what is written is not read soon
    int channel = 0;            ///< instr::channel
    int lane_slot = 0;          ///< of the lane it runs in
    std::uint64_t turn = 0;     ///< chunks that ran in the slot before this one: equal on all ranks
    std::uint64_t number = 0;   ///< of the call it belongs to: equal on all ranks
    std::uint64_t through = 0;  ///< calls up to this number are complete on this rank
    // Instead of a kernel, where the transport brings its own.
    element_type type = element_type::float32;
    reduce_op op = reduce_op::sum;
};

/// Memory that each of some ranks has a part of and all can reach. Copies share it.
struct shared_region {
    std::size_t bytes = 0;          ///< of one part
    std::vector<std::byte*> parts;  ///< by position among the ranks, as this process sees them; on cache lines, zeroed
    std::shared_ptr<void> keep;     ///< parts are valid as long as this
};

/// A few words from one rank to another, beside all messages and whether or not the receiver expects them.
struct note {
    int from = 0;
    std::array<std::uint64_t, 5> words{};
};

/// What the executor asks of a network, or of whatever stands in for one. One per communicator, used by one thread at a
/// time. Ranks are the plan's: 0 ... size - 1 in the order of the hierarchy. Messages between two ranks with one tag
/// arrive in the order sent. Nothing on the data path throws: the first failure is latched.
class transport {
public:
    virtual ~transport() = default;

    virtual int rank() const noexcept = 0;
    virtual int size() const noexcept = 0;
    virtual std::string_view name() const noexcept = 0;
    virtual const capabilities& can() const noexcept {
        static const capabilities none;
        return none;
    }
    /// Whether messages may lie in memory of a GPU.
    virtual bool takes_device_memory() const noexcept { return false; }
    /// Messages longer than this [bytes] are cut into pieces of about equal length, since they would travel slower.
    virtual std::size_t segment() const noexcept = 0;

    /// Makes room for requests in slots 0 ... count - 1 in all. Set-up.
    virtual void reserve(int slots) = 0;
    /// Starts a message in a free slot. The memory must stay as it is until the slot is reported done.
    virtual void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept = 0;
    virtual void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept = 0;
    /// Set-up: lets the library below run stages of these groups (each a list of ranks) in `slots` lane slots, if it
    /// has such stages: can() tells afterwards. Collective over all ranks, each with the same groups in the same order.
    /// @throws transport_error
    virtual void prepare_library(std::span<const std::vector<int>> /*groups*/, int /*slots*/) {}
    /// Starts a stage in a free slot: one that can() runs, with memory that all members can reach, unless the library
    /// runs it. Of one lane slot, one at a time, in the order of turns and channels. The call must stay as it is until
    /// the slot is reported done.
    virtual void stage(int /*slot*/, const stage_call&) noexcept {}
    /// The ranks that the stage in a slot waits for.
    virtual std::vector<int> missing(int /*slot*/) const { return {}; }
    /// Set-up: memory for buffers of `bytes` > 0 bytes, zeroed, on a cache line; reachable for peers where memory can
    /// be shared. It may outlive the transport. Collective. @throws std::bad_alloc
    virtual std::shared_ptr<std::byte> allocate(std::size_t bytes);
    /// Whether all of it lies in memory of allocate() that peers reach.
    virtual bool reachable(const void* /*memory*/, std::size_t /*bytes*/) const noexcept { return false; }
    /// The memory of a lane slot for a vector of `bytes`, which peers reach; null if there are no slots.
    virtual std::byte* lane_memory(int /*lane_slot*/, std::size_t /*bytes*/) noexcept { return nullptr; }
    /// Whether it may be written: a last stage that gives from there completes before its peers have read that.
    virtual bool lane_ready(int /*lane_slot*/) noexcept { return true; }
    /// The ranks that have not read it yet.
    virtual std::vector<int> lane_readers(int /*lane_slot*/) const { return {}; }

    /// Moves messages along and returns the slots that have completed, at most once each; valid until the next call.
    virtual std::span<const int> poll() noexcept = 0;
    /// Messages that have been started and have not been reported done.
    virtual std::size_t in_flight() const noexcept = 0;
    /// How often to poll in vain before idle().
    virtual int patience() const noexcept { return 16; }
    /// Moves along what the library below has taken and not sent yet, where no poll() does.
    virtual void look() noexcept {}
    /// That, and gives the core away: ranks may outnumber cores. Returns soon.
    virtual void idle() noexcept {
        look();
        sched_yield();
    }
    /// After a failure: gives up what is in flight, and lets no message of it meet a later transport. False if the
    /// network may still read or write memory of it: that must stay for ever.
    virtual bool abandon() noexcept { return true; }
    /// The first failure, if any. After it nothing is guaranteed to complete.
    virtual const std::optional<transport_fault>& fault() const noexcept = 0;

    /// Sends a note. Buffered: it completes whatever the receiver does.
    virtual void send_note(int peer, const note& n) noexcept = 0;
    /// The next note that has arrived, if any; those of one rank in the order sent.
    virtual std::optional<note> take_note() noexcept = 0;

    /// Set-up: everybody's `bytes` bytes at `mine`, by rank, to `all`. Collective. @throws transport_error
    virtual void gather_all(const void* mine, void* all, std::size_t bytes) = 0;
    /// Set-up: a transport of the ranks that give the same color, in the order of their keys (those of equal keys as
    /// they are), that may outlive this one; null where the color is negative. Collective over all ranks.
    /// @throws transport_error
    virtual std::unique_ptr<transport> split(int color, int key) = 0;
    /// Set-up: by rank, the lowest rank on the same machine node.
    virtual std::vector<int> nodes() = 0;
    /// Set-up: memory for `ranks`, the same list on all of them, the caller's rank among them; `bytes` for each, the
    /// same everywhere. Collective over all ranks, each with the list it is in. Nothing where memory cannot be shared.
    virtual std::optional<shared_region> share(std::span<const int> ranks, std::size_t bytes) = 0;
};

/// Tells who waits when to give its core away.
class waiter {
public:
    explicit waiter(const transport& net) : net_(net) {}
    /// After a look around, which has `moved` something or not.
    bool tires(bool moved) noexcept { return (in_vain_ = moved ? 0 : in_vain_ + 1) > net_.patience(); }

private:
    const transport& net_;
    int in_vain_ = 0;
};

/// @throws transport_error what the transport reports, if it has failed
void check_fault(const transport& net);

}  // namespace terrace
