#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/dice.hpp"
#include "support/gpu_stand_in.hpp"

// Parts of the stand-in: streams, events, memory, communicators. All of it is guarded by state::guard.

namespace terrace::detail::test {

enum class network_kind { all_reduce, reduce_scatter, all_gather, reduce, broadcast, group };

struct comm_state;

struct message {
    int peer = 0;
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t bytes = 0;
};

// One NCCL operation of one rank.
struct network_op {
    network_kind what = network_kind::group;
    comm_state* comm = nullptr;
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t count = 0;  // elements; bytes in all_gather and broadcast
    element_type type = element_type::uint8;
    reduce_op op = reduce_op::sum;
    int root = 0;
    std::vector<message> sends, recvs;

    std::uint64_t ticket = 0;  // number in the device's order of issue
    std::uint64_t number = 0;  // number in the communicator's order of issue
    bool started = false, done = false;
    std::size_t left = 0;  // messages that are not complete

    std::string signature() const;
};

struct event_state {
    std::uint64_t recorded = 0, done = 0;
    gpu_stand_in::graph* captured = nullptr;
    std::map<void*, std::size_t> clock;  // by captured stream: work before the event
    std::chrono::steady_clock::time_point reached{};
    bool dropped = false;
};

struct stream_op {
    enum class kind { work, record, wait, wait_value, network } what = kind::work;
    std::function<void()> work = nullptr;
    std::shared_ptr<event_state> event = nullptr;
    std::uint64_t generation = 0;
    std::shared_ptr<network_op> network = nullptr;
    std::uint32_t* value = nullptr;
    std::uint32_t least = 0;
};

struct stream_state {
    int device = 0;
    std::deque<stream_op> queue;
    gpu_stand_in::graph* capturing = nullptr;
    bool dropped = false;
};

// The ranks of one communicator.
struct clique {
    std::vector<comm_state*> members;
    std::map<std::uint64_t, std::vector<std::shared_ptr<network_op>>> collectives;  // by number
    struct posted {
        message what;
        std::shared_ptr<network_op> of;
    };
    std::map<std::pair<int, int>, std::deque<posted>> sends, recvs;  // by sender and receiver
    struct split {
        comm_state* child;
        comm_state** place;  // where the new handle is written
        int color, key;
    };
    std::map<int, split> splits;  // by rank
};

struct comm_state {
    std::shared_ptr<clique> all;
    int rank = 0, device = 0;
    bool ready = false, aborted = false, ends = false, dropped = false, finalizing = false;
    int error = 0;
    int busy = 0;  // status calls that still return "in progress"
    bool splitting = false;
    int grouped = 0;  // messages in open groups
    int graphs = 0;   // operations in graphs
    std::uint64_t issued = 0, completed = 0, collectives = 0;
};

struct device_state {
    std::uint64_t issued = 0, launched = 0;  // tickets
    int running = 0;                         // operations
};

struct gpu_stand_in::graph {
    struct entry {
        stream_state* stream;
        stream_op op;
    };
    graph() = default;
    graph(const graph&) = delete;
    graph& operator=(const graph&) = delete;
    ~graph();

    stream_state* origin = nullptr;
    std::vector<entry> entries;
    std::map<void*, std::map<void*, std::size_t>> clocks;  // by stream: work before its end, by stream
    std::map<void*, std::size_t> lengths;                  // captured operations by stream
};

struct gpu_stand_in::state {
    explicit state(const setting& s) : how(s), order(s.seed), devices(static_cast<std::size_t>(s.devices)) {
        worker = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }

    setting how;
    mutable std::mutex guard;
    std::condition_variable_any changed;
    dice order;
    std::vector<device_state> devices;
    std::vector<std::unique_ptr<stream_state>> streams;
    std::vector<std::shared_ptr<event_state>> events;
    std::vector<std::unique_ptr<comm_state>> comms;
    std::map<std::uint64_t, std::shared_ptr<clique>> by_id;
    std::map<const std::byte*, std::pair<std::size_t, int>> memory;  // bytes and device, by begin
    std::uint64_t ids = 0;
    std::vector<std::string> broken;
    std::map<std::string, int> called;
    struct injection {
        std::string function;
        int left, code;
    };
    std::vector<injection> injections;
    std::set<gpu_stream> own;
    std::set<const graph*> captures;  // in progress
    std::atomic<int> blocked{0};      // calls that wait
    std::atomic<bool> over{false};    // waiting calls must return
    std::jthread worker;              // last member, since it uses the others

    // -- gpu_stand_in_state.cpp

    /// Records `text` as a broken rule unless `holds`.
    void rule(bool holds, const std::string& text);
    /// Counts a call. Returns the code with which a test wants the call to fail, or 0.
    int entering(const char* function);
    /// Returns the device whose memory contains the address; -1 if there is none.
    int device_of(const void* at) const;
    /// Records a broken rule unless all bytes are memory of the device.
    void check_memory(int device, const void* at, std::size_t bytes, const char* what);
    /// Waits until `holds()`, which is called with the lock held. After 10 s records `what` as a broken rule.
    void block_until(const std::function<bool()>& holds, const std::string& what);
    /// Records a broken rule if a stream of the current device captures and this thread's capture mode is not relaxed.
    void expect_no_capture(const char* what);

    stream_state* stream_of(gpu_stream s) const { return reinterpret_cast<stream_state*>(s); }
    std::shared_ptr<event_state> event_of(gpu_event e);
    /// Appends the operation to the stream, or to the graph that the stream captures.
    void put(stream_state* s, stream_op op);
    /// Appends the operation to the stream. An NCCL operation gets its numbers here.
    void enter(stream_state* s, stream_op op);
    /// Runs streams in a random order until it is stopped. Called by the worker.
    void run(const std::stop_token& stop);
    /// Runs the stream's first operation. Returns true if it is complete.
    bool step(stream_state& s);

    // -- gpu_stand_in_nccl.cpp

    /// Returns true if the communicator is alive. Records a broken rule if it is not, or is not settled.
    bool usable(comm_state* c, const char* what);
    /// Keeps the communicator in progress for up to two calls of status.
    void settle_later(comm_state* c) { c->busy = static_cast<int>(order.below(3)); }
    /// Returns true if the operation is complete.
    bool run_network(stream_state& s, const std::shared_ptr<network_op>& op);
    /// Posts a rank's operation, and performs operations that all ranks have posted.
    void post(const std::shared_ptr<network_op>& op);
    /// Copies messages whose send and receive are both posted.
    void match(clique& all, std::pair<int, int> way);
    /// This function and the next ones return NCCL's codes.
    int issue(gpu_stream stream, const std::shared_ptr<network_op>& op, const char* what);
    int add_message(comm_state* c, gpu_stream stream, const message& m, bool sends);
    void begin_group();
    int end_group(int failure);
    // An abort marks a communicator. At the end of the group, or of the call outside a group, end_aborted ends the
    // marked communicators and waits, without the lock.
    void mark_aborted(comm_state* c);
    void end_aborted();
    void withdraw(comm_state* c);
    comm_state* new_comm(int device);
    void split_if_all_are_here(clique& all);
};

inline thread_local int current_device = 0;
inline thread_local int capture_mode_here = 0;

/// The existing stand-in; null without one.
inline gpu_stand_in::state* machine = nullptr;
inline std::unique_lock<std::mutex> lock_machine() { return std::unique_lock(machine->guard); }

/// Begins a function of the table: locks, and returns the code if a test wants the call to fail.
#define TERRACE_ENTER(function)       \
    auto& m = *machine;               \
    const auto held = lock_machine(); \
    if (const int injected = m.entering(function); injected != 0) return injected

/// These set the table's functions of CUDA, or of NCCL and the kernels.
void add_cuda_calls(gpu_runtime& table);
void add_nccl_calls(gpu_runtime& table);

}  // namespace terrace::detail::test
