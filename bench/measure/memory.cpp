#include "bench/measure/memory.hpp"

#include <chrono>
#include <new>

namespace terrace::detail::bench {

namespace {

class on_host final : public memory {
public:
    std::shared_ptr<std::byte> allocate(std::int64_t bytes) override {
        constexpr std::align_val_t page{4096};
        return {static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), page)),
                [](std::byte* m) { ::operator delete(m, page); }};
    }

    void put(std::byte* to, std::int64_t, const std::function<void(std::byte*)>& make) override { make(to); }
    const std::byte* get(const std::byte* from, std::int64_t) override { return from; }

    double time(backend& what, std::span<const call> calls) override {
        const auto begin = std::chrono::steady_clock::now();
        what.run(calls);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
};

}  // namespace

std::unique_ptr<memory> host_memory() { return std::make_unique<on_host>(); }

}  // namespace terrace::detail::bench
