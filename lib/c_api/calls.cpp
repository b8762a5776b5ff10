#include <cstdint>
#include <exception>
#include <iterator>
#include <map>
#include <span>

#include "base/element_types.hpp"
#include "c_api/handles.hpp"

using terrace::element_type;
using terrace::reduce_op;
using namespace terrace::detail;

namespace {

constexpr int type_count = std::size(all_element_types), op_count = std::size(all_reduce_ops);

constexpr bool is_type(int type) { return type >= 0 && type < type_count; }
constexpr bool is_op(int op) { return op >= 0 && op < op_count; }

template <class Count>
std::span<Count> by_rank(const terrace::communicator& c, Count* counts, const char* name) {
    return {&existing(counts, name), static_cast<std::size_t>(c.size())};
}

// Counts that only the root has may be null on other ranks.
template <class Count>
std::span<Count> by_rank_on(int root, const terrace::communicator& c, Count* counts, const char* name) {
    return c.rank() == root ? by_rank(c, counts, name) : std::span<Count>();
}

// Depth of the groups that this thread has open, by communicator.
thread_local std::map<const terrace_communicator*, int> open_groups;

}  // namespace

namespace terrace::detail {

element_type known(int type) {
    if (is_type(type)) return static_cast<element_type>(type);
    throw usage_error(fmt::format("there is no element type {}: types are 0 to {}", type, type_count - 1));
}

reduction known(const terrace_reduction& by) {
    if (!is_op(by.op))
        throw usage_error(
            fmt::format("there is no operation {}: operations are 0 to {}", static_cast<int>(by.op), op_count - 1));
    const auto op = static_cast<reduce_op>(by.op);
    const reduction made = op == reduce_op::premul_sum ? premul_sum(by.factor) : op;
    return by.exact != 0 ? exact(made) : made;
}

void expect_no_group(const terrace_communicator& communicator) {
    if (open_groups.contains(&communicator))
        throw usage_error("a call that waits was made while a group is open; pass it a request");
}

}  // namespace terrace::detail

// Names are literals, so they end with a null character.
const char* terrace_element_type_name(int type) {
    return is_type(type) ? to_string(static_cast<element_type>(type)).data() : nullptr;
}
size_t terrace_size_of(int type) { return is_type(type) ? size_of(static_cast<element_type>(type)) : 0; }
const char* terrace_reduce_op_name(int op) {
    return is_op(op) ? to_string(static_cast<reduce_op>(op)).data() : nullptr;
}
int terrace_is_defined(int op, int type) {
    return is_op(op) && is_type(type) && is_defined(static_cast<reduce_op>(op), static_cast<element_type>(type));
}

terrace_status terrace_test(terrace_request* request, int* complete) {
    return guarded([&] { existing(complete, "complete") = existing(request, "request").of.test() ? 1 : 0; });
}
terrace_status terrace_wait(terrace_request* request) {
    return guarded([&] { existing(request, "request").of.wait(); });
}
terrace_status terrace_then(terrace_request* request, void (*done)(void* user, terrace_status status), void* user) {
    return guarded([&] {
        existing(done, "done");
        existing(request, "request").of.then([=](const std::exception_ptr& error) {
            done(user, guarded([&] {
                     if (error) std::rethrow_exception(error);
                 }));
        });
    });
}
void terrace_request_destroy(terrace_request* request) { delete request; }

terrace_status terrace_allreduce(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                                 terrace_element_type type, terrace_reduction by, terrace_request** request) {
    return make(communicator, request,
                [&](auto& c) { return c.allreduce_async(send, recv, count, known(type), known(by)); });
}

terrace_status terrace_reduce_scatter(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                                      terrace_element_type type, terrace_reduction by, terrace_request** request) {
    return make(communicator, request,
                [&](auto& c) { return c.reduce_scatter_async(send, recv, count, known(type), known(by)); });
}

terrace_status terrace_reduce_scatter_blocks(terrace_communicator* communicator, const void* send, void* recv,
                                             const int64_t* counts, terrace_element_type type, terrace_reduction by,
                                             terrace_request** request) {
    return make(communicator, request, [&](auto& c) {
        return c.reduce_scatter_async(send, recv, by_rank(c, counts, "counts"), known(type), known(by));
    });
}

terrace_status terrace_allgather(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                                 terrace_element_type type, terrace_request** request) {
    return make(communicator, request, [&](auto& c) { return c.allgather_async(send, recv, count, known(type)); });
}

terrace_status terrace_allgather_blocks(terrace_communicator* communicator, const void* send, void* recv,
                                        const int64_t* counts, terrace_element_type type, terrace_request** request) {
    return make(communicator, request,
                [&](auto& c) { return c.allgather_async(send, recv, by_rank(c, counts, "counts"), known(type)); });
}

terrace_status terrace_alltoall(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                                terrace_element_type type, terrace_request** request) {
    return make(communicator, request, [&](auto& c) { return c.alltoall_async(send, recv, count, known(type)); });
}

terrace_status terrace_gather(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                              terrace_element_type type, int root, terrace_request** request) {
    return make(communicator, request, [&](auto& c) { return c.gather_async(send, recv, count, known(type), root); });
}

terrace_status terrace_gather_blocks(terrace_communicator* communicator, const void* send, void* recv,
                                     const int64_t* counts, terrace_element_type type, int root,
                                     terrace_request** request) {
    return make(communicator, request,
                [&](auto& c) { return c.gather_async(send, recv, by_rank(c, counts, "counts"), known(type), root); });
}

terrace_status terrace_scatter(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                               terrace_element_type type, int root, terrace_request** request) {
    return make(communicator, request, [&](auto& c) { return c.scatter_async(send, recv, count, known(type), root); });
}

terrace_status terrace_scatter_blocks(terrace_communicator* communicator, const void* send, void* recv,
                                      const int64_t* counts, terrace_element_type type, int root,
                                      terrace_request** request) {
    return make(communicator, request,
                [&](auto& c) { return c.scatter_async(send, recv, by_rank(c, counts, "counts"), known(type), root); });
}

terrace_status terrace_broadcast(terrace_communicator* communicator, void* data, int64_t count,
                                 terrace_element_type type, int root, terrace_request** request) {
    return make(communicator, request, [&](auto& c) { return c.broadcast_async(data, count, known(type), root); });
}

terrace_status terrace_reduce(terrace_communicator* communicator, const void* send, void* recv, int64_t count,
                              terrace_element_type type, int root, terrace_reduction by, terrace_request** request) {
    return make(communicator, request,
                [&](auto& c) { return c.reduce_async(send, recv, count, known(type), root, known(by)); });
}

terrace_status terrace_barrier(terrace_communicator* communicator, terrace_request** request) {
    return make(communicator, request, [&](auto& c) { return c.barrier_async(); });
}

terrace_status terrace_alltoallv(terrace_communicator* communicator, const void* send, const int64_t* send_counts,
                                 void* recv, int64_t capacity, int64_t* recv_counts, int64_t most,
                                 terrace_element_type type) {
    return with(communicator, [&](auto& c) {
        c.alltoallv(send, by_rank(c, send_counts, "send_counts"), recv, capacity,
                    by_rank(c, recv_counts, "recv_counts"), most, known(type));
    });
}

terrace_status terrace_gatherv(terrace_communicator* communicator, const void* send, int64_t count, void* recv,
                               int64_t capacity, int64_t* recv_counts, terrace_element_type type, int root) {
    return with(communicator, [&](auto& c) {
        c.gatherv(send, count, recv, capacity, by_rank_on(root, c, recv_counts, "recv_counts"), known(type), root);
    });
}

terrace_status terrace_scatterv(terrace_communicator* communicator, const void* send, const int64_t* send_counts,
                                void* recv, int64_t capacity, terrace_element_type type, int root, int64_t* count) {
    return with(communicator, [&](auto& c) {
        existing(count, "count") =
            c.scatterv(send, by_rank_on(root, c, send_counts, "send_counts"), recv, capacity, known(type), root);
    });
}

terrace_status terrace_group_start(terrace_communicator* communicator) {
    return guarded([&] {
        terrace_communicator& c = existing(communicator, "communicator");
        c.of.group_start();
        ++open_groups[&c];
    });
}

terrace_status terrace_group_end(terrace_communicator* communicator) {
    return guarded([&] {
        terrace_communicator& c = existing(communicator, "communicator");
        if (const auto open = open_groups.find(&c); open != open_groups.end() && --open->second == 0)
            open_groups.erase(open);
        c.of.group_end();
    });
}

terrace_status terrace_send(terrace_communicator* communicator, const void* data, int64_t count,
                            terrace_element_type type, int to, int tag, terrace_request** request) {
    return make(communicator, request, [&](auto& c) { return c.send_async(data, count, known(type), to, tag); });
}

terrace_status terrace_recv(terrace_communicator* communicator, void* data, int64_t count, terrace_element_type type,
                            int from, int tag, terrace_received* result, terrace_request** request) {
    static_assert(sizeof(terrace_received) == sizeof(terrace::received));
    return make(communicator, request, [&](auto& c) {
        return c.recv_async(data, count, known(type), from, tag, reinterpret_cast<terrace::received*>(result));
    });
}

terrace_status terrace_allocate(terrace_communicator* communicator, size_t count, terrace_element_type type,
                                terrace_window** made) {
    return guarded([&] {
        terrace_window*& out = existing(made, "made");
        const std::size_t size = size_of(known(type));
        if (count > SIZE_MAX / size) throw terrace::memory_error(SIZE_MAX, "a window");
        out = new terrace_window{existing(communicator, "communicator").of.allocate<std::byte>(count * size)};
    });
}
void* terrace_window_data(const terrace_window* window) { return window->of.data(); }
void terrace_window_destroy(terrace_window* window) { delete window; }
