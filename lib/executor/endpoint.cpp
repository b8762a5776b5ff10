#include "executor/endpoint.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/heap.hpp"
#include "base/index.hpp"

namespace terrace::detail {

endpoint::endpoint(connection by, int slots) : by_(std::move(by)), wire_(by_.net->connect(by_.ranks, slots)) {
    done_.reserve(at(slots));
}

std::string endpoint::name() const {
    const std::string& wire = wire_->traits().name;
    return stages_.node() ? fmt::format("shm in nodes, {}", wire) : wire;
}

std::span<const int> endpoint::poll() noexcept {
    if (!stages_.any()) {
        const std::span<const int> done = wire_->poll();
        in_flight_ -= done.size();
        return done;
    }
    done_.clear();
    if (in_flight_ > 0) {
        const std::span<const int> done = wire_->poll();
        in_flight_ -= done.size();
        done_.insert(done_.end(), done.begin(), done.end());
    }
    in_flight_ -= stages_.poll(done_);
    return done_;
}

// Messages of both kinds need somebody who looks after them.
void endpoint::idle() noexcept {
    if (in_flight_ > 0 || expects_control_ || !stages_.node() || stages_.node()->wait()) wire_->idle();
}

bool endpoint::abandon() noexcept {
    const bool ended = wire_->abandon();
    return stages_.abandon() && ended;
}

std::shared_ptr<std::byte> endpoint::allocate(std::size_t bytes) {
    if (node_stage_runner* node = stages_.node())
        if (std::shared_ptr<std::byte> window = node->allocate_window(bytes)) return window;
    heap_memory memory = take_memory(bytes, "a window");
    std::memset(memory.get(), 0, bytes);
    return {memory.release(), freeing{}};
}

void check_fault(const endpoint& net) {
    if (const auto& f = net.fault()) throw transport_error(f->library, f->call, f->code, f->message);
}

}  // namespace terrace::detail
