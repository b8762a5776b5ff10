#include "transport/loopback/thread_regions.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

using part = std::shared_ptr<std::byte>;

// Mapped, since pages that nobody touches then cost nothing. Null where there is no memory.
part map_part(std::size_t bytes) {
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
    return {static_cast<std::byte*>(pages), [bytes](std::byte* p) { munmap(p, bytes); }};
}

}  // namespace

std::optional<shared_region> thread_regions::share(team& ranks, std::span<const int> sharers, std::size_t bytes,
                                                   std::size_t /*at_once*/) {
    const part own = map_part(bytes);
    const part* at_own = &own;
    std::vector<const part*> all(at(ranks.size()));
    ranks.gather_all(&at_own, all.data(), sizeof at_own);
    const bool everywhere = std::all_of(all.begin(), all.end(), [](const part* p) { return *p != nullptr; });
    auto keep = std::make_shared<std::vector<part>>();
    shared_region region{.bytes = bytes, .parts = {}, .keep = keep};
    for (const int r : sharers) {
        keep->push_back(*all[at(r)]);
        region.parts.push_back(keep->back().get());
    }
    ranks.gather_all(&at_own, all.data(), sizeof at_own);  // all have looked at `own` now
    if (!everywhere) return std::nullopt;
    return region;
}

}  // namespace terrace::detail
