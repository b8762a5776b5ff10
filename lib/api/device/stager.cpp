#include "api/device/stager.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "api/core.hpp"
#include "base/partition.hpp"
#include "transport/nccl/module.hpp"

namespace terrace::detail {

// One call. Chunk k begins at element k * chunk of the vector, or of each block.
struct stager::work {
    const call_shape& call;
    traffic moves;
    const std::byte* send;
    std::byte* recv;
    std::int64_t chunk;
    std::size_t element;

    std::int64_t chunks() const { return div_ceil(call.count, chunk); }
    std::int64_t count(std::int64_t k) const { return std::min(chunk, call.count - k * chunk); }
    std::size_t bytes(std::int64_t k) const { return static_cast<std::size_t>(count(k)) * element; }
    /// Returns the offset of chunk k of block b in a buffer of blocks [bytes].
    std::size_t place(std::int64_t k, int b) const {
        return static_cast<std::size_t>(b * call.count + k * chunk) * element;
    }
};

stager::stager(const gpu_runtime& gpu, communicator& comm, int device, std::size_t chunk)
    : gpu_(gpu), comm_(comm), device_(device), bytes_(std::max<std::size_t>(chunk, 64)) {
    try {
        check(gpu_.use_device(device_), "cudaSetDevice");
        check(gpu_.allocate_pinned(&memory_, 2 * slots * bytes_), "cudaMallocHost");
        check(gpu_.make_stream(&in_), "cudaStreamCreate");
        check(gpu_.make_stream(&out_), "cudaStreamCreate");
        check(gpu_.make_event(&before_), "cudaEventCreate");
        auto* at = static_cast<std::byte*>(memory_);
        for (slot& s : slots_) {
            s.in = at, s.out = at + bytes_, at += 2 * bytes_;
            check(gpu_.make_event(&s.came), "cudaEventCreate");
            check(gpu_.make_event(&s.left), "cudaEventCreate");
        }
    } catch (...) {
        release();
        throw;
    }
}

stager::~stager() {
    settle();
    release();
}

stager::traffic stager::traffic_of(const call_shape& call) const {
    const bool is_root = call.root == comm_.rank(), broadcasts = call.what == collective::broadcast;
    const int given = row_of(call.what).blocks_given(is_root, comm_.size());
    const int got = broadcasts && is_root ? 0 : row_of(call.what).blocks_got(is_root, comm_.size());
    return {given, got, broadcasts || call.what == collective::allreduce};
}

void stager::run(collective what, const nccl::stream_call& c, int root, reduce_op op) {
    run(shape_of(what, c, comm_, op, root), c);
}

void stager::run(const call_shape& call, const nccl::stream_call& c) {
    const std::size_t element = size_of(call.type);
    const int blocks = row_of(call.what).blocks ? comm_.size() : 1;
    const std::size_t fits = bytes_ / element / static_cast<std::size_t>(blocks);
    const work w{call,
                 traffic_of(call),
                 static_cast<const std::byte*>(c.send),
                 static_cast<std::byte*>(c.recv),
                 std::max<std::int64_t>(static_cast<std::int64_t>(fits), 1),
                 element};
    if (element * static_cast<std::size_t>(blocks) > bytes_)
        throw usage_error(fmt::format("{}: chunks of {} bytes hold no element of each of {} blocks; make them longer",
                                      to_string(call.what), bytes_, blocks));
    try {
        check(gpu_.use_device(device_), "cudaSetDevice");
        check(gpu_.record(before_, c.stream), "cudaEventRecord");
        for (gpu_stream s : {in_, out_}) check(gpu_.wait(s, before_), "cudaStreamWaitEvent");
        // Numbers of chunks that have reached each state.
        std::int64_t coming = 0, begun = 0, leaving = 0, through = 0;
        const std::int64_t chunks = w.chunks();
        while (through < chunks) {
            const std::int64_t seen = coming + begun + leaving + through;
            if (coming < std::min(chunks, through + slots)) copy_in(w, coming++);
            if (begun < coming && done(slot_of(begun).came)) begin(w, begun++);
            if (leaving < begun && slot_of(leaving).under_way.test()) copy_out(w, leaving++);
            if (through < leaving && done(slot_of(through).left)) ++through;
            if (coming + begun + leaving + through == seen) std::this_thread::yield();
        }
    } catch (...) {
        settle();  // no copy or call may still use a slot
        throw;
    }
}

void stager::copy_in(const work& w, std::int64_t chunk) {
    slot& s = slot_of(chunk);
    for (int b = 0; b < w.moves.in; ++b)
        check(gpu_.copy(s.in + static_cast<std::size_t>(b) * w.bytes(chunk), w.send + w.place(chunk, b), w.bytes(chunk),
                        in_),
              "cudaMemcpyAsync");
    check(gpu_.record(s.came, in_), "cudaEventRecord");
}

void stager::begin(const work& w, std::int64_t chunk) {
    slot& s = slot_of(chunk);
    call_shape part = w.call;
    part.count = w.count(chunk);
    s.under_way = core_of(comm_).start({std::move(part), {s.in, w.moves.in_place ? s.in : s.out}});
}

void stager::copy_out(const work& w, std::int64_t chunk) {
    slot& s = slot_of(chunk);
    s.under_way = {};
    const std::byte* from = w.moves.in_place ? s.in : s.out;
    for (int b = 0; b < w.moves.out; ++b)
        check(gpu_.copy(w.recv + w.place(chunk, b), from + static_cast<std::size_t>(b) * w.bytes(chunk), w.bytes(chunk),
                        out_),
              "cudaMemcpyAsync");
    check(gpu_.record(s.left, out_), "cudaEventRecord");
}

// Destructors of requests wait for their calls. Copies are short, so the thread polls.
void stager::settle() noexcept {
    for (slot& s : slots_) s.under_way = {};
    for (const gpu_stream s : {in_, out_})
        for (bool is = false; s != nullptr && gpu_.stream_done(s, &is) == 0 && !is;) std::this_thread::yield();
}

void stager::release() noexcept {
    for (slot& s : slots_)
        for (gpu_event* e : {&s.came, &s.left})
            if (*e != nullptr) gpu_.drop_event(std::exchange(*e, nullptr));
    if (before_ != nullptr) gpu_.drop_event(std::exchange(before_, nullptr));
    for (gpu_stream* s : {&in_, &out_})
        if (*s != nullptr) gpu_.drop_stream(std::exchange(*s, nullptr));
    if (memory_ != nullptr) gpu_.release_pinned(std::exchange(memory_, nullptr));
}

void stager::check(int code, const char* what) const {
    if (code != 0) throw transport_error("cuda", what, code, gpu_.cuda_error(code));
}

}  // namespace terrace::detail

namespace terrace {

using namespace detail;

staging::staging(communicator& comm, int device, const options& o, std::size_t chunk)
    : stager_(std::make_unique<stager>(need_gpu_runtime(o.gpu_module), comm, device, chunk)) {}
staging::staging(std::unique_ptr<stager> s) noexcept : stager_(std::move(s)) {}
staging::staging(staging&& other) noexcept = default;
staging& staging::operator=(staging&& other) noexcept = default;
staging::~staging() = default;

void staging::allreduce(const call& c, reduce_op op) { stager_->run(collective::allreduce, c, 0, op); }

void staging::reduce_scatter(const call& c, reduce_op op) { stager_->run(collective::reduce_scatter, c, 0, op); }

void staging::allgather(const call& c) { stager_->run(collective::allgather, c); }

void staging::alltoall(const call& c) { stager_->run(collective::alltoall, c); }

void staging::gather(const call& c, int root) { stager_->run(collective::gather, c, root); }

void staging::scatter(const call& c, int root) { stager_->run(collective::scatter, c, root); }

void staging::broadcast(const call& c, int root) { stager_->run(collective::broadcast, c, root); }

void staging::reduce(const call& c, int root, reduce_op op) { stager_->run(collective::reduce, c, root, op); }

}  // namespace terrace
