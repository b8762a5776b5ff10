#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace terrace::bench {

/// Memory of a user, page by page: where a buffer begins is then no accident of a run.
class buffer {
public:
    explicit buffer(std::int64_t bytes)
        : data_(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), alignment))) {}
    buffer(const buffer&) = delete;
    buffer& operator=(const buffer&) = delete;
    ~buffer() { ::operator delete(data_, alignment); }

    std::byte* data() const noexcept { return data_; }

private:
    static constexpr std::align_val_t alignment{4096};
    std::byte* data_;
};

}  // namespace terrace::bench
