#include "executor/transport.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/partition.hpp"

namespace terrace {

std::shared_ptr<std::byte> transport::allocate(std::size_t bytes) {
    constexpr std::size_t line = 64;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(line, round_up(bytes, line)));
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, bytes);
    return {memory, std::free};
}

}  // namespace terrace
