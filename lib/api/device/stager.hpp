#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <terrace/staging.hpp>

#include "control/call_order/signature.hpp"
#include "transport/nccl/gpu_runtime.hpp"

namespace terrace::detail {

/// Passes the chunks of a call through slots of pinned memory, in order. Each slot is in one of these states:
///
///     free -> coming (from the device) -> under way (a call of the communicator) -> leaving (to the device) -> free
///
/// The host makes all progress. Copies in and out have separate streams, so both directions of the bus are in use.
class [[gnu::visibility("hidden")]] stager {
public:
    /// @param gpu, comm must outlive this object   @param chunk [bytes]   @throws transport_error
    stager(const gpu_runtime& gpu, communicator& comm, int device, std::size_t chunk);
    ~stager();

    /// @param call its count is that of the vector, or of one block   @throws as the functions of staging
    void run(const call_shape& call, const nccl::stream_call& c);
    void run(collective what, const nccl::stream_call& c, int root = 0, reduce_op op = reduce_op::sum);

private:
    static constexpr int slots = 4;
    struct slot {
        std::byte *in = nullptr, *out = nullptr;  ///< host memory
        gpu_event came = nullptr, left = nullptr;
        request under_way;
    };
    /// Number of blocks of each chunk that a call copies in and out; 0 if the call has no such buffer.
    struct traffic {
        int in = 1, out = 1;
        bool in_place = false;  ///< the call works in place, in slot::in
    };
    struct work;

    traffic traffic_of(const call_shape& call) const;
    void copy_in(const work& w, std::int64_t chunk);
    void begin(const work& w, std::int64_t chunk);
    void copy_out(const work& w, std::int64_t chunk);
    slot& slot_of(std::int64_t chunk) noexcept { return slots_[static_cast<std::size_t>(chunk % slots)]; }
    bool done(gpu_event event) const {
        bool is = false;
        check(gpu_.event_done(event, &is), "cudaEventQuery");
        return is;
    }
    void settle() noexcept;
    void release() noexcept;
    void check(int code, const char* what) const;

    const gpu_runtime& gpu_;
    communicator& comm_;
    int device_;
    std::size_t bytes_;
    void* memory_ = nullptr;
    gpu_stream in_ = nullptr, out_ = nullptr;
    gpu_event before_ = nullptr;
    std::array<slot, slots> slots_;
};

/// Lets tests make a staging over another runtime.
struct staging_access {
    static staging make(std::unique_ptr<stager> s) noexcept { return staging(std::move(s)); }
};

}  // namespace terrace::detail
