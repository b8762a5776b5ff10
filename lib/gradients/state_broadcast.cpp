#include "gradients/state_broadcast.hpp"

#include <cstring>
#include <vector>

namespace terrace::detail {

namespace {

std::size_t bytes_of(const state_tensor& t) noexcept { return static_cast<std::size_t>(t.count) * size_of(t.type); }

void broadcast_fused(communicator& comm, std::span<const state_tensor> tensors, int root,
                     std::vector<std::byte>& pack) {
    std::size_t size = 0;
    for (const state_tensor& t : tensors) size += bytes_of(t);
    pack.resize(size);
    std::byte* to = pack.data();
    for (const state_tensor& t : tensors) {
        if (comm.rank() == root && t.count > 0) std::memcpy(to, t.data, bytes_of(t));
        to += bytes_of(t);
    }
    comm.broadcast(pack, root);
    const std::byte* from = pack.data();
    for (const state_tensor& t : tensors) {
        if (comm.rank() != root && t.count > 0) std::memcpy(t.data, from, bytes_of(t));
        from += bytes_of(t);
    }
}

}  // namespace

void broadcast_state(communicator& comm, std::span<const state_tensor> tensors, int root, std::int64_t fused_bytes) {
    const auto most = static_cast<std::size_t>(fused_bytes);
    std::vector<std::byte> pack;
    for (std::size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
        std::size_t size = 0;
        while (end < tensors.size() && size + bytes_of(tensors[end]) <= most) size += bytes_of(tensors[end++]);
        if (end > begin + 1) {
            broadcast_fused(comm, tensors.subspan(begin, end - begin), root, pack);
            continue;
        }
        end = begin + 1;
        comm.broadcast(tensors[begin].data, tensors[begin].count, tensors[begin].type, root);
    }
}

}  // namespace terrace::detail
