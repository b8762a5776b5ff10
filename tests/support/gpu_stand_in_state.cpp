#include "support/gpu_stand_in_state.hpp"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

namespace terrace::detail::test {

void gpu_stand_in::state::rule(bool holds, const std::string& text) {
    if (!holds && broken.size() < 20) broken.push_back(text);
}

int gpu_stand_in::state::entering(const char* function) {
    ++called[function];
    for (auto i = injections.begin(); i != injections.end(); ++i) {
        if (i->function != function || --i->left > 0) continue;
        const int code = i->code;
        injections.erase(i);
        return code;
    }
    return 0;
}

int gpu_stand_in::state::device_of(const void* at) const {
    if (how.any_memory) return current_device;
    const auto* p = static_cast<const std::byte*>(at);
    auto after = memory.upper_bound(p);
    if (after == memory.begin()) return -1;
    const auto& [begin, what] = *std::prev(after);
    return p < begin + what.first ? what.second : -1;
}

void gpu_stand_in::state::check_memory(int device, const void* at, std::size_t bytes, const char* what) {
    if (how.any_memory || bytes == 0) return;
    const auto* p = static_cast<const std::byte*>(at);
    auto after = memory.upper_bound(p);
    const bool inside = after != memory.begin() && std::prev(after)->second.second == device &&
                        p + bytes <= std::prev(after)->first + std::prev(after)->second.first;
    rule(inside, fmt::format("{}: {} bytes that are not all memory of device {}", what, bytes, device));
}

void gpu_stand_in::state::block_until(const std::function<bool()>& holds, const std::string& what) {
    const auto began = std::chrono::steady_clock::now();
    ++blocked;
    for (bool through = false; !through;) {
        {
            const auto held = lock_machine();
            const bool late = std::chrono::steady_clock::now() - began > std::chrono::seconds(10);
            rule(!late, what);
            through = late || over || holds();
        }
        std::this_thread::yield();
    }
    --blocked;
}

void gpu_stand_in::state::expect_no_capture(const char* what) {
    for (const auto& s : streams)
        rule(capture_mode_here == gpu_runtime::relaxed || s->device != current_device || s->capturing == nullptr,
             fmt::format("{} during a capture", what));
}

std::shared_ptr<event_state> gpu_stand_in::state::event_of(gpu_event e) {
    for (const auto& each : events)
        if (each.get() == reinterpret_cast<event_state*>(e)) return each;
    rule(false, "an event that is none");
    return events.front();
}

void gpu_stand_in::state::put(stream_state* s, stream_op op) {
    if (s->capturing != nullptr) {
        if (op.network) ++op.network->comm->graphs;
        s->capturing->entries.push_back({s, std::move(op)});
        s->capturing->clocks[s][s] = ++s->capturing->lengths[s];
    } else {
        enter(s, std::move(op));
    }
}

void gpu_stand_in::state::enter(stream_state* s, stream_op op) {
    if (op.network) {
        network_op& n = *op.network;
        n.ticket = devices[static_cast<std::size_t>(s->device)].issued++;
        n.number = n.comm->issued++;
    }
    s->queue.push_back(std::move(op));
    changed.notify_all();
}

void gpu_stand_in::state::run(const std::stop_token& stop) {
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
            lock.unlock();  // lets other threads in
            lock.lock();
        } else {
            changed.wait_for(lock, stop, std::chrono::milliseconds(1), [] { return false; });
        }
    }
}

bool gpu_stand_in::state::step(stream_state& s) {
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
            if (static_cast<std::int32_t>(std::atomic_ref(*op.value).load(std::memory_order_acquire) - op.least) < 0)
                return false;
            break;
        case stream_op::kind::network:
            if (!run_network(s, op.network)) return false;
            break;
    }
    s.queue.pop_front();
    return true;
}

}  // namespace terrace::detail::test
