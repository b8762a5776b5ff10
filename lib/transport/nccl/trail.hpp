#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "executor/stream_transport.hpp"
#include "transport/nccl/gpu_runtime.hpp"

namespace terrace {

/// What queues have got of the network for the calls in flight, in the order of issue, with an event behind each: so
/// that one that waits too long learns for what. It remembers the last so many.
class trail {
public:
    explicit trail(const gpu_runtime& gpu) : gpu_(gpu) {}
    trail(const trail&) = delete;
    trail& operator=(const trail&) = delete;
    ~trail();

    /// A call begins. @param alone no other is in flight  @param kept whether it is remembered
    void begin_call(bool alone, bool kept) noexcept;
    // Each operation, before it is put in, with the other ranks that take part; and behind it. @returns CUDA's code
    void begin(const place& where) noexcept;
    void meets(int rank) noexcept;
    int end(gpu_stream stream) noexcept;

    /// "stage 1 up, step 0, chunk 2 waits for rank 3 or 5": the first that is not through; empty if all are.
    /// @param passed whether an event has been reached  @param self the caller's rank
    std::string stuck(const std::function<bool(gpu_event)>& passed, int self,
                      const std::vector<int>& callers_rank) const;

private:
    static constexpr std::size_t most = 1024;

    struct mark {
        place where;
        std::vector<int> ranks;
        gpu_event passed = nullptr;
    };

    const gpu_runtime& gpu_;
    std::vector<mark> marks_;  // operation n is at n % most
    std::size_t next_ = 0;
    bool kept_ = false;
};

}  // namespace terrace
