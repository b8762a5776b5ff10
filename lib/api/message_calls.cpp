// send and recv: what is wrong with them in themselves, and the way to the executor.

#include <fmt/format.h>

#include "api/core.hpp"
#include "base/element_types.hpp"
#include "base/index.hpp"

namespace terrace::detail {

void communicator_core::expect_message(const char* what, const void* memory, std::int64_t count, int rank, int tag,
                                       bool any) const {
    calls_->expect_unbroken(what);
    std::string objection;
    if (count < 0) objection = fmt::format("count is {}; it must not be negative", count);
    else if (memory == nullptr && count > 0) objection = fmt::format("the buffer is null, but count is {}", count);
    else if (tag < 0) objection = fmt::format("tag is {}; it must not be negative", tag);
    else if ((rank < 0 || rank >= net_->size()) && !(any && rank == any_source))
        objection = fmt::format("rank is {}, but ranks are 0 to {}{}", rank, net_->size() - 1,
                                any                  ? ", or any_source"
                                : rank == any_source ? "; a send has one receiver"
                                                     : "");
    else if (calls_->device() && calls_->device()->holds(memory))
        objection =
            "the buffer is on a device, and NCCL has no tags and no receive from any source; pass memory of the host";
    if (!objection.empty()) throw usage_error(fmt::format("{}: {}", what, objection));
}

request communicator_core::send(const void* from, std::int64_t count, element_type type, int rank, int tag) {
    const auto held = hold();
    expect_message("send", from, count, rank, tag, false);
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(type);
    return progress_->message_begun(
        control_->messages.send({position_of(rank, ranks_.callers), tag, type, bytes}, from));
}

request communicator_core::recv(void* to, std::int64_t count, element_type type, int source, int tag,
                                received* result) {
    const auto held = hold();
    expect_message("recv", to, count, source, tag, true);
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(type);
    const int from = source == any_source ? any_source : position_of(source, ranks_.callers);
    return progress_->message_begun(control_->messages.recv({from, tag, type, bytes}, to, result));
}

}  // namespace terrace::detail
