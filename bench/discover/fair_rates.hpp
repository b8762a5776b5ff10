#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace terrace::detail::bench {

/// By stream, the links that it crosses.
class stream_paths {
public:
    /// Adds a link to the path of the stream that comes next.
    void add_link(int link) { links_.push_back(link); }
    void end_stream() { ends_.push_back(links_.size()); }

    std::size_t size() const noexcept { return ends_.size(); }
    std::span<const int> operator[](std::size_t stream) const noexcept {
        const std::size_t begin = stream == 0 ? 0 : ends_[stream - 1];
        return {links_.data() + begin, ends_[stream] - begin};
    }

private:
    std::vector<int> links_;         // of all paths, one after the other
    std::vector<std::size_t> ends_;  // by stream
};

/// What each stream gets where links are shared fairly: no stream can have more unless one that has less loses some.
/// @param capacity by link [B/s], positive
/// @returns by stream [B/s]; infinite where it crosses no link
std::vector<double> fair_rates(const stream_paths& paths, std::span<const double> capacity);

}  // namespace terrace::detail::bench
