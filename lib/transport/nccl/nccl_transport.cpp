#include "transport/nccl/nccl_transport.hpp"

#include <sched.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "transport/nccl/bridged_messages.hpp"
#include "transport/nccl/device_queues.hpp"
#include "transport/nccl/nccl_comms.hpp"
#include "transport/nccl/pending_calls.hpp"
#include "transport/nccl/watchdog.hpp"

namespace terrace::detail {

namespace {

std::size_t count(range part) { return static_cast<std::size_t>(part.count()); }

// Returns the part of the vector that the stage leaves on this rank.
range result_of(const stage_call& c) {
    if (c.what == action::stage_reduce_scatter) return c.group->own_shard();
    if (c.what == action::stage_reduce && !c.group->is_root()) return {};
    return c.group->whole();
}

// Enqueues NCCL's operations: messages, and stages that NCCL runs as collectives of its own.
class nccl_operations final : public stream_messages {
public:
    nccl_operations(device_queues& on, nccl_comms& comms, operation_log& log, const pending_calls& calls)
        : on_(on), comms_(comms), log_(log), calls_(calls) {}

    void open(int queue, const call_position& where, std::string_view /*stage*/,
              std::byte* /*host*/) noexcept override {
        open_ = &comms_.of_stage(where.stage);
        queue_ = queue;
        log_.begin(where);
        comms_.claim(*open_, queue, calls_.current());
        on_.hold_failures();
        comms_.check("ncclGroupStart", on_.gpu().group_start());
    }

    void send(int peer, const void* from, std::size_t bytes) noexcept override {
        log_.meets(peer);
        if (!on_.fault())
            comms_.check("ncclSend", on_.gpu().send(from, bytes, peer, *open_->comm, on_.at(queue_).stream));
    }

    void recv(int peer, void* to, std::size_t bytes) noexcept override {
        log_.meets(peer);
        if (!on_.fault())
            comms_.check("ncclRecv", on_.gpu().recv(to, bytes, peer, *open_->comm, on_.at(queue_).stream));
    }

    void close() noexcept override {
        const bool failed = on_.fault().has_value();
        const int code = on_.gpu().group_end();  // a started group must be ended, even after a failure
        on_.release_failures();
        if (failed) return;
        comms_.check("ncclGroupEnd", code);
        leave(*open_, queue_);
    }

    // Implements stream_transport::stage().
    void run_stage(int queue, const call_position& where, const stage_call& c) noexcept {
        nccl_comms::communicator& to = comms_.of_group(c.group->members());
        comms_.claim(to, queue, calls_.current());
        // NCCL requires the data of a rank in one piece. If its own shard lies elsewhere, the place for it is free.
        const range own = c.group->own_shard();
        const bool apart =
            c.own != c.src && (c.what == action::stage_reduce_scatter || c.what == action::stage_allreduce);
        if (apart && own.count() > 0)
            on_.copy(queue, const_cast<std::byte*>(c.src) + c.offset(own), c.own + c.offset(own), c.bytes(own));
        if (on_.fault()) return;
        log_.begin(where);
        for (const int member : c.group->members()) log_.meets(member);
        start_collective(c, *to.comm, on_.at(queue).stream);
        leave(to, queue);
        const range got = result_of(c);
        if (c.divisor == 1 || got.empty()) return;
        const void* sum = c.dst + c.offset(got);
        on_.reduce(queue, c.dst + c.offset(got), std::span(&sum, 1), got.count(), c.type, c.op, c.divisor);
    }

private:
    void start_collective(const stage_call& c, nccl_comm comm, gpu_stream stream) noexcept {
        const gpu_runtime& gpu = on_.gpu();
        const range whole = c.group->whole(), own = c.group->own_shard();
        const std::byte* src = c.src + c.offset(whole);
        std::byte* dst = c.dst + c.offset(whole);
        const int root = c.group->root();
        switch (c.what) {
            case action::stage_reduce_scatter:
                return comms_.check("ncclReduceScatter", gpu.reduce_scatter(src, c.dst + c.offset(own), count(own),
                                                                            c.type, c.op, comm, stream));
            case action::stage_allgather:
                return comms_.check("ncclAllGather",
                                    gpu.all_gather(c.src + c.offset(own), dst, c.bytes(own), comm, stream));
            case action::stage_allreduce:
                return comms_.check("ncclAllReduce",
                                    gpu.all_reduce(src, dst, count(whole), c.type, c.op, comm, stream));
            case action::stage_reduce:
                if (c.group->is_root()) src = c.own + c.offset(whole);
                return comms_.check("ncclReduce", gpu.reduce(src, c.group->is_root() ? dst : nullptr, count(whole),
                                                             c.type, c.op, root, comm, stream));
            default: return comms_.check("ncclBroadcast", gpu.broadcast(src, dst, c.bytes(whole), root, comm, stream));
        }
    }

    void leave(nccl_comms::communicator& c, int queue) noexcept {
        if (on_.fault()) return;
        comms_.leave(c, queue, calls_.current());
        on_.check("cudaEventRecord", log_.end(on_.at(queue).stream));
    }

    device_queues& on_;
    nccl_comms& comms_;
    operation_log& log_;
    const pending_calls& calls_;
    nccl_comms::communicator* open_ = nullptr;  // between open() and close()
    int queue_ = 0;
};

class nccl_transport final : public stream_transport {
public:
    nccl_transport(const gpu_runtime& gpu, connection& host, nccl_setting s)
        : setting_(std::move(s)),
          on_(gpu, setting_.device),
          log_(gpu),
          calls_(on_, setting_.timeout),
          comms_(on_, setting_.timeout),
          operations_(on_, comms_, log_, calls_) {
        // The bridge gives up first, since it would send data that aborted stages leave.
        on_.at_failure([this] {
            if (bridged_) bridged_->give_up();
            comms_.abort();
        });
        try {
            connect(host);
            watchdog_.emplace(
                guard_, watchdog::duty{[this] { on_.use(); }, [this] { return calls_.may_run(); }, [this] { look(); }});
        } catch (...) {
            abandon();  // other ranks may be missing
            throw;
        }
    }

    ~nccl_transport() override {
        watchdog_.reset();
        const std::lock_guard lock(guard_);
        on_.use();
        while (!on_.fault() && !calls_.all_done()) {
            look();
            sched_yield();
        }
        on_.drain();
    }

    std::string_view name() const noexcept override { return name_; }

    capabilities can(element_type type, reduce_op op) const override {
        const auto bit = [](action a) { return 1u << static_cast<unsigned>(a); };
        const std::uint32_t moves = bit(action::stage_allgather) | bit(action::stage_broadcast);
        const std::uint32_t adds =
            bit(action::stage_reduce_scatter) | bit(action::stage_allreduce) | bit(action::stage_reduce);
        return {.stages = nccl_reduces(type, op) ? moves | adds : moves, .groups = comms_.groups()};
    }

    void prepare(std::span<const std::vector<std::vector<int>>> rounds) noexcept override {
        const std::lock_guard lock(guard_);
        const auto is_known = [&](const std::vector<int>& group) { return comms_.groups()->contains(group); };
        on_.use();
        for (const auto& round : rounds) {
            if (on_.fault() || std::all_of(round.begin(), round.end(), is_known)) continue;
            if (auto f = comms_.join(round)) on_.fail(std::move(*f));
        }
    }

    std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return on_.allocate(bytes); }
    std::shared_ptr<std::byte> allocate_host(std::size_t bytes) override {
        return bridged_->direct() ? nullptr : on_.allocate_pinned(bytes);
    }
    bool holds(const void* memory) const noexcept override { return on_.holds(memory); }
    gpu_stream own_stream() const noexcept override { return on_.own(); }
    bool captures(gpu_stream stream) const noexcept override {
        bool captured = false;
        return on_.gpu().stream_captured(stream, &captured) == 0 && captured;
    }

    bool begin(gpu_stream stream, int queues) noexcept override {
        held_ = std::unique_lock(guard_);
        const bool alone = calls_.begin(stream, queues), captured = calls_.current().captured;
        if (captured) comms_.captured();
        log_.begin_call(alone, !captured && setting_.timeout.count() > 0);
        return captured;
    }
    std::uint64_t end() noexcept override {
        const std::uint64_t number = calls_.end();
        held_.unlock();
        watchdog_->wake();
        return number;
    }

    stream_messages& over_nccl() noexcept override { return operations_; }
    stream_messages& over_mpi() noexcept override { return *bridged_; }
    void stage(int queue, const call_position& where, const stage_call& call) noexcept override {
        operations_.run_stage(queue, where, call);
    }
    void copy(int queue, void* to, const void* from, std::size_t bytes) noexcept override {
        on_.copy(queue, to, from, bytes);
    }
    void reduce(int queue, void* to, std::span<const void* const> from, std::int64_t count, element_type type,
                reduce_op op, int divisor) noexcept override {
        on_.reduce(queue, to, from, count, type, op, divisor);
    }

    bool done(std::uint64_t call) noexcept override {
        const std::lock_guard lock(guard_);
        return calls_.done(call);
    }
    void abandon() noexcept override {
        const std::lock_guard lock(guard_);
        on_.fail({"nccl", "ncclCommAbort", 1, "given up"});
    }
    std::optional<transport_fault> fault() const override {
        const std::lock_guard lock(guard_);
        return on_.fault();
    }
    bool timed_out() const noexcept override {
        const std::lock_guard lock(guard_);
        return on_.fault() && on_.fault()->code == timed_out_code;
    }

private:
    void connect(connection& host) {
        team& ranks = host.ranks;
        rank_ = ranks.rank();
        on_all_ranks(ranks, [&] { return open_device(); });
        expect_own_devices(ranks);
        comms_.connect(ranks, setting_.ways);
        for (const auto& round : setting_.rounds) on_all_ranks(ranks, [&] { return comms_.join(round); });
        on_all_ranks(ranks, [&] { return on_.make(setting_.queues); });
        if (!setting_.mpi) return;
        bridged_ = std::make_unique<bridged_messages>(host, on_, setting_.queues, setting_.callers_rank);
        name_ += bridged_->direct() ? ", mpi from and to devices" : ", mpi through host memory";
    }

    std::optional<transport_fault> open_device() {
        if (auto f = on_.open()) return f;
        int version = 0;
        if (const int code = on_.gpu().nccl_version(&version); code != 0) return on_.nccl_fault("ncclGetVersion", code);
        constexpr int least = 22200;  // from here on, NCCL aborts the communicators of a group together
        if (version < least)
            return transport_fault{"nccl", "ncclGetVersion", version, "NCCL 2.22 or newer is required"};
        name_ = fmt::format("nccl {}.{}.{} on device {}", version / 10000, version / 100 % 100, version % 100,
                            setting_.device);
        return {};
    }

    // Throws if ranks of one host have the same device, and names them. NCCL refuses this without names.
    void expect_own_devices(team& ranks) {
        const std::string node = fmt::format("node of rank {}", ranks.nodes()[at(rank_)]);
        const std::string own = fmt::format("{} {}", setting_.host.empty() ? node : setting_.host, setting_.device);
        const std::vector<std::string> all = ranks.exchange(own);
        for (auto r = all.begin(); r != all.end(); ++r)
            if (const auto other = std::find(all.begin(), r, *r); other != r)
                throw usage_error(fmt::format(
                    "ranks {} and {} have the same GPU, device {} of their node: start one rank for each GPU, or, for "
                    "tests, set NCCL_HOSTID to another word on each rank",
                    of_caller(other - all.begin()), of_caller(r - all.begin()), r->substr(r->rfind(' ') + 1)));
    }
    int of_caller(std::ptrdiff_t rank) const {
        const auto r = static_cast<std::size_t>(rank);
        return setting_.callers_rank.empty() ? static_cast<int>(r) : setting_.callers_rank[r];
    }

    // Checks for failures, for the watchdog. guard_ must be held.
    void look() noexcept {
        const bool idle = calls_.all_done();
        if (auto f = comms_.find_fault()) return on_.fail(std::move(*f));
        if (bridged_)
            if (auto f = bridged_->fault()) return on_.fail(std::move(*f));
        if (on_.fault() || idle) return;
        if (const auto late = calls_.find_late())
            on_.fail({"nccl", fmt::format("call {}", *late), timed_out_code,
                      fmt::format("timed out after {} s (options::timeout), waiting for the device: {}",
                                  setting_.timeout.count(), why_late())});
    }

    std::string why_late() {
        if (std::string awaited = bridged_ ? bridged_->awaited() : ""; !awaited.empty()) return awaited;
        const std::string stuck =
            log_.stuck([this](gpu_event e) { return on_.reached(e); }, rank_, setting_.callers_rank);
        return fmt::format("{}{}another rank did not make the call, or is gone", stuck, stuck.empty() ? "" : "; ");
    }

    const nccl_setting setting_;
    std::string name_;
    int rank_ = 0;

    mutable std::mutex guard_;  // guards all below; held from begin() to end()
    std::unique_lock<std::mutex> held_;
    device_queues on_;
    operation_log log_;
    pending_calls calls_;
    nccl_comms comms_;
    nccl_operations operations_;
    std::unique_ptr<bridged_messages> bridged_;  // null if no stage goes over MPI
    std::optional<watchdog> watchdog_;           // must be the last member
};

}  // namespace

std::unique_ptr<stream_transport> make_nccl_transport(const gpu_runtime& gpu, connection& host, nccl_setting s) {
    return std::make_unique<nccl_transport>(gpu, host, std::move(s));
}

}  // namespace terrace::detail
