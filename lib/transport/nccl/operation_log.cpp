#include "transport/nccl/operation_log.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace terrace::detail {

operation_log::~operation_log() {
    for (const mark& m : marks_)
        if (m.passed != nullptr) gpu_.drop_event(m.passed);
}

void operation_log::begin_call(bool alone, bool kept) noexcept {
    if (alone) next_ = 0;
    kept_ = kept;
}

void operation_log::begin(const call_position& where) noexcept {
    if (!kept_) return;
    if (next_ % most == marks_.size()) marks_.emplace_back();
    mark& m = marks_[next_ % most];
    m.where = where;
    m.ranks.clear();
}

void operation_log::meets(int rank) noexcept {
    if (kept_) marks_[next_ % most].ranks.push_back(rank);
}

int operation_log::end(gpu_stream stream) noexcept {
    if (!kept_) return 0;
    mark& m = marks_[next_++ % most];
    if (m.passed == nullptr)
        if (const int code = gpu_.make_event(&m.passed); code != 0) return code;
    return gpu_.record(m.passed, stream);
}

std::string operation_log::stuck(const std::function<bool(gpu_event)>& passed, int self,
                                 const std::vector<int>& callers_rank) const {
    const std::size_t oldest = next_ - std::min(next_, most);
    for (std::size_t n = oldest; n < next_; ++n) {
        const mark& m = marks_[n % most];
        if (passed(m.passed)) continue;
        std::vector<int> ranks;
        for (const int r : m.ranks)
            if (r != self) ranks.push_back(callers_rank[static_cast<std::size_t>(r)]);
        std::sort(ranks.begin(), ranks.end());
        ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
        const bool forgotten = n == oldest && oldest > 0;  // one before it may be what waits
        return fmt::format("{}stage {} {}, step {}, chunk {} waits for rank {}", forgotten ? "at or before " : "",
                           m.where.stage, m.where.down ? "down" : "up", m.where.step, m.where.chunk,
                           fmt::join(ranks, " or "));
    }
    return {};
}

}  // namespace terrace::detail
