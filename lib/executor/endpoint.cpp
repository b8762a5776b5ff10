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

void endpoint::add(std::unique_ptr<node_stage_runner> node) {
    if (!node) return;
    node_ = std::move(node);
    const capabilities& more = node_->can();
    can_.stages = more.stages;
    can_.domain = more.domain;
    can_.slot_bytes = more.slot_bytes;
    can_.slots = more.slots;
}

void endpoint::add(std::unique_ptr<stage_runner> collectives) {
    if (!collectives) return;
    collectives_ = std::move(collectives);
    const capabilities& more = collectives_->can();
    can_.mpi_stages = more.mpi_stages;
    can_.mpi_groups = more.mpi_groups;
    can_.slots = more.slots;
}

std::string endpoint::name() const {
    const std::string& wire = wire_->traits().name;
    return node_ ? fmt::format("shm in nodes, {}", wire) : wire;
}

std::span<const int> endpoint::poll() noexcept {
    const bool is_wire_alone = !node_ && !collectives_;
    std::span<const int> done;
    if (in_flight_ > 0 || is_wire_alone) {
        done = wire_->poll();
        in_flight_ -= done.size();
    }
    if (is_wire_alone) return done;
    done_.assign(done.begin(), done.end());
    if (node_) node_->poll(done_);
    if (!collectives_) return done_;
    const std::size_t before = done_.size();
    collectives_->poll(done_);
    in_flight_ -= done_.size() - before;
    return done_;
}

std::shared_ptr<std::byte> endpoint::allocate(std::size_t bytes) {
    if (node_)
        if (std::shared_ptr<std::byte> window = node_->allocate_window(bytes)) return window;
    heap_memory memory = take_memory(bytes, "a window");
    std::memset(memory.get(), 0, bytes);
    return {memory.release(), freeing{}};
}

void check_fault(const endpoint& net) {
    if (const auto& f = net.fault()) throw transport_error(f->library, f->call, f->code, f->message);
}

}  // namespace terrace::detail
