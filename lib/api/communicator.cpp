#include <terrace/communicator.hpp>

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "api/core.hpp"
#include "api/parts.hpp"
#include "plan/predicted_time.hpp"

namespace terrace {

using namespace detail;

communicator::communicator(std::unique_ptr<communicator_core> core) noexcept : core_(std::move(core)) {}
communicator::communicator(communicator&&) noexcept = default;
communicator& communicator::operator=(communicator&&) noexcept = default;
communicator::~communicator() = default;

int communicator::rank() const noexcept { return core_->ranks().own; }
int communicator::size() const noexcept { return core_->net().size(); }

request communicator::allreduce_async(const void* send, void* recv, std::int64_t count, element_type type,
                                      reduction op) {
    return core_->start({reduction_of(collective::allreduce, count, type, op), {send, recv}, op.factor()});
}

request communicator::allreduce_async(const void* send, void* recv, std::int64_t count, element_type type,
                                      void* rounding_errors) {
    return core_->start(
        {reduction_of(collective::allreduce, count, type, reduce_op::sum), {send, recv, rounding_errors}});
}

request communicator::reduce_scatter_async(const void* send, void* recv, std::int64_t count, element_type type,
                                           reduction op) {
    return core_->start({reduction_of(collective::reduce_scatter, count, type, op), {send, recv}, op.factor()});
}

request communicator::reduce_scatter_async(const void* send, void* recv, std::span<const std::int64_t> counts,
                                           element_type type, reduction op) {
    return core_->start({reduction_of(collective::reduce_scatter, counts, type, op), {send, recv}, op.factor()});
}

request communicator::allgather_async(const void* send, void* recv, std::int64_t count, element_type type) {
    return core_->start({transfer_of(collective::allgather, count, type), {send, recv}});
}

request communicator::allgather_async(const void* send, void* recv, std::span<const std::int64_t> counts,
                                      element_type type) {
    return core_->start({transfer_of(collective::allgather, counts, type), {send, recv}});
}

request communicator::alltoall_async(const void* send, void* recv, std::int64_t count, element_type type) {
    return core_->start({transfer_of(collective::alltoall, count, type), {send, recv}});
}

request communicator::alltoallv_async(const void* send, std::span<const std::int64_t> send_counts, void* recv,
                                      std::int64_t capacity, std::span<std::int64_t> recv_counts, std::int64_t most,
                                      element_type type) {
    return core_->start(
        uneven_blocks{collective::alltoall, send, send_counts, recv, capacity, recv_counts, most, type});
}

request communicator::gather_async(const void* send, void* recv, std::int64_t count, element_type type, int root) {
    return core_->start({transfer_of(collective::gather, count, type, root), {send, recv}});
}

request communicator::gather_async(const void* send, void* recv, std::span<const std::int64_t> counts,
                                   element_type type, int root) {
    return core_->start({transfer_of(collective::gather, counts, type, root), {send, recv}});
}

request communicator::gatherv_async(const void* send, std::int64_t count, void* recv, std::int64_t capacity,
                                    std::span<std::int64_t> recv_counts, element_type type, int root) {
    return core_->start(
        uneven_blocks{collective::gather, send, {&count, 1}, recv, capacity, recv_counts, 0, type, root});
}

request communicator::scatterv_async(const void* send, std::span<const std::int64_t> send_counts, void* recv,
                                     std::int64_t capacity, std::int64_t& count, element_type type, int root) {
    return core_->start(
        uneven_blocks{collective::scatter, send, send_counts, recv, capacity, {&count, 1}, 0, type, root});
}

request communicator::scatter_async(const void* send, void* recv, std::int64_t count, element_type type, int root) {
    return core_->start({transfer_of(collective::scatter, count, type, root), {send, recv}});
}

request communicator::scatter_async(const void* send, void* recv, std::span<const std::int64_t> counts,
                                    element_type type, int root) {
    return core_->start({transfer_of(collective::scatter, counts, type, root), {send, recv}});
}

request communicator::barrier_async() { return core_->start({barrier_shape()}); }

request communicator::broadcast_async(void* data, std::int64_t count, element_type type, int root) {
    return core_->start({transfer_of(collective::broadcast, count, type, root), {data, data}});
}

request communicator::reduce_async(const void* send, void* recv, std::int64_t count, element_type type, int root,
                                   reduction op) {
    return core_->start({reduction_of(collective::reduce, count, type, op, root), {send, recv}, op.factor()});
}

void communicator::group_start() { core_->group_start(); }

void communicator::group_start(std::uint64_t number) { core_->group_start(number); }

void communicator::group_end() { core_->group_end(); }

void communicator::send(const void* data, std::int64_t count, element_type type, int to, int tag) {
    core_->send(data, count, type, to, tag).wait();
}

request communicator::send_async(const void* data, std::int64_t count, element_type type, int to, int tag) {
    return core_->send(data, count, type, to, tag);
}

received communicator::recv(void* data, std::int64_t count, element_type type, int from, int tag) {
    received result;
    core_->recv(data, count, type, from, tag, &result).wait();
    return result;
}

request communicator::recv_async(void* data, std::int64_t count, element_type type, int from, int tag,
                                 received* result) {
    return core_->recv(data, count, type, from, tag, result);
}

void communicator::expect_no_group(const char* call) const { core_->expect_no_group(call); }

void communicator::expect_equal(const char* call, std::int64_t send, std::int64_t recv) {
    if (send != recv)
        throw usage_error(
            fmt::format("{}: send has {} elements and recv has {}; pass buffers of the same count", call, send, recv));
}

void communicator::expect_blocks(const char* call, std::int64_t all, std::int64_t own, const block_names& names) const {
    if (all != own * size())
        throw usage_error(
            fmt::format("{0}: {1} has {2} elements and {3} has {4}; on {5} ranks {1} requires {5} times as many as {3}",
                        call, names.all, all, names.own, own, size()));
}

void communicator::expect_blocks(const char* call, std::span<const std::int64_t> counts, std::int64_t all,
                                 std::int64_t own) const {
    expect_counts(call, counts, rank(), size(), all, own);
}

void communicator::expect_sum(const char* call, std::span<const std::int64_t> counts, std::int64_t all) {
    if (const std::int64_t sum = std::reduce(counts.begin(), counts.end()); sum != all)
        throw usage_error(fmt::format("{}: the counts add up to {}, but send has {} elements", call, sum, all));
}

std::int64_t communicator::expect_block_each(const char* call, std::int64_t send, std::int64_t recv) const {
    expect_equal(call, send, recv);
    if (send % size() != 0)
        throw usage_error(
            fmt::format("{}: the buffers have {} elements, which are not a block for each of {} ranks; "
                        "pass a multiple of {}",
                        call, send, size(), size()));
    return send / size();
}

std::shared_ptr<std::byte> communicator::allocate_bytes(std::size_t count, std::size_t element) {
    return detail::allocate(*core_, count, element);
}

std::optional<communicator> communicator::split(int color, int key) {
    std::unique_ptr<communicator_core> part = detail::split(*core_, color, key);
    if (!part) return {};
    return communicator(std::move(part));
}

communicator communicator::split_by_node(int key) { return communicator(detail::split_by_node(*core_, key)); }

communicator communicator::shrink() { return communicator(detail::shrink(*core_)); }

std::string communicator::shape(std::int64_t bytes) const {
    const plan_data& p = data_of(core_->planned());
    return describe(p.machine, p.choose(collective::allreduce, bytes).stages);
}
terrace::statistics communicator::statistics() const {
    const auto held = core_->hold();
    return core_->reports().counted(core_->running());
}
double communicator::predicted(std::int64_t bytes) const {
    return predicted_time(data_of(core_->planned()), collective::allreduce, bytes);
}
double communicator::predicted_allgather(std::int64_t bytes) const {
    return predicted_time(data_of(core_->planned()), collective::allgather, bytes);
}
void communicator::keep_programs(int shapes) {
    const auto held = core_->hold();
    core_->calls().runner().keep_programs(static_cast<std::size_t>(std::max(shapes, 0)));
}
void communicator::set_timeout(std::chrono::duration<double> timeout) { core_->set_timeout(timeout); }
void communicator::abort() noexcept { core_->abort("the program has ended the calls: communicator::abort"); }

bool communicator::is_traced() const noexcept { return core_->reports().events().keeps_everything(); }
void communicator::trace(std::string_view track, std::string_view name, std::chrono::steady_clock::time_point begin,
                         std::chrono::steady_clock::time_point end) {
    if (!is_traced()) return;
    const auto held = core_->hold();
    core_->reports().events().add(std::string(track), std::string(name), begin, end);
}

}  // namespace terrace
