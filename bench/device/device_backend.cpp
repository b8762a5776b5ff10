#include "bench/device/device_backend.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>
#include <terrace/mpi.hpp>
#include <terrace/nccl.hpp>

#include "api/core.hpp"
#include "api/device/stager.hpp"
#include "base/element_types.hpp"
#include "bench/device/gpu.hpp"
#include "bench/measure/mpi_world.hpp"

namespace terrace::detail::bench {

namespace {

call_shape shape_of(const subject& of, std::int64_t count) {
    return {.what = of.what, .count = count, .counts = {}, .type = of.type, .op = of.op, .root = of.root};
}

const void* input_of(const subject& of, const call& c) { return of.what == collective::broadcast ? c.recv : c.send; }

// Runs the plan over NCCL.
class queued final : public backend {
public:
    queued(const setting& s, plan p)
        : backend(s.of),
          plan_(std::move(p)),
          comm_(nccl::create(comm_of(s.ranks), plan_, s.device->number(), s.how)),
          stream_(s.device->stream()) {}

    bench::description describe(std::int64_t bytes) const override { return bench::describe(plan_, of_.what, bytes); }
    void run(std::span<const call> calls) override {
        for (const call& c : calls)
            enqueue(core_of(comm_), {shape_of(of_, c.count), {input_of(of_, c), c.recv}}, stream_);
    }
    void settle() override { nccl::synchronize(comm_); }

private:
    plan plan_;
    communicator comm_;
    gpu_stream stream_;
};

// Runs the plan over shared memory and MPI, through host memory.
class through_host final : public backend {
public:
    through_host(const setting& s, plan p)
        : backend(s.of),
          plan_(std::move(p)),
          comm_(mpi::create(comm_of(s.ranks), plan_, s.how)),
          stream_(s.device->stream()),
          stager_(s.device->runtime(), comm_, s.device->number(), staging::usual_chunk) {}

    bench::description describe(std::int64_t bytes) const override {
        auto how = bench::describe(plan_, of_.what, std::min(bytes, std::int64_t{staging::usual_chunk}));
        how.crosses_bus = true;
        return how;
    }
    void run(std::span<const call> calls) override {
        for (const call& c : calls)
            stager_.run(shape_of(of_, c.count), {.send = input_of(of_, c),
                                                 .recv = c.recv,
                                                 .sent = 0,
                                                 .received = 0,
                                                 .type = of_.type,
                                                 .stream = stream_});
    }

private:
    plan plan_;
    communicator comm_;
    gpu_stream stream_;
    stager stager_;
};

// NCCL as in programs, with blocking communicators: each call on a nonblocking one starts a thread of NCCL.
class nccl_library final : public backend {
public:
    explicit nccl_library(const setting& s)
        : backend(s.of), gpu_(*s.device), rank_(s.ranks.rank()), ranks_(s.ranks.size()) {
        const gpu_runtime& r = gpu_.runtime();
        if (row_of(of_.what).up && !nccl_has(of_.type))
            throw usage_error(fmt::format("NCCL has no type {}", to_string(of_.type)));
        if (row_of(of_.what).up && !nccl_has(of_.op))
            throw usage_error(fmt::format("NCCL has no operation {}", to_string(of_.op)));
        if (row_of(of_.what).up && of_.op == reduce_op::avg)
            throw usage_error("NCCL's operation avg is none of those that Terrace calls");
        nccl_id id{};
        if (s.ranks.first()) check(r.make_id(&id), "ncclGetUniqueId");
        bench::check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, comm_of(s.ranks)), "MPI_Bcast");
        try {
            check(r.make_comm(&comm_, s.ranks.size(), &id, s.ranks.rank(), true), "ncclCommInitRankConfig");
        } catch (...) {
            release();
            throw;
        }
    }
    ~nccl_library() override { release(); }

    bench::description describe(std::int64_t) const override { return {row_of(of_.what).nccl}; }
    void run(std::span<const call> calls) override {
        for (const call& c : calls) check(start(c), row_of(of_.what).nccl);
    }

    void settle() override {
        for (bool done = false; !done; sched_yield()) {
            gpu_.check(gpu_.runtime().stream_done(gpu_.stream(), &done), "cudaStreamQuery");
            check(0, row_of(of_.what).nccl);
        }
    }

private:
    int start(const call& c) const {
        const gpu_runtime& r = gpu_.runtime();
        const auto count = static_cast<std::size_t>(c.count), bytes = count * size_of(of_.type);
        switch (of_.what) {
            case collective::allreduce:
                return r.all_reduce(c.send, c.recv, count, of_.type, of_.op, comm_, gpu_.stream());
            case collective::reduce_scatter:
                return r.reduce_scatter(c.send, c.recv, count, of_.type, of_.op, comm_, gpu_.stream());
            case collective::allgather: return r.all_gather(c.send, c.recv, bytes, comm_, gpu_.stream());
            case collective::alltoall:
            case collective::gather:
            case collective::scatter: return exchange(c, bytes);
            case collective::broadcast: return r.broadcast(c.recv, c.recv, bytes, of_.root, comm_, gpu_.stream());
            case collective::reduce: break;
        }
        return r.reduce(c.send, c.recv, count, of_.type, of_.op, of_.root, comm_, gpu_.stream());
    }

    // Sends and receives in one group, as nccl-tests do.
    int exchange(const call& c, std::size_t block) const {
        const gpu_runtime& r = gpu_.runtime();
        const bool gathers = of_.what == collective::gather, scatters = of_.what == collective::scatter;
        const auto* given = static_cast<const std::byte*>(c.send);
        auto* due = static_cast<std::byte*>(c.recv);
        int code = r.group_start();
        for (int peer = 0; peer < ranks_ && code == 0; ++peer) {
            const std::size_t begin = block * static_cast<std::size_t>(peer);
            if (gathers ? peer == of_.root : !scatters || rank_ == of_.root)
                code = r.send(given + (gathers ? 0 : begin), block, peer, comm_, gpu_.stream());
            if (code == 0 && (scatters ? peer == of_.root : !gathers || rank_ == of_.root))
                code = r.recv(due + (scatters ? 0 : begin), block, peer, comm_, gpu_.stream());
        }
        const int ended = r.group_end();
        return code != 0 ? code : ended;
    }

    // Waits until the communicator has settled. @throws transport_error if this call or an earlier one has failed
    void check(int code, const char* call) const {
        while (comm_ != nullptr && (code == 0 || code == gpu_runtime::in_progress)) {
            const int asked = gpu_.runtime().status(comm_, &code);
            if (asked != 0) code = asked;
            if (code == 0) return;
            if (code == gpu_runtime::in_progress) sched_yield();
        }
        if (code != 0) throw transport_error("nccl", call, code, gpu_.runtime().nccl_error(code));
    }

    void release() noexcept {
        if (comm_ == nullptr) return;
        const gpu_runtime& r = gpu_.runtime();
        int code = r.finalize(comm_);
        while (code == gpu_runtime::in_progress && r.status(comm_, &code) == 0) sched_yield();
        if (code == 0) r.drop_comm(comm_);
        else r.abort(comm_);
        comm_ = nullptr;
    }

    const gpu& gpu_;
    int rank_, ranks_;
    nccl_comm comm_ = nullptr;
};

// Captures the calls of another back end in a graph, and replays it if the same calls come again.
class replayed final : public backend {
public:
    replayed(const setting& s, std::unique_ptr<backend> what)
        : backend(s.of), gpu_(*s.device), what_(std::move(what)) {}
    ~replayed() override { drop(); }

    bench::description describe(std::int64_t bytes) const override { return what_->describe(bytes); }

    void run(std::span<const call> calls) override {
        if (graph_ != nullptr && std::ranges::equal(calls, captured_)) return launch();
        drop();
        what_->run(calls);  // creates the resources of the calls
        what_->settle();
        gpu_.check(gpu_.runtime().begin_capture(gpu_.stream()), "cudaStreamBeginCapture");
        what_->run(calls);
        gpu_.check(gpu_.runtime().end_capture(gpu_.stream(), &graph_), "cudaStreamEndCapture");
        captured_.assign(calls.begin(), calls.end());
    }

    void settle() override {
        gpu_.wait();
        what_->settle();
    }

private:
    void launch() { gpu_.check(gpu_.runtime().launch(graph_, gpu_.stream()), "cudaGraphLaunch"); }
    void drop() noexcept {
        if (graph_ != nullptr) gpu_.runtime().drop_graph(std::exchange(graph_, nullptr));
    }

    const gpu& gpu_;
    std::unique_ptr<backend> what_;
    std::vector<call> captured_;
    gpu_graph graph_ = nullptr;
};

std::unique_ptr<backend> as_asked(const setting& s, std::unique_ptr<backend> what) {
    if (!s.graph) return what;
    return std::make_unique<replayed>(s, std::move(what));
}

}  // namespace

std::unique_ptr<backend> make_planned_on_device(const setting& s, plan p) {
    if (s.staging) return std::make_unique<through_host>(s, std::move(p));
    return as_asked(s, std::make_unique<queued>(s, std::move(p)));
}

std::unique_ptr<backend> make_nccl_backend(const setting& s) { return as_asked(s, std::make_unique<nccl_library>(s)); }

}  // namespace terrace::detail::bench
