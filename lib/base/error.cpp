#include <terrace/error.hpp>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.hpp"

namespace terrace {

namespace {

std::string located(const std::string& file, int line, int column, const std::string& message) {
    return line > 0 ? fmt::format("{}:{}:{}: {}", file, line, column, message) : fmt::format("{}: {}", file, message);
}

std::string described(const std::vector<failed_rank>& failed, const std::vector<std::string>& waits) {
    constexpr std::size_t most = 3;
    constexpr std::string_view words[] = {"has died", "is stopped", "cannot be reached"};  // by failure
    std::vector<std::string> texts;
    for (const failed_rank& f : failed)
        texts.push_back(
            fmt::format("rank {} on {} {} ({})", f.rank, f.host, words[static_cast<std::size_t>(f.how)], f.noticed));
    for (std::size_t i = 0; i < std::min(most, waits.size()); ++i) texts.push_back(waits[i]);
    if (waits.size() > most) texts.push_back(fmt::format("and {} more", waits.size() - most));
    return fmt::format("{}. End the job, or go on without them by shrink()", fmt::join(texts, "; "));
}

}  // namespace

input_error::input_error(std::string file, int line, int column, const std::string& message)
    : error(located(file, line, column, message)), file_(std::move(file)), line_(line), column_(column) {}

rank_failed_error::rank_failed_error(std::vector<failed_rank> failed, std::vector<std::string> waits)
    : error(described(failed, waits)), failed_(std::move(failed)), waits_(std::move(waits)) {}

memory_error::memory_error(std::size_t bytes, const std::string& use)
    : error(fmt::format("{} of memory were wanted for {}, and the system gives no more; raise the limit of the process "
                        "(ulimit -v, its control group)",
                        detail::format_bytes(static_cast<std::int64_t>(bytes)), use)),
      bytes_(bytes) {}

transport_error::transport_error(std::string library, std::string call, int code, const std::string& message)
    : error(fmt::format("{}: {} failed with code {}: {}", library, call, code, message)),
      library_(std::move(library)),
      call_(std::move(call)),
      code_(code) {}

}  // namespace terrace
