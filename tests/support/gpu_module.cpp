// A module that replaces terrace-nccl.so in programs under mpirun (TERRACE_GPU_MODULE): it uses host memory instead of
// GPUs, and MPI instead of NCCL. Its times show nothing about a GPU. The thread that enqueues work in a stream does the
// work at once, or keeps it for a graph. Order and rules are not checked: gpu_stand_in does that. NCCL's part is in
// gpu_module_nccl.cpp.

#include "support/gpu_module.hpp"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include <terrace/version.hpp>

#include "kernels/reduce.hpp"

namespace terrace::detail::test::gpu_module {

namespace {

using graph = std::vector<work>;
using clock_type = std::chrono::steady_clock;

struct stream_state {
    graph* capturing = nullptr;
};
struct event_state {
    graph* capturing = nullptr;
    clock_type::time_point reached{};
};

std::map<const std::byte*, std::size_t> memory;  // bytes of device memory, by address
std::vector<stream_state*> streams;

stream_state& at(gpu_stream s) { return *reinterpret_cast<stream_state*>(s); }
event_state& at(gpu_event e) { return *reinterpret_cast<event_state*>(e); }

}  // namespace

int put(gpu_stream s, work w) {
    if (at(s).capturing != nullptr) at(s).capturing->push_back(std::move(w));
    else w();
    return 0;
}

namespace {

int allocate(void** m, std::size_t bytes) {
    *m = std::malloc(bytes);
    std::memset(*m, 0xa5, bytes);
    return 0;
}

int allocate_on_device(void** m, std::size_t bytes) {
    memory[static_cast<std::byte*>(*m = std::malloc(bytes))] = bytes;
    return 0;
}

int release(void* m) {
    memory.erase(static_cast<std::byte*>(m));
    std::free(m);
    return 0;
}

int device_of(const void* m, int* device) {
    const auto* p = static_cast<const std::byte*>(m);
    const auto after = memory.upper_bound(p);
    *device = after != memory.begin() && p < std::prev(after)->first + std::prev(after)->second ? 0 : -1;
    return 0;
}

int record(gpu_event e, gpu_stream s) {
    at(e).capturing = at(s).capturing;
    at(e).reached = clock_type::now();
    return 0;
}

int wait(gpu_stream s, gpu_event e) {
    if (at(e).capturing != nullptr) at(s).capturing = at(e).capturing;
    return 0;
}

// Waits in the calling thread until another thread has written the value.
int wait_value(gpu_stream, std::uint32_t* where, std::uint32_t least) {
    while (static_cast<std::int32_t>(std::atomic_ref(*where).load(std::memory_order_acquire) - least) < 0)
        sched_yield();
    return 0;
}

int seconds_between(double* seconds, gpu_event from, gpu_event to) {
    *seconds = std::chrono::duration<double>(at(to).reached - at(from).reached).count();
    return 0;
}

int end_capture(gpu_stream s, gpu_graph* ready) {
    graph* captured = at(s).capturing;
    for (stream_state* each : streams)
        if (each->capturing == captured) each->capturing = nullptr;
    *ready = reinterpret_cast<gpu_graph>(captured);
    return 0;
}

int launch(gpu_graph g, gpu_stream) {
    for (const work& w : *reinterpret_cast<graph*>(g)) w();
    return 0;
}

int combine(void* dst, const void* const* sources, int k, std::int64_t count, element_type type, reduce_op op,
            int divisor, gpu_stream s) {
    return put(s, [=, from = std::vector<const void*>(sources, sources + k)] {
        find_reduce(type, op)(dst, from.data(), k, count, divisor);
    });
}

}  // namespace

/// Allocates memory of the "device" for tests that do not call CUDA. The memory is never released.
extern "C" __attribute__((visibility("default"))) void* terrace_test_device_memory(std::size_t bytes) {
    void* made = nullptr;
    allocate_on_device(&made, bytes);
    return made;
}

extern "C" __attribute__((visibility("default"))) const gpu_runtime terrace_gpu_runtime{
    .version = header_version,
    .bytes = sizeof(gpu_runtime),
    .cuda_error = [](int) { return "no CUDA here"; },
    .cuda_versions =
        [](int* driver, int* runtime) {
            *driver = *runtime = 1;  // 0.0
            return 0;
        },
    .device_count =
        [](int* count) {
            *count = 1;
            return 0;
        },
    .use_device = [](int) { return 0; },
    .device_name =
        [](int, char* name, std::size_t bytes) {
            std::strncpy(name, "stand-in (memory of the host, no GPU)", bytes);
            return 0;
        },
    .device_of = device_of,
    .allocate = allocate_on_device,
    .release = release,
    .allocate_pinned = allocate,
    .release_pinned = release,
    .make_stream =
        [](gpu_stream* s) {
            streams.push_back(new stream_state);
            *s = reinterpret_cast<gpu_stream>(streams.back());
            return 0;
        },
    .drop_stream =
        [](gpu_stream s) {
            std::erase(streams, &at(s));
            delete &at(s);
            return 0;
        },
    .stream_done =
        [](gpu_stream, bool* done) {
            *done = true;
            return 0;
        },
    .stream_captured =
        [](gpu_stream s, bool* captured) {
            *captured = at(s).capturing != nullptr;
            return 0;
        },
    .make_event =
        [](gpu_event* e) {
            *e = reinterpret_cast<gpu_event>(new event_state);
            return 0;
        },
    .drop_event =
        [](gpu_event e) {
            delete &at(e);
            return 0;
        },
    .record = record,
    .wait = wait,
    .event_done =
        [](gpu_event, bool* done) {
            *done = true;
            return 0;
        },
    .copy = [](void* to, const void* from, std::size_t bytes,
               gpu_stream s) { return put(s, [=] { std::memmove(to, from, bytes); }); },
    .write_value =
        [](gpu_stream, std::uint32_t* where, std::uint32_t value) {
            std::atomic_ref(*where).store(value, std::memory_order_release);
            return 0;
        },
    .wait_value = wait_value,
    .capture_mode = [](int*) { return 0; },
    .make_timer =
        [](gpu_event* e) {
            *e = reinterpret_cast<gpu_event>(new event_state);
            return 0;
        },
    .seconds_between = seconds_between,
    .begin_capture =
        [](gpu_stream s) {
            at(s).capturing = new graph;
            return 0;
        },
    .end_capture = end_capture,
    .launch = launch,
    .drop_graph =
        [](gpu_graph g) {
            delete reinterpret_cast<graph*>(g);
            return 0;
        },
    .nccl_error = [](int) { return "no NCCL here"; },
    .nccl_version =
        [](int* version) {
            *version = 22809;
            return 0;
        },
    .make_id = make_id,
    .make_comm = make_comm,
    .split = split,
    .status = [](nccl_comm, int* code) { return *code = 0; },
    .finalize = [](nccl_comm) { return 0; },
    .drop_comm = drop_comm,
    .abort = [](nccl_comm) { return 0; },
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

}  // namespace terrace::detail::test::gpu_module
