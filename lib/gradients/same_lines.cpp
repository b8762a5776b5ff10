#include "gradients/same_lines.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/hash.hpp"
#include "base/index.hpp"

namespace terrace::detail {

namespace {

// A character that no line has ends each of them.
std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text.append(line).push_back('\0');
    return text;
}

std::string text_of(communicator& comm, std::string text, int root) {
    std::uint64_t size = text.size();
    comm.broadcast(std::span(&size, 1), root);
    text.resize(size);
    comm.broadcast(std::span(text.data(), text.size()), root);
    return text;
}

// The first difference, in words; empty if there is none.
std::string difference(const std::string& first_rank, const described& mine, int rank) {
    std::size_t begin = 0, n = 0;
    for (; begin < first_rank.size(); ++n) {
        const std::size_t end = first_rank.find('\0', begin);
        const std::string theirs = first_rank.substr(begin, end - begin);
        if (n == mine.lines.size()) return fmt::format("rank 0 has {}, and rank {} has nothing there", theirs, rank);
        if (theirs != mine.lines[n])
            return fmt::format("rank 0 has {}, and rank {} has {}", theirs, rank, mine.lines[n]);
        begin = end + 1;
    }
    if (n < mine.lines.size()) return fmt::format("rank 0 has nothing where rank {} has {}", rank, mine.lines[n]);
    return {};
}

}  // namespace

void expect_same_lines(communicator& comm, const char* call, const described& mine) {
    const std::string text = joined(mine.lines);
    const bool refused = !mine.objection.empty();
    const std::uint64_t hash = refused ? 0 : hash_of(text.data(), text.size()) | 1;
    std::vector<std::uint64_t> all(at(comm.size()));
    comm.allgather(std::span(&hash, 1), all);
    const bool any_refused = std::count(all.begin(), all.end(), 0u) > 0;
    if (!any_refused && std::equal(all.begin() + 1, all.end(), all.begin())) return;
    const auto odd = any_refused ? std::find(all.begin(), all.end(), 0u)
                                 : std::find_if(all.begin(), all.end(), [&](auto h) { return h != all.front(); });
    const int speaker = static_cast<int>(odd - all.begin());
    std::string words = refused ? fmt::format("rank {}: {}", comm.rank(), mine.objection) : std::string();
    if (!any_refused) words = difference(text_of(comm, text, 0), mine, comm.rank());
    words = text_of(comm, words, speaker);
    throw usage_error(any_refused ? fmt::format("{}: {}", call, words)
                                  : fmt::format("{}: ranks differ: {}; pass the same on all ranks", call, words));
}

}  // namespace terrace::detail
