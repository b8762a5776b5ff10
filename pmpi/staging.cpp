#include "pmpi/staging.hpp"

#include <algorithm>
#include <cstring>

#include <terrace/error.hpp>

namespace terrace::detail::pmpi {

namespace {

bool side_by_side(const std::vector<piece>& pieces, std::int64_t extent) {
    const auto apart = [&](const piece& a, const piece& b) { return a.begin + a.count * extent != b.begin; };
    return std::ranges::adjacent_find(pieces, apart) == pieces.end();
}

void expect(int code, const char* what) {
    if (code != MPI_SUCCESS) throw transport_error("mpi", what, code, "a datatype cannot be packed");
}

}  // namespace

staged::staged(const void* at, MPI_Datatype type, std::vector<piece> pieces, MPI_Comm comm, bool apart)
    : at_(static_cast<std::byte*>(const_cast<void*>(at))),
      comm_(comm),
      layout_(layout_of(type)),
      pieces_(std::move(pieces)) {
    std::erase_if(pieces_, [](const piece& p) { return p.count == 0; });
    if (!apart && layout_.dense && side_by_side(pieces_, layout_.extent)) {
        data_ = pieces_.empty() ? at_ : at_ + pieces_.front().begin;
        return;
    }
    if (!layout_.dense) type_ = own_type(type);
    std::int64_t bytes = 0;
    for (const piece& p : pieces_) bytes += p.count * layout_.size;
    own_.reset(new std::byte[static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1))]);
    data_ = own_.get();
}

// Large pieces are divided, since MPI packs at most 2^31 - 1 bytes at a time.
template <class Step>
void staged::each_part(Step step) const {
    if (own_ == nullptr) return;
    constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
    const std::int64_t most = std::max<std::int64_t>(most_bytes / std::max<std::int64_t>(layout_.size, 1), 1);
    std::byte* packed = data_;
    for (const piece& p : pieces_)
        for (std::int64_t done = 0; done < p.count; done += most) {
            const std::int64_t count = std::min(most, p.count - done);
            const std::int64_t bytes = count * layout_.size;
            int position = 0;
            step(at_ + p.begin + done * layout_.extent, static_cast<int>(count), packed, static_cast<int>(bytes),
                 &position);
            packed += bytes;
        }
}

void staged::collect() const {
    each_part([&](std::byte* from, int count, std::byte* to, int bytes, int* position) {
        if (layout_.dense) std::memcpy(to, from, static_cast<std::size_t>(bytes));
        else expect(PMPI_Pack(from, count, type_.get(), to, bytes, position, comm_), "MPI_Pack");
    });
}

void staged::deliver() const {
    each_part([&](std::byte* to, int count, std::byte* from, int bytes, int* position) {
        if (layout_.dense) std::memcpy(to, from, static_cast<std::size_t>(bytes));
        else expect(PMPI_Unpack(from, bytes, position, to, count, type_.get(), comm_), "MPI_Unpack");
    });
}

}  // namespace terrace::detail::pmpi
