#include "support/gpu_stand_in.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "kernels/reduce.hpp"
#include "support/dice.hpp"

namespace terrace::detail::test {

namespace {

enum class kind { all_reduce, reduce_scatter, all_gather, reduce, broadcast, group };

constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast", "group"};

struct comm_state;

struct message {
    int peer = 0;
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t bytes = 0;
};

// One NCCL operation of one rank.
struct network_op {
    kind what = kind::group;
    comm_state* comm = nullptr;
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t count = 0;  // elements; of all_gather and broadcast bytes
    element_type type = element_type::uint8;
    reduce_op op = reduce_op::sum;
    int root = 0;
    std::vector<message> sends, recvs;

    std::uint64_t ticket = 0;  // of the device, in the order of issue
    std::uint64_t number = 0;  // of the communicator, likewise
    bool started = false, done = false;
    std::size_t left = 0;  // messages

    std::string signature() const {
        return fmt::format("{} of {} {}, {}, root {}", names[static_cast<int>(what)], count, to_string(type),
                           to_string(op), root);
    }
};

struct event_state {
    std::uint64_t recorded = 0, done = 0;
    gpu_stand_in::graph* captured = nullptr;
    std::map<void*, std::size_t> clock;  // of the captured streams it comes after
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
        int color, key;
    };
    std::map<int, split> splits;  // by rank
};

struct comm_state {
    std::shared_ptr<clique> all;
    int rank = 0, device = 0;
    bool ready = false, aborted = false, dropped = false, finalizing = false;
    int error = 0;
    int busy = 0;  // times that it says it is in progress
    bool splitting = false;
    std::uint64_t issued = 0, completed = 0, collectives = 0;
};

struct device_state {
    std::uint64_t issued = 0, running = 0;  // tickets
};

thread_local int current_device = 0;
thread_local int capture_mode_here = 0;
thread_local int group_depth = 0;
struct grouped {
    comm_state* comm;
    stream_state* stream;
    std::shared_ptr<network_op> op;
};
thread_local std::vector<grouped> group_ops;

std::vector<std::byte> sum_of(const std::vector<std::shared_ptr<network_op>>& all) {
    const network_op& first = *all.front();
    std::vector<std::byte> result(first.count * size_of(first.type) *
                                  (first.what == kind::reduce_scatter ? all.size() : 1));
    std::vector<const void*> inputs;
    for (const auto& op : all) inputs.push_back(op->from);
    const auto count = static_cast<std::int64_t>(result.size() / size_of(first.type));
    find_reduce(first.type, first.op)(result.data(), inputs.data(), static_cast<int>(inputs.size()), count, 1);
    return result;
}

}  // namespace

struct gpu_stand_in::graph {
    struct entry {
        stream_state* stream;
        stream_op op;
    };
    stream_state* origin = nullptr;
    std::vector<entry> entries;
    std::map<void*, std::map<void*, std::size_t>> clocks;  // by stream: what it comes after
    std::map<void*, std::size_t> lengths;                  // by stream
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
    std::map<std::uint64_t, std::size_t> expected;                   // ranks, by id
    std::map<const std::byte*, std::pair<std::size_t, int>> memory;  // begin: bytes and device
    std::uint64_t ids = 0;
    std::vector<std::string> broken;
    std::map<std::string, int> called;
    struct injection {
        std::string function;
        int left, code;
    };
    std::vector<injection> injections;
    std::set<gpu_stream> own;
    std::set<const graph*> captures;  // under way
    std::jthread worker;              // last

    // -- rules

    void rule(bool holds, const std::string& text) {
        if (!holds && broken.size() < 20) broken.push_back(text);
    }

    int entering(const char* function) {
        ++called[function];
        for (auto i = injections.begin(); i != injections.end(); ++i) {
            if (i->function != function || --i->left > 0) continue;
            const int code = i->code;
            injections.erase(i);
            return code;
        }
        return 0;
    }

    int device_of(const void* at) const {
        if (how.any_memory) return current_device;
        const auto* p = static_cast<const std::byte*>(at);
        auto after = memory.upper_bound(p);
        if (after == memory.begin()) return -1;
        const auto& [begin, what] = *std::prev(after);
        return p < begin + what.first ? what.second : -1;
    }

    void check_memory(int device, const void* at, std::size_t bytes, const char* what) {
        if (how.any_memory || bytes == 0) return;
        const auto* p = static_cast<const std::byte*>(at);
        auto after = memory.upper_bound(p);
        const bool inside = after != memory.begin() && std::prev(after)->second.second == device &&
                            p + bytes <= std::prev(after)->first + std::prev(after)->second.first;
        rule(inside, fmt::format("{}: {} bytes that are not all memory of device {}", what, bytes, device));
    }

    // By the process of the device, that is.
    void expect_no_capture(const char* what) {
        for (const auto& s : streams)
            rule(capture_mode_here == gpu_runtime::relaxed || s->device != current_device || s->capturing == nullptr,
                 fmt::format("{} during a capture", what));
    }

    bool usable(comm_state* c, const char* what) {
        const bool alive = c != nullptr && !c->aborted && !c->dropped;
        rule(alive, fmt::format("{} on a communicator that is gone", what));
        if (!alive) return false;
        rule(c->ready && c->busy == 0 && !c->splitting, fmt::format("{} on a communicator that is not settled", what));
        return true;
    }

    void settle_later(comm_state* c) { c->busy = static_cast<int>(order.below(3)); }

    // -- streams

    stream_state* stream_of(gpu_stream s) { return reinterpret_cast<stream_state*>(s); }
    std::shared_ptr<event_state> event_of(gpu_event e) {
        for (const auto& each : events)
            if (each.get() == reinterpret_cast<event_state*>(e)) return each;
        rule(false, "an event that is none");
        return events.front();
    }

    void put(stream_state* s, stream_op op) {
        if (s->capturing != nullptr) {
            s->capturing->entries.push_back({s, std::move(op)});
            s->capturing->clocks[s][s] = ++s->capturing->lengths[s];
        } else {
            enter(s, std::move(op));
        }
    }

    // For real: NCCL operations get their numbers now.
    void enter(stream_state* s, stream_op op) {
        if (op.network) {
            network_op& n = *op.network;
            n.ticket = devices[static_cast<std::size_t>(s->device)].issued++;
            n.number = n.comm->issued++;
        }
        s->queue.push_back(std::move(op));
        changed.notify_all();
    }

    void run(const std::stop_token& stop) {
        std::unique_lock lock(guard);
        while (!stop.stop_requested()) {
            bool moved = false;
            if (!streams.empty()) {
                const std::size_t from = order.below(streams.size());
                for (std::size_t i = 0; i < streams.size(); ++i) {
                    stream_state& s = *streams[(from + i) % streams.size()];
                    for (int n = 0; n < 4 && !s.queue.empty() && step(s); ++n) moved = true;
                }
            }
            if (moved) {
                lock.unlock();  // others may want to look
                lock.lock();
            } else {
                changed.wait_for(lock, stop, std::chrono::milliseconds(1), [] { return false; });
            }
        }
    }

    // True if the stream's first operation is through.
    bool step(stream_state& s) {
        stream_op& op = s.queue.front();
        switch (op.what) {
            case stream_op::kind::work: op.work(); break;
            case stream_op::kind::record:
                op.event->done = std::max(op.event->done, op.generation);
                op.event->reached = std::chrono::steady_clock::now();
                break;
            case stream_op::kind::wait:
                if (op.event->done < op.generation) return false;
                break;
            case stream_op::kind::wait_value:
                if (static_cast<std::int32_t>(std::atomic_ref(*op.value).load(std::memory_order_acquire) - op.least) <
                    0)
                    return false;
                break;
            case stream_op::kind::network:
                if (!run_network(s, op.network)) return false;
                break;
        }
        s.queue.pop_front();
        return true;
    }

    // -- NCCL

    bool run_network(stream_state& s, const std::shared_ptr<network_op>& op) {
        device_state& d = devices[static_cast<std::size_t>(s.device)];
        comm_state& c = *op->comm;
        rule(c.aborted || c.completed == op->number,
             "an operation whose stream does not wait for the one before it on its communicator");
        if (op->ticket != d.running) return false;  // one at a time, in the order of issue
        if (!op->started && !c.aborted) {
            op->started = true;
            post(op);
        }
        if (!op->done && !c.aborted) return false;
        ++d.running;
        ++c.completed;
        return true;
    }

    void post(const std::shared_ptr<network_op>& op) {
        clique& all = *op->comm->all;
        const int me = op->comm->rank;
        if (op->what == kind::group) {
            op->left = op->sends.size() + op->recvs.size();
            for (const message& m : op->sends) all.sends[{me, m.peer}].push_back({m, op});
            for (const message& m : op->recvs) all.recvs[{m.peer, me}].push_back({m, op});
            for (const message& m : op->sends) match(all, {me, m.peer});
            for (const message& m : op->recvs) match(all, {m.peer, me});
            return;
        }
        auto& arrived = all.collectives[op->comm->collectives++];
        arrived.push_back(op);
        if (arrived.size() < all.members.size()) return;
        std::sort(arrived.begin(), arrived.end(),
                  [](const auto& a, const auto& b) { return a->comm->rank < b->comm->rank; });
        for (const auto& each : arrived)
            rule(each->signature() == op->signature(),
                 fmt::format("ranks differ: {} and {}", each->signature(), op->signature()));
        perform(arrived);
        for (const auto& each : arrived) each->done = true;
        arrived.clear();
    }

    void match(clique& all, std::pair<int, int> way) {
        auto &sends = all.sends[way], &recvs = all.recvs[way];
        while (!sends.empty() && !recvs.empty()) {
            auto &from = sends.front(), &to = recvs.front();
            rule(from.what.bytes == to.what.bytes,
                 fmt::format("a message of {} bytes where {} are expected", from.what.bytes, to.what.bytes));
            std::memcpy(to.what.to, from.what.from, std::min(from.what.bytes, to.what.bytes));
            for (const auto& op : {from.of, to.of}) op->done = --op->left == 0;
            sends.pop_front();
            recvs.pop_front();
        }
    }

    static void perform(const std::vector<std::shared_ptr<network_op>>& all) {
        const network_op& first = *all.front();
        const auto n = all.size();
        const auto give = [](void* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); };
        if (first.what == kind::all_gather || first.what == kind::broadcast) {
            std::vector<std::byte> whole;
            for (const auto& op : all)
                if (first.what == kind::all_gather || op->comm->rank == first.root)
                    whole.insert(whole.end(), static_cast<const std::byte*>(op->from),
                                 static_cast<const std::byte*>(op->from) + op->count);
            for (const auto& op : all) give(op->to, whole.data(), whole.size());
            return;
        }
        const std::vector<std::byte> sum = sum_of(all);
        for (std::size_t r = 0; r < n; ++r) {
            const std::size_t part = sum.size() / n;
            if (first.what == kind::reduce_scatter) give(all[r]->to, sum.data() + r * part, part);
            else if (first.what == kind::all_reduce || static_cast<int>(r) == first.root)
                give(all[r]->to, sum.data(), sum.size());
        }
    }

    int issue(gpu_stream stream, const std::shared_ptr<network_op>& op, const char* what) {
        if (!usable(op->comm, what)) return 5;
        stream_state* s = stream_of(stream);
        const std::size_t ranks = op->comm->all->members.size();
        const std::size_t bytes = op->count * size_of(op->type);
        const bool gives = op->what != kind::broadcast || op->comm->rank == op->root;
        const bool gets = op->what != kind::reduce || op->comm->rank == op->root;
        if (op->what != kind::group) {
            if (gives) check_memory(s->device, op->from, bytes * (op->what == kind::reduce_scatter ? ranks : 1), what);
            if (gets) check_memory(s->device, op->to, bytes * (op->what == kind::all_gather ? ranks : 1), what);
        }
        rule(group_depth == 0, fmt::format("{} in a group", what));
        put(s, {stream_op::kind::network, nullptr, nullptr, 0, op});
        settle_later(op->comm);
        return op->comm->busy > 0 ? gpu_runtime::in_progress : 0;
    }

    int add_message(comm_state* c, gpu_stream stream, const message& m, bool sends) {
        if (!usable(c, sends ? "ncclSend" : "ncclRecv")) return 5;
        stream_state* s = stream_of(stream);
        rule(group_depth > 0, "a message outside of any group");
        rule(m.peer >= 0 && m.peer < static_cast<int>(c->all->members.size()), "a message to nobody");
        check_memory(s->device, sends ? m.from : m.to, m.bytes, sends ? "ncclSend" : "ncclRecv");
        auto found = std::find_if(group_ops.begin(), group_ops.end(), [&](const grouped& g) { return g.comm == c; });
        if (found == group_ops.end()) {
            auto op = std::make_shared<network_op>();
            op->comm = c;
            found = group_ops.insert(group_ops.end(), {c, s, op});
        }
        rule(found->stream == s, "a group with two streams");
        (sends ? found->op->sends : found->op->recvs).push_back(m);
        return 0;
    }

    int end_group() {
        if (--group_depth > 0) return 0;
        int code = 0;
        for (const grouped& g : group_ops) {
            put(g.stream, {stream_op::kind::network, nullptr, nullptr, 0, g.op});
            settle_later(g.comm);
            if (g.comm->busy > 0) code = gpu_runtime::in_progress;
        }
        group_ops.clear();
        return code;
    }

    comm_state* new_comm(int device) {
        comms.push_back(std::make_unique<comm_state>());
        comms.back()->device = device;
        return comms.back().get();
    }

    void split_if_all_are_here(clique& all) {
        if (all.splits.size() < all.members.size()) return;
        std::map<int, std::vector<std::pair<std::pair<int, int>, comm_state*>>> parts;
        for (const auto& [rank, s] : all.splits)
            if (s.color >= 0) parts[s.color].push_back({{s.key, rank}, s.child});
        for (auto& [color, members] : parts) {
            std::sort(members.begin(), members.end());
            auto made = std::make_shared<clique>();
            for (const auto& [key, child] : members) {
                child->rank = static_cast<int>(made->members.size());
                child->all = made;
                child->ready = true;
                made->members.push_back(child);
            }
        }
        all.splits.clear();
        for (comm_state* c : all.members) c->splitting = false;
    }
};

namespace {

gpu_stand_in::state* machine = nullptr;

comm_state* comm_of(nccl_comm c) { return reinterpret_cast<comm_state*>(c); }
std::unique_lock<std::mutex> lock() { return std::unique_lock(machine->guard); }

#define ENTER(function)       \
    auto& m = *machine;       \
    const auto held = lock(); \
    if (const int injected = m.entering(function); injected != 0) return injected

// A table of the real signatures.

int device_count(int* count) {
    ENTER("cudaGetDeviceCount");
    *count = m.how.devices;
    return 0;
}

int use_device(int device) {
    ENTER("cudaSetDevice");
    current_device = device;
    return 0;
}

int device_of(const void* memory, int* device) {
    ENTER("cudaPointerGetAttributes");
    *device = m.device_of(memory);
    return 0;
}

int allocate(void** memory, std::size_t bytes) {
    ENTER("cudaMalloc");
    m.expect_no_capture("cudaMalloc");
    *memory = std::malloc(bytes);
    std::memset(*memory, 0xa5, bytes);
    m.memory[static_cast<std::byte*>(*memory)] = {bytes, current_device};
    return 0;
}

// Waits for the device, as the real one does.
int release(void* memory) {
    const auto is_idle = [&] {
        const auto held = lock();
        const int device = machine->how.any_memory ? -1 : machine->device_of(memory);
        return std::all_of(machine->streams.begin(), machine->streams.end(),
                           [&](const auto& s) { return s->device != device || s->queue.empty(); });
    };
    while (!is_idle()) std::this_thread::yield();
    ENTER("cudaFree");
    m.rule(m.memory.erase(static_cast<std::byte*>(memory)) == 1, "cudaFree of what is not there");
    std::free(memory);
    return 0;
}

int make_stream(gpu_stream* stream) {
    ENTER("cudaStreamCreateWithFlags");
    m.streams.push_back(std::make_unique<stream_state>());
    m.streams.back()->device = current_device;
    *stream = reinterpret_cast<gpu_stream>(m.streams.back().get());
    return 0;
}

int drop_stream(gpu_stream stream) {
    ENTER("cudaStreamDestroy");
    m.rule(!m.stream_of(stream)->dropped, "a stream dropped twice");
    m.stream_of(stream)->dropped = true;
    return 0;
}

int stream_done(gpu_stream stream, bool* done) {
    ENTER("cudaStreamQuery");
    *done = m.stream_of(stream)->queue.empty();
    return 0;
}

int stream_captured(gpu_stream stream, bool* captured) {
    ENTER("cudaStreamIsCapturing");
    *captured = m.stream_of(stream)->capturing != nullptr;
    return 0;
}

int make_event(gpu_event* event) {
    ENTER("cudaEventCreateWithFlags");
    m.events.push_back(std::make_shared<event_state>());
    *event = reinterpret_cast<gpu_event>(m.events.back().get());
    return 0;
}

int drop_event(gpu_event event) {
    ENTER("cudaEventDestroy");
    const auto e = m.event_of(event);
    m.rule(!e->dropped, "an event dropped twice");
    e->dropped = true;
    return 0;
}

int record(gpu_event event, gpu_stream stream) {
    ENTER("cudaEventRecord");
    stream_state* s = m.stream_of(stream);
    const auto e = m.event_of(event);
    m.rule(!e->dropped && !s->dropped, "cudaEventRecord of what is gone");
    ++e->recorded;
    e->captured = s->capturing;
    m.put(s, {stream_op::kind::record, nullptr, e, e->recorded, nullptr});
    if (s->capturing != nullptr) e->clock = s->capturing->clocks[s];
    return 0;
}

int wait(gpu_stream stream, gpu_event event) {
    ENTER("cudaStreamWaitEvent");
    stream_state* s = m.stream_of(stream);
    const auto e = m.event_of(event);
    m.rule(!e->dropped && !s->dropped, "cudaStreamWaitEvent of what is gone");
    if (e->captured != nullptr && s->capturing == nullptr && m.captures.contains(e->captured))
        s->capturing = e->captured;
    m.rule(e->captured == s->capturing, "a capture that depends on what is not captured");
    if (s->capturing != nullptr)
        for (const auto& [other, at] : e->clock) {
            std::size_t& known = s->capturing->clocks[s][other];
            known = std::max(known, at);
        }
    m.put(s, {stream_op::kind::wait, nullptr, e, e->recorded, nullptr});
    return 0;
}

int event_done(gpu_event event, bool* done) {
    ENTER("cudaEventQuery");
    const auto e = m.event_of(event);
    m.expect_no_capture("cudaEventQuery");
    m.rule(e->captured == nullptr, "cudaEventQuery of an event of a graph");
    *done = e->done >= e->recorded;
    return 0;
}

int seconds_between(double* seconds, gpu_event from, gpu_event to) {
    ENTER("cudaEventElapsedTime");
    *seconds = std::chrono::duration<double>(m.event_of(to)->reached - m.event_of(from)->reached).count();
    return 0;
}

int copy(void* to, const void* from, std::size_t bytes, gpu_stream stream) {
    ENTER("cudaMemcpyAsync");
    m.put(m.stream_of(stream), {stream_op::kind::work, [=] { std::memmove(to, from, bytes); }, nullptr, 0, nullptr});
    return 0;
}

int write_value(gpu_stream stream, std::uint32_t* where, std::uint32_t value) {
    ENTER("cuStreamWriteValue32");
    stream_state* s = m.stream_of(stream);
    m.rule(s->capturing == nullptr, "a value that a thread of the host waits for, in a graph");
    m.put(s, {stream_op::kind::work, [=] { std::atomic_ref(*where).store(value, std::memory_order_release); }});
    return 0;
}

int wait_value(gpu_stream stream, std::uint32_t* where, std::uint32_t least) {
    ENTER("cuStreamWaitValue32");
    stream_state* s = m.stream_of(stream);
    m.rule(s->capturing == nullptr, "a value that a thread of the host writes, in a graph");
    stream_op op{stream_op::kind::wait_value};
    op.value = where;
    op.least = least;
    m.put(s, std::move(op));
    return 0;
}

int capture_mode(int* mode) {
    std::swap(capture_mode_here, *mode);
    return 0;
}

int make_id(nccl_id* id) {
    ENTER("ncclGetUniqueId");
    const std::uint64_t number = ++m.ids;
    std::memcpy(id, &number, sizeof number);
    return 0;
}

int make_comm(nccl_comm* comm, int ranks, const nccl_id* id, int rank) {
    ENTER("ncclCommInitRankConfig");
    std::uint64_t number = 0;
    std::memcpy(&number, id, sizeof number);
    auto& all = m.by_id[number];
    if (!all) all = std::make_shared<clique>();
    all->members.resize(static_cast<std::size_t>(ranks));
    comm_state* c = m.new_comm(current_device);
    c->all = all;
    c->rank = rank;
    all->members[static_cast<std::size_t>(rank)] = c;
    *comm = reinterpret_cast<nccl_comm>(c);
    if (std::find(all->members.begin(), all->members.end(), nullptr) == all->members.end())
        for (comm_state* each : all->members) each->ready = true;
    return gpu_runtime::in_progress;
}

int split(nccl_comm comm, int color, int key, nccl_comm* part) {
    ENTER("ncclCommSplit");
    comm_state* c = comm_of(comm);
    if (!m.usable(c, "ncclCommSplit")) return 5;
    comm_state* child = color < 0 ? nullptr : m.new_comm(c->device);
    *part = reinterpret_cast<nccl_comm>(child);
    c->splitting = true;
    c->all->splits[c->rank] = {child, color, key};
    m.split_if_all_are_here(*c->all);
    return gpu_runtime::in_progress;
}

int status(nccl_comm comm, int* code) {
    ENTER("ncclCommGetAsyncError");
    comm_state* c = comm_of(comm);
    m.rule(!c->aborted && !c->dropped, "ncclCommGetAsyncError of a communicator that is gone");
    const bool draining = c->finalizing && c->completed < c->issued;
    *code = c->error;
    if (c->error == 0 && (!c->ready || c->splitting || draining || c->busy > 0)) *code = gpu_runtime::in_progress;
    if (c->busy > 0) --c->busy;
    return 0;
}

int finalize(nccl_comm comm) {
    ENTER("ncclCommFinalize");
    if (!m.usable(comm_of(comm), "ncclCommFinalize")) return 5;
    comm_of(comm)->finalizing = true;
    return gpu_runtime::in_progress;
}

int drop_comm(nccl_comm comm) {
    ENTER("ncclCommDestroy");
    comm_state* c = comm_of(comm);
    if (!m.usable(c, "ncclCommDestroy")) return 5;
    m.rule(c->completed == c->issued, "ncclCommDestroy with operations under way");
    c->dropped = true;
    return 0;
}

int abort_comm(nccl_comm comm) {
    ENTER("ncclCommAbort");
    comm_state* c = comm_of(comm);
    m.rule(!c->aborted && !c->dropped, "ncclCommAbort of a communicator that is gone");
    c->aborted = true;
    if (!c->all) return 0;
    // What it offered is withdrawn; what others wait for will not come.
    const auto of_it = [&](const clique::posted& p) { return p.of->comm == c; };
    for (auto* ways : {&c->all->sends, &c->all->recvs})
        for (auto& [way, posts] : *ways) posts.erase(std::remove_if(posts.begin(), posts.end(), of_it), posts.end());
    c->all->collectives.clear();
    for (comm_state* other : c->all->members)
        if (other != nullptr && other != c && m.how.remote_errors) other->error = 6;
    m.changed.notify_all();
    return 0;
}

int group_start() {
    ENTER("ncclGroupStart");
    ++group_depth;
    return 0;
}

int group_end() {
    ENTER("ncclGroupEnd");
    return m.end_group();
}

int send(const void* from, std::size_t bytes, int peer, nccl_comm comm, gpu_stream stream) {
    ENTER("ncclSend");
    return m.add_message(comm_of(comm), stream, {peer, from, nullptr, bytes}, true);
}

int recv(void* to, std::size_t bytes, int peer, nccl_comm comm, gpu_stream stream) {
    ENTER("ncclRecv");
    return m.add_message(comm_of(comm), stream, {peer, nullptr, to, bytes}, false);
}

int collective(const char* function, kind what, const void* from, void* to, std::size_t count, element_type type,
               reduce_op op, int root, nccl_comm comm, gpu_stream stream) {
    ENTER(function);
    const bool reduces = what != kind::all_gather && what != kind::broadcast;
    m.rule(!reduces || nccl_reduces(type, op), fmt::format("{} of {}, {}", function, to_string(type), to_string(op)));
    auto made = std::make_shared<network_op>();
    made->what = what;
    made->comm = comm_of(comm);
    made->from = from;
    made->to = to;
    made->count = count;
    made->type = type;
    made->op = op == reduce_op::avg ? reduce_op::sum : op;
    made->root = root;
    return m.issue(stream, made, function);
}

int all_gather(const void* from, void* to, std::size_t bytes, nccl_comm comm, gpu_stream stream) {
    return collective("ncclAllGather", kind::all_gather, from, to, bytes, element_type::uint8, reduce_op::sum, 0, comm,
                      stream);
}
int broadcast(const void* from, void* to, std::size_t bytes, int root, nccl_comm comm, gpu_stream stream) {
    return collective("ncclBroadcast", kind::broadcast, from, to, bytes, element_type::uint8, reduce_op::sum, root,
                      comm, stream);
}
int all_reduce(const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm comm,
               gpu_stream stream) {
    return collective("ncclAllReduce", kind::all_reduce, from, to, count, type, op, 0, comm, stream);
}
int reduce_scatter(const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm comm,
                   gpu_stream stream) {
    return collective("ncclReduceScatter", kind::reduce_scatter, from, to, count, type, op, 0, comm, stream);
}
int reduce(const void* from, void* to, std::size_t count, element_type type, reduce_op op, int root, nccl_comm comm,
           gpu_stream stream) {
    return collective("ncclReduce", kind::reduce, from, to, count, type, op, root, comm, stream);
}

int combine(void* dst, const void* const* sources, int k, std::int64_t count, element_type type, reduce_op op,
            int divisor, gpu_stream stream) {
    ENTER("combine");
    stream_state* s = m.stream_of(stream);
    std::vector<const void*> from(sources, sources + k);
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(type);
    m.check_memory(s->device, dst, bytes, "combine");
    for (const void* each : from) m.check_memory(s->device, each, bytes, "combine");
    m.put(s, {stream_op::kind::work,
              [=] { find_reduce(type, op)(dst, from.data(), static_cast<int>(from.size()), count, divisor); }, nullptr,
              0, nullptr});
    return 0;
}

#undef ENTER

constexpr int not_supported = 801;

const gpu_runtime table{
    .version = header_version,
    .bytes = sizeof(gpu_runtime),
    .cuda_error = [](int code) { return code == 2 ? "out of memory" : "injected"; },
    .cuda_versions = [](int* driver, int* runtime) { return *driver = *runtime = 0; },
    .device_count = device_count,
    .use_device = use_device,
    .device_name =
        [](int, char* name, std::size_t bytes) {
            std::strncpy(name, "stand-in", bytes);
            return 0;
        },
    .device_of = device_of,
    .allocate = allocate,
    .release = release,
    .allocate_pinned = allocate,
    .release_pinned = release,
    .make_stream = make_stream,
    .drop_stream = drop_stream,
    .stream_done = stream_done,
    .stream_captured = stream_captured,
    .make_event = make_event,
    .drop_event = drop_event,
    .record = record,
    .wait = wait,
    .event_done = event_done,
    .copy = copy,
    .write_value = write_value,
    .wait_value = wait_value,
    .capture_mode = capture_mode,
    .make_timer = make_event,
    .seconds_between = seconds_between,
    // Tests capture by members of gpu_stand_in, which look closer.
    .begin_capture = [](gpu_stream) { return not_supported; },
    .end_capture = [](gpu_stream, gpu_graph*) { return not_supported; },
    .launch = [](gpu_graph, gpu_stream) { return not_supported; },
    .drop_graph = [](gpu_graph) { return not_supported; },
    .nccl_error =
        [](int code) { return code == 6 ? "remote process exited or there was a network error" : "injected"; },
    .nccl_version =
        [](int* version) {
            *version = 0;
            return 0;
        },
    .make_id = make_id,
    .make_comm = make_comm,
    .split = split,
    .status = status,
    .finalize = finalize,
    .drop_comm = drop_comm,
    .abort = abort_comm,
    .group_start = group_start,
    .group_end = group_end,
    .send = send,
    .recv = recv,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .reduce = reduce,
    .combine = combine,
};

}  // namespace

gpu_stand_in::gpu_stand_in(const setting& s) : state_(std::make_unique<state>(s)) { machine = state_.get(); }
gpu_stand_in::~gpu_stand_in() {
    state_->worker = {};
    machine = nullptr;
}

const gpu_runtime& gpu_stand_in::runtime() const noexcept { return table; }

std::vector<std::string> gpu_stand_in::violations() const {
    const auto held = lock();
    return state_->broken;
}

std::map<std::string, int> gpu_stand_in::calls() const {
    const auto held = lock();
    return state_->called;
}

std::string gpu_stand_in::left() const {
    const auto held = lock();
    const auto here = [](const auto& all, auto there) { return std::count_if(all.begin(), all.end(), there); };
    const auto streams = here(state_->streams, [&](const auto& s) {
        return !s->dropped && !state_->own.contains(reinterpret_cast<gpu_stream>(s.get()));
    });
    const auto events = here(state_->events, [](const auto& e) { return !e->dropped; });
    const auto comms = here(state_->comms, [](const auto& c) { return !c->dropped && !c->aborted; });
    if (streams + events + comms == 0 && state_->memory.empty()) return {};
    return fmt::format("{} streams, {} events, {} communicators, {} pieces of memory", streams, events, comms,
                       state_->memory.size());
}

void gpu_stand_in::fail(const std::string& function, int n, int code) {
    const auto held = lock();
    state_->injections.push_back({function, n, code});
}

void gpu_stand_in::begin_capture(gpu_stream origin) {
    const auto held = lock();
    auto* g = new graph;  // end_capture takes it
    g->origin = state_->stream_of(origin);
    g->origin->capturing = g;
    state_->captures.insert(g);
}

std::shared_ptr<gpu_stand_in::graph> gpu_stand_in::end_capture(gpu_stream origin) {
    const auto held = lock();
    std::shared_ptr<graph> g(state_->stream_of(origin)->capturing);
    for (const auto& [stream, length] : g->lengths)
        state_->rule(g->clocks[g->origin][stream] == length, "a stream that does not join the capture again");
    for (const auto& s : state_->streams)
        if (s->capturing == g.get()) s->capturing = nullptr;
    state_->captures.erase(g.get());
    return g;
}

// Events get generations of their own, so that replays do not meet.
void gpu_stand_in::launch(const std::shared_ptr<graph>& g, gpu_stream stream) {
    const auto held = lock();
    std::map<stream_state*, stream_state*> runs_in{{g->origin, state_->stream_of(stream)}};
    std::map<std::pair<event_state*, std::uint64_t>, std::shared_ptr<event_state>> fresh;
    for (const graph::entry& e : g->entries) {
        stream_state*& in = runs_in[e.stream];
        if (in == nullptr) {
            state_->streams.push_back(std::make_unique<stream_state>());
            in = state_->streams.back().get();
            in->device = e.stream->device;
            state_->own.insert(reinterpret_cast<gpu_stream>(in));
        }
        stream_op op = e.op;
        if (op.event) {
            auto& made = fresh[{op.event.get(), op.generation}];
            if (!made) made = std::make_shared<event_state>();
            op.event = made;
            op.generation = 1;
        }
        if (op.network) op.network = std::make_shared<network_op>(*op.network);
        state_->enter(in, std::move(op));
    }
}

gpu_stream gpu_stand_in::make_stream(int device) {
    current_device = device;
    gpu_stream made = nullptr;
    test::make_stream(&made);
    const auto held = lock();
    state_->own.insert(made);
    return made;
}

void gpu_stand_in::wait_for(gpu_stream stream) {
    for (bool done = false; !done;) {
        stream_done(stream, &done);
        std::this_thread::yield();
    }
}

}  // namespace terrace::detail::test
