#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pmpi/call.hpp"
#include "pmpi/trial.hpp"

namespace terrace::detail::pmpi {

/// Reasons for passing a call to MPI.
enum class passed : std::uint8_t {
    not_at_all,
    switched_off,
    one_rank,
    intercommunicator,
    no_elements,
    operation,
    datatype,
    invalid,
    mpi_is_faster,
    no_communicator,
    not_tried,
    unsupported,
};
inline constexpr std::string_view passed_names[] = {
    "not_at_all", "switched_off", "one_rank",      "intercommunicator", "no_elements", "operation",
    "datatype",   "invalid",      "mpi_is_faster", "no_communicator",   "not_tried",   "unsupported"};
inline constexpr std::size_t reasons = std::size(passed_names);

/// Number and time of calls that MPI ran, or that Terrace ran.
struct tally {
    std::uint64_t calls = 0;
    double seconds = 0;  ///< [s]; 0 without a report

    void add(double time) noexcept {
        ++calls;
        seconds += time;
    }
};

/// Counts and the trial of calls of one kind and size class on one communicator.
struct row : std::enable_shared_from_this<row> {
    explicit row(std::int64_t least_bytes) noexcept : tried(least_bytes) {}

    std::uint64_t bytes = 0;  ///< of all calls
    tally by_mpi, by_terrace;
    std::array<std::uint64_t, reasons> why{};  ///< calls that were passed to MPI, by `passed`
    trial tried;
    std::string algorithm;  ///< algorithm that Terrace ran last

    tally& by(runner r) noexcept { return r == runner::mpi ? by_mpi : by_terrace; }
};

/// The size classes: 0, 1, 2 to 3, 4 to 7, ... bytes.
constexpr int class_of(std::int64_t bytes) noexcept {
    return bytes <= 0 ? 0 : 64 - __builtin_clzll(static_cast<unsigned long long>(bytes));
}
constexpr std::int64_t least_of_class(int c) noexcept { return c == 0 ? 0 : std::int64_t{1} << (c - 1); }

/// The rows of a communicator, made at their first use.
class statistics {
public:
    row& at(call_kind what, form is, std::int64_t bytes) {
        auto& of_call = rows_[forms * static_cast<std::size_t>(what) + static_cast<std::size_t>(is)];
        const auto c = static_cast<std::size_t>(class_of(bytes));
        if (c >= of_call.size()) of_call.resize(c + 1);
        if (of_call[c] == nullptr) of_call[c] = std::make_shared<row>(least_of_class(static_cast<int>(c)));
        return *of_call[c];
    }

    template <class Visit>
    void each(Visit visit) const {
        for (std::size_t i = 0; i < rows_.size(); ++i)
            for (std::size_t c = 0; c < rows_[i].size(); ++c)
                if (rows_[i][c] != nullptr)
                    visit(static_cast<call_kind>(i / forms), static_cast<form>(i % forms), static_cast<int>(c),
                          *rows_[i][c]);
    }

private:
    std::array<std::vector<std::shared_ptr<row>>, forms * call_kinds> rows_;
};

}  // namespace terrace::detail::pmpi
