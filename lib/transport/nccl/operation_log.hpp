#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "transport/nccl/gpu_runtime.hpp"
#include "transport/stream_transport.hpp"

namespace terrace::detail {

/// Operations of the network in the queues, for the calls in flight, in the order of issue, with an event behind each:
/// so that one that waits too long learns for what. It remembers the last so many.
class operation_log {
public:
    explicit operation_log(const gpu_runtime& gpu) : gpu_(gpu) {}
    operation_log(const operation_log&) = delete;
    operation_log& operator=(const operation_log&) = delete;
    ~operation_log();

    /// A call begins. @param alone no other is in flight  @param kept whether it is remembered
    void begin_call(bool alone, bool kept) noexcept;
    // Each operation, before it is put in, with the other ranks that take part; and behind it. @returns CUDA's code
    void begin(const call_position& where) noexcept;
    void meets(int rank) noexcept;
    int end(gpu_stream stream) noexcept;

    /// "stage 1 up, step 0, chunk 2 waits for rank 3 or 5": the first that is not complete; empty if all are.
    /// @param passed whether an event has been reached  @param self the caller's rank
    std::string stuck(const std::function<bool(gpu_event)>& passed, int self,
                      const std::vector<int>& callers_rank) const;

private:
    static constexpr std::size_t most = 1024;

    struct mark {
        call_position where;
        std::vector<int> ranks;
        gpu_event passed = nullptr;
    };

    const gpu_runtime& gpu_;
    std::vector<mark> marks_;  // operation n is at n % most
    std::size_t next_ = 0;
    bool kept_ = false;
};

}  // namespace terrace::detail
