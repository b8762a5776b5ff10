#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "support/gpu_stand_in_state.hpp"

namespace terrace::detail::test {

namespace {

namespace cuda_calls {

constexpr int not_supported = 801;

int device_count(int* count) {
    TERRACE_ENTER("cudaGetDeviceCount");
    *count = m.how.devices;
    return 0;
}

int use_device(int device) {
    TERRACE_ENTER("cudaSetDevice");
    current_device = device;
    return 0;
}

int device_of(const void* memory, int* device) {
    TERRACE_ENTER("cudaPointerGetAttributes");
    *device = m.device_of(memory);
    return 0;
}

int allocate(void** memory, std::size_t bytes) {
    TERRACE_ENTER("cudaMalloc");
    m.expect_no_capture("cudaMalloc");
    *memory = std::malloc(bytes);
    std::memset(*memory, 0xa5, bytes);
    m.memory[static_cast<std::byte*>(*memory)] = {bytes, current_device};
    return 0;
}

// Waits for the device, as cudaFree does.
int release(void* memory) {
    {
        const auto held = lock_machine();
        machine->expect_no_capture("cudaFree");
    }
    const auto is_idle = [&] {
        const auto held = lock_machine();
        const int device = machine->how.any_memory ? -1 : machine->device_of(memory);
        return std::all_of(machine->streams.begin(), machine->streams.end(),
                           [&](const auto& s) { return s->device != device || s->queue.empty(); });
    };
    while (!is_idle()) std::this_thread::yield();
    TERRACE_ENTER("cudaFree");
    m.rule(m.memory.erase(static_cast<std::byte*>(memory)) == 1, "cudaFree of what is not there");
    std::free(memory);
    return 0;
}

int make_stream(gpu_stream* stream) {
    TERRACE_ENTER("cudaStreamCreateWithFlags");
    m.streams.push_back(std::make_unique<stream_state>());
    m.streams.back()->device = current_device;
    *stream = reinterpret_cast<gpu_stream>(m.streams.back().get());
    return 0;
}

int drop_stream(gpu_stream stream) {
    TERRACE_ENTER("cudaStreamDestroy");
    m.rule(!m.stream_of(stream)->dropped, "a stream dropped twice");
    m.stream_of(stream)->dropped = true;
    return 0;
}

int stream_done(gpu_stream stream, bool* done) {
    TERRACE_ENTER("cudaStreamQuery");
    *done = m.stream_of(stream)->queue.empty();
    return 0;
}

int stream_captured(gpu_stream stream, bool* captured) {
    TERRACE_ENTER("cudaStreamIsCapturing");
    *captured = m.stream_of(stream)->capturing != nullptr;
    return 0;
}

int make_event(gpu_event* event) {
    TERRACE_ENTER("cudaEventCreateWithFlags");
    m.events.push_back(std::make_shared<event_state>());
    *event = reinterpret_cast<gpu_event>(m.events.back().get());
    return 0;
}

int drop_event(gpu_event event) {
    TERRACE_ENTER("cudaEventDestroy");
    const auto e = m.event_of(event);
    m.rule(!e->dropped, "an event dropped twice");
    e->dropped = true;
    return 0;
}

int record(gpu_event event, gpu_stream stream) {
    TERRACE_ENTER("cudaEventRecord");
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
    TERRACE_ENTER("cudaStreamWaitEvent");
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
    TERRACE_ENTER("cudaEventQuery");
    const auto e = m.event_of(event);
    m.expect_no_capture("cudaEventQuery");
    m.rule(e->captured == nullptr, "cudaEventQuery of an event of a graph");
    *done = e->done >= e->recorded;
    return 0;
}

int seconds_between(double* seconds, gpu_event from, gpu_event to) {
    TERRACE_ENTER("cudaEventElapsedTime");
    *seconds = std::chrono::duration<double>(m.event_of(to)->reached - m.event_of(from)->reached).count();
    return 0;
}

int copy(void* to, const void* from, std::size_t bytes, gpu_stream stream) {
    TERRACE_ENTER("cudaMemcpyAsync");
    m.put(m.stream_of(stream), {stream_op::kind::work, [=] { std::memmove(to, from, bytes); }, nullptr, 0, nullptr});
    return 0;
}

int write_value(gpu_stream stream, std::uint32_t* where, std::uint32_t value) {
    TERRACE_ENTER("cuStreamWriteValue32");
    stream_state* s = m.stream_of(stream);
    m.rule(s->capturing == nullptr, "a value that a thread of the host waits for, in a graph");
    m.put(s, {stream_op::kind::work, [=] { std::atomic_ref(*where).store(value, std::memory_order_release); }});
    return 0;
}

int wait_value(gpu_stream stream, std::uint32_t* where, std::uint32_t least) {
    TERRACE_ENTER("cuStreamWaitValue32");
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

}  // namespace cuda_calls

}  // namespace

void add_cuda_calls(gpu_runtime& table) {
    using namespace cuda_calls;
    table.cuda_error = [](int code) { return code == 2 ? "out of memory" : "injected"; };
    table.cuda_versions = [](int* driver, int* runtime) { return *driver = *runtime = 0; };
    table.device_count = device_count;
    table.use_device = use_device;
    table.device_name = [](int, char* name, std::size_t bytes) {
        std::strncpy(name, "stand-in", bytes);
        return 0;
    };
    table.device_of = device_of;
    table.allocate = allocate;
    table.release = release;
    table.allocate_pinned = allocate;
    table.release_pinned = release;
    table.make_stream = make_stream;
    table.drop_stream = drop_stream;
    table.stream_done = stream_done;
    table.stream_captured = stream_captured;
    table.make_event = make_event;
    table.drop_event = drop_event;
    table.record = record;
    table.wait = wait;
    table.event_done = event_done;
    table.copy = copy;
    table.write_value = write_value;
    table.wait_value = wait_value;
    table.capture_mode = capture_mode;
    table.make_timer = make_event;
    table.seconds_between = seconds_between;
    // Tests capture by members of gpu_stand_in, which check more.
    table.begin_capture = [](gpu_stream) { return not_supported; };
    table.end_capture = [](gpu_stream, gpu_graph*) { return not_supported; };
    table.launch = [](gpu_graph, gpu_stream) { return not_supported; };
    table.drop_graph = [](gpu_graph) { return not_supported; };
}

}  // namespace terrace::detail::test
