#include <terrace/communicator.hpp>

#include <numeric>

#include <fmt/format.h>

#include "api/core.hpp"

namespace terrace {

communicator::communicator(std::unique_ptr<core> c) noexcept : core_(std::move(c)) {}
communicator::communicator(communicator&&) noexcept = default;
communicator& communicator::operator=(communicator&&) noexcept = default;
communicator::~communicator() = default;

int communicator::rank() const noexcept { return core_->rank(); }
int communicator::size() const noexcept { return core_->size(); }

namespace {

call_shape allreduce_of(std::int64_t count, element_type type, reduce_op op) {
    return {.what = collective::allreduce, .count = count, .counts = {}, .type = type, .op = op};
}

call_shape reduce_scatter_of(std::int64_t count, element_type type, reduce_op op) {
    return {.what = collective::reduce_scatter, .count = count, .counts = {}, .type = type, .op = op};
}

call_shape allgather_of(std::int64_t count, element_type type) {
    return {.what = collective::allgather, .count = count, .counts = {}, .type = type};
}

call_shape broadcast_of(std::int64_t count, element_type type, int root) {
    return {.what = collective::broadcast, .count = count, .counts = {}, .type = type, .root = root};
}

call_shape reduce_of(std::int64_t count, element_type type, int root, reduce_op op) {
    return {.what = collective::reduce, .count = count, .counts = {}, .type = type, .op = op, .root = root};
}

}  // namespace

std::shared_ptr<std::byte> communicator::allocate_bytes(std::size_t count, std::size_t element) {
    return core_->allocate(count, element);
}

request communicator::start(const call_shape& call, const void* send, void* recv) {
    return core_->start(call, send, recv);
}

void communicator::allreduce(const void* send, void* recv, std::int64_t count, element_type type, reduce_op op) {
    core_->run(allreduce_of(count, type, op), send, recv);
}

request communicator::allreduce_async(const void* send, void* recv, std::int64_t count, element_type type,
                                      reduce_op op) {
    return start(allreduce_of(count, type, op), send, recv);
}

void communicator::reduce_scatter(const void* send, void* recv, std::int64_t count, element_type type, reduce_op op) {
    core_->run(reduce_scatter_of(count, type, op), send, recv);
}

void communicator::reduce_scatter(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type,
                                  reduce_op op) {
    core_->run({.what = collective::reduce_scatter, .counts = {counts.begin(), counts.end()}, .type = type, .op = op},
               send, recv);
}

request communicator::reduce_scatter_async(const void* send, void* recv, std::int64_t count, element_type type,
                                           reduce_op op) {
    return start(reduce_scatter_of(count, type, op), send, recv);
}

void communicator::allgather(const void* send, void* recv, std::int64_t count, element_type type) {
    core_->run(allgather_of(count, type), send, recv);
}

void communicator::allgather(const void* send, void* recv, std::span<const std::int64_t> counts, element_type type) {
    core_->run({.what = collective::allgather, .counts = {counts.begin(), counts.end()}, .type = type}, send, recv);
}

request communicator::allgather_async(const void* send, void* recv, std::int64_t count, element_type type) {
    return start(allgather_of(count, type), send, recv);
}

void communicator::broadcast(void* data, std::int64_t count, element_type type, int root) {
    core_->run(broadcast_of(count, type, root), data, data);
}

request communicator::broadcast_async(void* data, std::int64_t count, element_type type, int root) {
    return start(broadcast_of(count, type, root), data, data);
}

void communicator::reduce(const void* send, void* recv, std::int64_t count, element_type type, int root, reduce_op op) {
    core_->run(reduce_of(count, type, root, op), send, recv);
}

request communicator::reduce_async(const void* send, void* recv, std::int64_t count, element_type type, int root,
                                   reduce_op op) {
    return start(reduce_of(count, type, root, op), send, recv);
}

void communicator::expect(bool fits, const char* call, std::size_t send, std::size_t recv) {
    if (!fits)
        throw usage_error(fmt::format("{}: send has {} elements and recv {}; they do not fit", call, send, recv));
}

void communicator::expect_blocks(const char* call, std::span<const std::int64_t> counts, std::int64_t all,
                                 std::int64_t own) const {
    if (counts.size() != static_cast<std::size_t>(size()))
        throw usage_error(fmt::format("{}: {} counts for {} ranks", call, counts.size(), size()));
    for (std::int64_t count : counts)
        if (count < 0) throw usage_error(fmt::format("{}: a count is {}; none may be negative", call, count));
    const std::int64_t sum = std::reduce(counts.begin(), counts.end());
    const std::int64_t mine = counts[static_cast<std::size_t>(rank())];
    if (all != sum || own != mine)
        throw usage_error(fmt::format("{}: counts add up to {} with {} for rank {}, but the buffers hold {} and {}",
                                      call, sum, mine, rank(), all, own));
}

std::optional<communicator> communicator::split(int color, int key) {
    std::unique_ptr<core> part = core_->split(color, key);
    if (!part) return {};
    return communicator(std::move(part));
}

std::string communicator::shape(std::int64_t bytes) const { return core_->shape(bytes); }

}  // namespace terrace
