#include "transport/nccl/nccl_transport.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/partition.hpp"
#include "transport/nccl/courier.hpp"
#include "transport/nccl/trail.hpp"

namespace terrace {

namespace {

using clock = std::chrono::steady_clock;

// What one rank found, for the others.
struct finding {
    int code = 0;
    std::array<char, 16> library{};
    std::array<char, 32> call{};
    std::array<char, 200> message{};
};

template <std::size_t N>
void set(std::array<char, N>& to, std::string_view text) {
    std::copy_n(text.begin(), std::min(text.size(), N - 1), to.begin());
}

constexpr int took_too_long = -1;

// While it lives this thread breaks nobody's capture.
class relaxed_capture {
public:
    explicit relaxed_capture(const gpu_runtime& gpu) : gpu_(gpu) { gpu_.capture_mode(&mode_); }
    relaxed_capture(const relaxed_capture&) = delete;
    relaxed_capture& operator=(const relaxed_capture&) = delete;
    ~relaxed_capture() { gpu_.capture_mode(&mode_); }

private:
    const gpu_runtime& gpu_;
    int mode_ = gpu_runtime::relaxed;
};

class nccl_transport final : public stream_transport {
public:
    nccl_transport(const gpu_runtime& gpu, transport& net, nccl_setting s) : gpu_(gpu), setting_(std::move(s)) {
        try {
            connect(net);
            watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
        } catch (...) {
            abandon();  // other ranks may not be there
            release();
            throw;
        }
    }

    ~nccl_transport() override {
        watcher_ = {};
        finish();
        release();
    }

    std::string_view name() const noexcept override { return name_; }

    capabilities can(element_type type, reduce_op op) const override {
        const auto bit = [](action a) { return 1u << static_cast<unsigned>(a); };
        const std::uint32_t moves = bit(action::stage_allgather) | bit(action::stage_broadcast);
        return {.native = nccl_reduces(type, op) ? ~0u : moves, .groups = groups_};
    }

    void prepare(std::span<const std::vector<std::vector<int>>> rounds) noexcept override {
        const std::lock_guard lock(guard_);
        const auto is_known = [&](const std::vector<int>& group) { return groups_->contains(group); };
        here();
        for (const auto& round : rounds) {
            if (fault_ || std::all_of(round.begin(), round.end(), is_known)) continue;
            if (auto f = join(round)) fail(std::move(*f));
        }
    }

    std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
        return memory_of("cudaMalloc", gpu_.allocate, gpu_.release, bytes);
    }
    std::shared_ptr<std::byte> allocate_host(std::size_t bytes) override {
        return direct_ ? nullptr : memory_of("cudaMallocHost", gpu_.allocate_pinned, gpu_.release_pinned, bytes);
    }

    bool holds(const void* memory) const noexcept override {
        int device = -1;
        return gpu_.device_of(memory, &device) == 0 && device == setting_.device;
    }

    void begin(gpu_stream stream, int queues) noexcept override {
        held_ = std::unique_lock(guard_);
        caller_ = stream;
        used_ = queues;
        ++calls_;
        here();
        captured_ = false;
        check("cudaStreamIsCapturing", gpu_.stream_captured(stream, &captured_));
        const spare_events e = take_events();
        trail_.begin_call(flights_.empty(), !captured_ && setting_.timeout.count() > 0);
        flights_.push_back({calls_, e, {}});
        check("cudaEventRecord", gpu_.record(e.begun, stream));
        for (int q = 0; q < queues; ++q) check("cudaStreamWaitEvent", gpu_.wait(at(q).stream, e.begun));
    }

    std::uint64_t end() noexcept override {
        for (int q = 0; q < used_; ++q) {
            check("cudaEventRecord", gpu_.record(at(q).last, at(q).stream));
            check("cudaStreamWaitEvent", gpu_.wait(caller_, at(q).last));
        }
        flight& f = flights_.back();
        if (captured_) {
            spare_.push_back(f.events);
            flights_.pop_back();
            graphs_ = true;
        } else {
            check("cudaEventRecord", gpu_.record(f.events.ended, caller_));
        }
        held_.unlock();
        there_.notify_one();
        return calls_;
    }

    void open(int queue, const place& where) noexcept override {
        over_mpi_ = false;
        to_ = &ways_[static_cast<std::size_t>(std::min(where.stage, setting_.ways - 1))];
        queue_ = queue;
        trail_.begin(where);
        claim(*to_, queue);
        check_nccl("ncclGroupStart", gpu_.group_start());
    }
    void open_mpi(int queue, std::string_view stage, std::byte* host) noexcept override {
        over_mpi_ = true;
        queue_ = queue;
        host_ = host;
        arriving_.clear();
        if (!fault_) courier_->open(queue, stage);
    }
    void send(int peer, const void* from, std::size_t bytes) noexcept override {
        if (over_mpi_) return send_over_mpi(peer, static_cast<const std::byte*>(from), bytes);
        trail_.meets(peer);
        if (!fault_) check_nccl("ncclSend", gpu_.send(from, bytes, peer, to_->comm, at(queue_).stream));
    }
    void recv(int peer, void* to, std::size_t bytes) noexcept override {
        if (over_mpi_) return recv_over_mpi(peer, static_cast<std::byte*>(to), bytes);
        trail_.meets(peer);
        if (!fault_) check_nccl("ncclRecv", gpu_.recv(to, bytes, peer, to_->comm, at(queue_).stream));
    }
    void close() noexcept override {
        if (over_mpi_) return close_mpi();
        const bool failed = fault_.has_value();
        const int code = gpu_.group_end();  // what has been started is ended, whatever became of it
        if (failed) return;
        check_nccl("ncclGroupEnd", code);
        leave(*to_, queue_);
    }

    void stage(int queue, const place& where, const stage_call& c) noexcept override {
        const auto found = of_group_.find(c.group->members);
        communicator& to = found->second;
        claim(to, queue);
        const gpu_stream stream = at(queue).stream;
        const stage_group& g = *c.group;
        const range whole = g.whole();
        const range mine = g.shards[static_cast<std::size_t>(g.position)];
        const auto offset = [&](range part) { return static_cast<std::size_t>(part.begin) * c.element; };
        const auto bytes = [&](range part) { return static_cast<std::size_t>(part.count()) * c.element; };
        const auto count = [](range part) { return static_cast<std::size_t>(part.count()); };
        // NCCL wants what a rank gives in one piece. Where its own shard lies apart, the place for it is free.
        const bool apart =
            c.own != c.src && (c.what == action::stage_reduce_scatter || c.what == action::stage_allreduce);
        if (apart && mine.count() > 0)
            copy(queue, const_cast<std::byte*>(c.src) + offset(mine), c.own + offset(mine), bytes(mine));
        const bool is_root = g.position == g.root;
        const std::byte* src = (is_root && c.what == action::stage_reduce ? c.own : c.src) + offset(whole);
        const auto dst = [&](range part) { return c.dst + offset(part); };
        range got = whole;
        if (fault_) return;
        trail_.begin(where);
        for (const int member : g.members) trail_.meets(member);
        switch (c.what) {
            case action::stage_reduce_scatter:
                got = mine;
                check_nccl("ncclReduceScatter",
                           gpu_.reduce_scatter(src, dst(mine), count(mine), c.type, c.op, to.comm, stream));
                break;
            case action::stage_allgather:
                check_nccl("ncclAllGather",
                           gpu_.all_gather(c.src + offset(mine), dst(whole), bytes(mine), to.comm, stream));
                break;
            case action::stage_allreduce:
                check_nccl("ncclAllReduce",
                           gpu_.all_reduce(src, dst(whole), count(whole), c.type, c.op, to.comm, stream));
                break;
            case action::stage_reduce:
                if (!is_root) got = {};
                check_nccl("ncclReduce", gpu_.reduce(src, is_root ? dst(whole) : nullptr, count(whole), c.type, c.op,
                                                     g.root, to.comm, stream));
                break;
            default:
                check_nccl("ncclBroadcast", gpu_.broadcast(src, dst(whole), bytes(whole), g.root, to.comm, stream));
        }
        leave(to, queue);
        if (c.divisor == 1 || got.empty()) return;
        const void* sum = dst(got);
        reduce(queue, dst(got), std::span(&sum, 1), got.count(), c.type, c.op, c.divisor);
    }

    void copy(int queue, void* to, const void* from, std::size_t bytes) noexcept override {
        if (!fault_) check("cudaMemcpyAsync", gpu_.copy(to, from, bytes, at(queue).stream));
    }

    void reduce(int queue, void* to, std::span<const void* const> from, std::int64_t count, element_type type,
                reduce_op op, int divisor) noexcept override {
        if (!fault_)
            check("reduction kernel", gpu_.combine(to, from.data(), static_cast<int>(from.size()), count, type, op,
                                                   divisor, at(queue).stream));
    }

    gpu_stream own_stream() const noexcept override { return own_; }

    bool captures(gpu_stream stream) const noexcept override {
        bool captured = false;
        return gpu_.stream_captured(stream, &captured) == 0 && captured;
    }

    void abandon() noexcept override {
        const std::lock_guard lock(guard_);
        if (!fault_) fail({"nccl", "ncclCommAbort", 1, "given up"});
    }

    bool done(std::uint64_t call) noexcept override {
        const std::lock_guard lock(guard_);
        look_after_flights();
        return flights_.empty() || flights_.front().call > call;
    }

    std::optional<transport_fault> fault() const override {
        const std::lock_guard lock(guard_);
        return fault_;
    }
    bool timed_out() const noexcept override {
        const std::lock_guard lock(guard_);
        return fault_ && fault_->code == took_too_long;
    }

private:
    struct queue {
        gpu_stream stream = nullptr;
        gpu_event last = nullptr;
    };

    // Who used it last: it is used in the order of issue, whatever the queues.
    struct communicator {
        nccl_comm comm = nullptr;
        gpu_event last = nullptr;
        int queue = -1;
        std::uint64_t call = 0;
        bool captured = false;
    };

    struct spare_events {
        gpu_event begun = nullptr, ended = nullptr;
    };

    struct flight {
        std::uint64_t call;
        spare_events events;
        clock::time_point since;  // when it was first seen to run, with none before it
    };

    queue& at(int q) noexcept { return queues_[static_cast<std::size_t>(q)]; }
    void here() noexcept { gpu_.use_device(setting_.device); }

    // What messages over MPI bring, to be copied to where it belongs.
    struct arrival {
        std::byte *to, *host;
        std::size_t bytes;
    };

    // -- set-up

    template <class Allocate, class Release>
    std::shared_ptr<std::byte> memory_of(const char* call, Allocate allocate, Release release, std::size_t bytes) {
        here();
        void* memory = nullptr;
        const int code = [&] {
            const relaxed_capture here(gpu_);
            return allocate(&memory, bytes);
        }();
        require(call, code);
        return {static_cast<std::byte*>(memory),
                [gpu = &gpu_, release, device = setting_.device, kept = kept_](std::byte* p) {
                    if (*kept) return;
                    gpu->use_device(device);
                    release(p);
                }};
    }

    transport_fault cuda_fault(const char* call, int code) const { return {"cuda", call, code, gpu_.cuda_error(code)}; }
    transport_fault nccl_fault(const char* call, int code) const { return {"nccl", call, code, gpu_.nccl_error(code)}; }

    [[noreturn]] static void raise(const transport_fault& f) {
        throw transport_error(f.library, f.call, f.code, f.message);
    }
    void require(const char* call, int code) const {
        if (code != 0) raise(cuda_fault(call, code));
    }

    void connect(transport& net) {
        agree(net, [&]() -> std::optional<transport_fault> { return open_device(); });
        nccl_id id{};
        agree(net, [&]() -> std::optional<transport_fault> {
            const int code = net.rank() == 0 ? gpu_.make_id(&id) : 0;
            if (code != 0) return nccl_fault("ncclGetUniqueId", code);
            return {};
        });
        std::vector<nccl_id> all(static_cast<std::size_t>(net.size()));
        net.gather_all(&id, all.data(), sizeof id);
        ways_.resize(static_cast<std::size_t>(setting_.ways));
        agree(net, [&] {
            return make(ways_.front(), "ncclCommInitRankConfig",
                        [&](nccl_comm* comm) { return gpu_.make_comm(comm, net.size(), all.data(), net.rank()); });
        });
        for (std::size_t way = 1; way < ways_.size(); ++way)
            agree(net, [&] { return part(ways_[way], 0, net.rank()); });
        rank_ = net.rank();
        for (const auto& round : setting_.rounds) agree(net, [&] { return join(round); });
        agree(net, [&] { return make_queues(); });
        if (setting_.mpi) open_mpi(net);
    }

    // The caller's group among these, if there is one.
    std::optional<transport_fault> join(const std::vector<std::vector<int>>& round) {
        int color = -1, key = 0;
        for (std::size_t g = 0; g < round.size(); ++g) {
            const auto me = std::find(round[g].begin(), round[g].end(), rank_);
            if (me != round[g].end()) color = static_cast<int>(g), key = static_cast<int>(me - round[g].begin());
        }
        communicator made;
        if (auto f = part(made, color, key)) return f;
        if (color >= 0) of_group_[round[static_cast<std::size_t>(color)]] = made;
        auto known = std::make_shared<std::set<std::vector<int>>>(*groups_);  // who has asked can() keeps the old ones
        known->insert(round.begin(), round.end());
        groups_ = std::move(known);
        return {};
    }

    void open_mpi(transport& net) {
        const int mine = net.takes_device_memory();
        std::vector<int> all(static_cast<std::size_t>(net.size()));
        net.gather_all(&mine, all.data(), sizeof mine);
        direct_ = std::find(all.begin(), all.end(), 0) == all.end();
        agree(net, [&] { return make_counters(); });
        std::vector<courier::counters*> at;
        for (int q = 0; q < setting_.queues; ++q) at.push_back(counters_ + q);
        courier_ = std::make_unique<courier>(net.split(0, net.rank()), std::move(at), direct_, setting_.callers_rank);
        name_ += direct_ ? ", mpi from and to devices" : ", mpi through host memory";
    }

    // And tries whether streams can use them.
    std::optional<transport_fault> make_counters() {
        const auto n = static_cast<std::size_t>(setting_.queues);
        void* memory = nullptr;
        if (const int code = gpu_.allocate_pinned(&memory, n * sizeof(courier::counters)); code != 0)
            return cuda_fault("cudaMallocHost", code);
        counters_ = static_cast<courier::counters*>(memory);
        std::uninitialized_default_construct_n(counters_, n);
        if (const int code = gpu_.write_value(own_, &counters_->ready, 0); code != 0)
            return cuda_fault("cuStreamWriteValue32", code);
        if (const int code = gpu_.wait_value(own_, &counters_->delivered, 0); code != 0)
            return cuda_fault("cuStreamWaitValue32", code);
        return {};
    }

    std::optional<transport_fault> make_queues() {
        queues_.resize(static_cast<std::size_t>(setting_.queues));
        int code = gpu_.make_stream(&own_);
        for (queue& q : queues_) {
            if (code == 0) code = gpu_.make_stream(&q.stream);
            if (code == 0) code = gpu_.make_event(&q.last);
        }
        if (code != 0) return cuda_fault("cudaStreamCreateWithFlags", code);
        return {};
    }

    // Does something that each rank must do; if one cannot, none goes on.
    void agree(transport& net, const std::function<std::optional<transport_fault>()>& what) {
        finding mine;
        if (const auto fault = what()) {
            mine.code = fault->code;
            set(mine.library, fault->library);
            set(mine.call, fault->call);
            set(mine.message, fault->message);
        }
        std::vector<finding> all(static_cast<std::size_t>(net.size()));
        net.gather_all(&mine, all.data(), sizeof mine);
        for (std::size_t r = 0; r < all.size(); ++r) {
            const finding& f = all[r];
            if (f.code == 0) continue;
            const std::string text = fmt::format("rank {}: {}", r, f.message.data());
            if (f.code == took_too_long) throw timeout_error(fmt::format("{}: {}", f.call.data(), text));
            throw transport_error(f.library.data(), f.call.data(), f.code, text);
        }
    }

    std::optional<transport_fault> open_device() {
        int count = 0, version = 0;
        if (const int code = gpu_.device_count(&count); code != 0) {
            transport_fault f = cuda_fault("cudaGetDeviceCount", code);
            f.message +=
                "; there is no GPU here, or no driver of it: nvidia-smi tells. Host buffers need none: "
                "terrace::mpi::create";
            return f;
        }
        if (setting_.device < 0 || setting_.device >= count)
            return transport_fault{
                "cuda", "cudaSetDevice", 101,
                fmt::format("device {} of {}; give each rank one of 0 to {}", setting_.device, count, count - 1)};
        if (const int code = gpu_.use_device(setting_.device); code != 0) return cuda_fault("cudaSetDevice", code);
        if (const int code = gpu_.nccl_version(&version); code != 0) return nccl_fault("ncclGetVersion", code);
        name_ = fmt::format("nccl {}.{}.{} on device {}", version / 10000, version / 100 % 100, version % 100,
                            setting_.device);
        return {};
    }

    std::optional<transport_fault> part(communicator& c, int color, int key) {
        return make(c, "ncclCommSplit", [&](nccl_comm* comm) {
            const int code = gpu_.split(ways_.front().comm, color, key, comm);
            return code == 0 || code == gpu_runtime::in_progress ? settled(ways_.front().comm) : code;
        });
    }

    template <class Start>
    std::optional<transport_fault> make(communicator& c, const char* call, Start start) {
        int code = start(&c.comm);
        if (c.comm != nullptr) {
            comms_.push_back(c.comm);
            if (code == 0 || code == gpu_runtime::in_progress) code = settled(c.comm);
        }
        if (code == took_too_long) return late_fault(call);
        if (code != 0) return nccl_fault(call, code);
        if (const int made = gpu_.make_event(&c.last); made != 0) return cuda_fault("cudaEventCreateWithFlags", made);
        comm_events_.push_back(c.last);
        return {};
    }

    transport_fault late_fault(const char* call) const {
        return {"nccl", call, took_too_long,
                fmt::format("not through after {} s (options::timeout): other ranks are not there",
                            setting_.timeout.count())};
    }

    // Waits until what was asked of a nonblocking communicator is through. @returns its code, or took_too_long
    int settled(nccl_comm comm) const noexcept {
        const auto began = clock::now();
        int code = gpu_runtime::in_progress;
        for (int n = 0;; ++n) {
            if (const int asked = gpu_.status(comm, &code); asked != 0) return asked;
            if (code != gpu_runtime::in_progress) return code;
            if (n < 64) continue;
            sched_yield();
            if (is_late(began)) return took_too_long;
        }
    }

    bool is_late(clock::time_point since) const noexcept {
        return setting_.timeout.count() > 0 && clock::now() - since > setting_.timeout;
    }

    // -- while calls are put in; guard_ is held

    void claim(communicator& c, int queue) noexcept {
        const bool same_graph = c.call == calls_ || (!c.captured && !captured_);
        if (c.queue >= 0 && c.queue != queue && same_graph)
            check("cudaStreamWaitEvent", gpu_.wait(at(queue).stream, c.last));
    }

    void leave(communicator& c, int queue) noexcept {
        if (fault_) return;
        check_nccl("ncclCommGetAsyncError", settled(c.comm));
        check("cudaEventRecord", gpu_.record(c.last, at(queue).stream));
        check("cudaEventRecord", trail_.end(at(queue).stream));
        c.queue = queue;
        c.call = calls_;
        c.captured = captured_;
    }

    // A message has its place in the host's memory, on a cache line, unless MPI takes it from the device.
    std::byte* host_place(std::size_t bytes) noexcept {
        constexpr std::size_t line = 64;
        return std::exchange(host_, host_ + round_up(bytes, line));
    }

    void send_over_mpi(int peer, const std::byte* from, std::size_t bytes) noexcept {
        if (fault_) return;
        if (direct_) return courier_->send(peer, from, bytes);
        std::byte* host = host_place(bytes);
        copy(queue_, host, from, bytes);
        if (!fault_) courier_->send(peer, host, bytes);
    }

    void recv_over_mpi(int peer, std::byte* to, std::size_t bytes) noexcept {
        if (fault_) return;
        if (direct_) return courier_->recv(peer, to, bytes);
        arriving_.push_back({to, host_place(bytes), bytes});
        courier_->recv(peer, arriving_.back().host, bytes);
    }

    // All that the stream will do is in it at once, so that nothing that comes later is needed for it to go on.
    void close_mpi() noexcept {
        if (fault_) return;
        const std::uint32_t number = courier_->close();
        courier::counters& c = counters_[queue_];
        check("cuStreamWriteValue32", gpu_.write_value(at(queue_).stream, &c.ready, number));
        if (!fault_) check("cuStreamWaitValue32", gpu_.wait_value(at(queue_).stream, &c.delivered, number));
        for (const arrival& a : arriving_) copy(queue_, a.to, a.host, a.bytes);
    }

    void check(const char* call, int code) noexcept {
        if (code != 0 && !fault_) fail(cuda_fault(call, code));
    }
    void check_nccl(const char* call, int code) noexcept {
        if (code == 0 || code == gpu_runtime::in_progress || fault_) return;
        fail(code == took_too_long ? late_fault(call) : nccl_fault(call, code));
    }

    // What waits for others on the device then ends; first what would send on what stages that are aborted leave.
    void fail(transport_fault f) noexcept {
        fault_ = std::move(f);
        if (courier_) courier_->give_up();
        for (const nccl_comm comm : comms_) gpu_.abort(comm);
        comms_.clear();
    }

    spare_events take_events() noexcept {
        look_after_flights();
        if (!spare_.empty()) {
            const spare_events e = spare_.back();
            spare_.pop_back();
            return e;
        }
        spare_events e;
        check("cudaEventCreateWithFlags", gpu_.make_event(&e.begun));
        check("cudaEventCreateWithFlags", gpu_.make_event(&e.ended));
        return e;
    }

    // -- what is under way

    bool is_done(gpu_event e) noexcept {
        const relaxed_capture here(gpu_);
        bool done = false;
        check("cudaEventQuery", gpu_.event_done(e, &done));
        return done;
    }

    void look_after_flights() noexcept {
        while (!flights_.empty() && is_done(flights_.front().events.ended)) {
            spare_.push_back(flights_.front().events);
            flights_.pop_front();
        }
    }

    void watch(const std::stop_token& stop) {
        constexpr auto rhythm = std::chrono::milliseconds(10);
        std::unique_lock lock(guard_);
        here();
        while (!stop.stop_requested()) {
            if (!there_.wait(lock, stop, [&] { return !flights_.empty() || graphs_; })) return;
            there_.wait_for(lock, stop, rhythm, [] { return false; });
            look();
        }
    }

    void look() noexcept {
        look_after_flights();
        for (const nccl_comm comm : comms_) {
            int code = 0;
            if (gpu_.status(comm, &code) != 0 || code == 0 || code == gpu_runtime::in_progress) continue;
            return fail(nccl_fault("ncclCommGetAsyncError", code));
        }
        if (courier_)
            if (auto f = courier_->fault(); f && !fault_) return fail(std::move(*f));
        if (fault_ || flights_.empty()) return;
        flight& oldest = flights_.front();
        if (oldest.since == clock::time_point{} && is_done(oldest.events.begun)) oldest.since = clock::now();
        if (oldest.since != clock::time_point{} && is_late(oldest.since))
            fail({"nccl", fmt::format("call {}", oldest.call), took_too_long,
                  fmt::format("not through after {} s (options::timeout) on the device; {}", setting_.timeout.count(),
                              why_late())});
    }

    std::string why_late() {
        if (std::string awaited = courier_ ? courier_->awaited() : ""; !awaited.empty()) return awaited;
        const std::string stuck =
            trail_.stuck([this](gpu_event e) { return is_done(e); }, rank_, setting_.callers_rank);
        return fmt::format("{}{}another rank did not make the call, or is gone", stuck, stuck.empty() ? "" : "; ");
    }

    // -- the end

    // Until the queues are through; what has been aborted soon is, unless the device itself hangs.
    void finish() noexcept {
        constexpr auto soon = std::chrono::seconds(2);
        const std::lock_guard lock(guard_);
        here();
        while (!fault_ && !flights_.empty()) {
            look();
            sched_yield();
        }
        const auto began = clock::now();
        for (const queue& q : queues_)
            for (bool done = false; !done && clock::now() - began < soon; sched_yield())
                if (gpu_.stream_done(q.stream, &done) != 0) break;
    }

    void release() noexcept {
        here();
        if (courier_ && courier_->stop()) *kept_ = true;
        courier_.reset();
        if (counters_ != nullptr && !*kept_) gpu_.release_pinned(counters_);
        // Innermost last: parts before what they were split from.
        for (auto c = comms_.rbegin(); c != comms_.rend() && !fault_; ++c) {
            const int code = gpu_.finalize(*c);
            if ((code == 0 || code == gpu_runtime::in_progress) && settled(*c) == 0) gpu_.drop_comm(*c);
            else gpu_.abort(*c);
        }
        if (own_ != nullptr) gpu_.drop_stream(own_);
        for (const queue& q : queues_) {
            if (q.stream != nullptr) gpu_.drop_stream(q.stream);
            if (q.last != nullptr) gpu_.drop_event(q.last);
        }
        for (const gpu_event e : comm_events_) gpu_.drop_event(e);
        for (const flight& f : flights_) spare_.push_back(f.events);
        for (const spare_events& e : spare_) {
            gpu_.drop_event(e.begun);
            gpu_.drop_event(e.ended);
        }
    }

    const gpu_runtime& gpu_;
    nccl_setting setting_;
    std::string name_;
    int rank_ = 0;
    std::shared_ptr<const std::set<std::vector<int>>> groups_ = std::make_shared<std::set<std::vector<int>>>();
    std::vector<nccl_comm> comms_;  // all that have not been aborted
    std::vector<gpu_event> comm_events_;
    std::vector<communicator> ways_;
    std::map<std::vector<int>, communicator> of_group_;
    std::vector<queue> queues_;
    gpu_stream own_ = nullptr;
    bool direct_ = false;  // MPI takes addresses of devices, on all ranks
    courier::counters* counters_ = nullptr;
    std::unique_ptr<courier> courier_;  // null where nothing goes over MPI
    // Whether MPI may still use the memory of programs, which then is never freed.
    std::shared_ptr<bool> kept_ = std::make_shared<bool>(false);

    mutable std::mutex guard_;  // of all below; held from begin() to end()
    std::unique_lock<std::mutex> held_;
    std::condition_variable_any there_;
    std::optional<transport_fault> fault_;
    std::deque<flight> flights_;
    std::vector<spare_events> spare_;
    std::uint64_t calls_ = 0;
    bool graphs_ = false;  // that may run without a call

    trail trail_{gpu_};

    // Of the call that is put in.
    gpu_stream caller_ = nullptr;
    int used_ = 0;
    bool captured_ = false;
    communicator* to_ = nullptr;
    int queue_ = 0;
    bool over_mpi_ = false;
    std::byte* host_ = nullptr;
    std::vector<arrival> arriving_;

    std::jthread watcher_;
};

}  // namespace

std::unique_ptr<stream_transport> make_nccl_transport(const gpu_runtime& gpu, transport& net, nccl_setting s) {
    return std::make_unique<nccl_transport>(gpu, net, std::move(s));
}

}  // namespace terrace
