#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace terrace::bench {

/// Memory of a user, page by page: where a buffer begins is then no accident of a run.
inline std::shared_ptr<std::byte> make_buffer(std::int64_t bytes) {
    constexpr std::align_val_t page{4096};
    return {static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), page)),
            [](std::byte* memory) { ::operator delete(memory, page); }};
}

}  // namespace terrace::bench
