#include "transport/nccl/watchdog.hpp"

#include <chrono>
#include <utility>

namespace terrace::detail {

watchdog::watchdog(std::mutex& guard, duty d)
    : guard_(guard), duty_(std::move(d)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

void watchdog::run(const std::stop_token& stop) {
    constexpr auto interval = std::chrono::milliseconds(10);
    std::unique_lock lock(guard_);
    duty_.start();
    while (!stop.stop_requested()) {
        if (!wake_.wait(lock, stop, duty_.has_work)) return;
        wake_.wait_for(lock, stop, interval, [] { return false; });
        duty_.look();
    }
}

}  // namespace terrace::detail
