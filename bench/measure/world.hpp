#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

namespace terrace::detail::bench {

/// Throws transport_error if an MPI call of the bench failed.
void check(int code, const char* call);

/// All ranks have learned that one of them cannot go on; what() is its message.
class refusal : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// MPI from MPI_Init to MPI_Finalize, and the few things that all parts of the bench ask of it. One per process.
class world {
public:
    world(int& argc, char**& argv);
    world(const world&) = delete;
    world& operator=(const world&) = delete;
    ~world();

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    /// Speaks for all.
    bool first() const noexcept { return rank_ == 0; }
    MPI_Comm comm() const noexcept { return MPI_COMM_WORLD; }
    /// "Open MPI v4.1.4"
    const std::string& library() const noexcept { return library_; }

    /// Every rank's lowest fellow on its host, by rank.
    const std::vector<int>& hosts() const noexcept { return hosts_; }
    int host_count() const;
    /// terrace::detail::shared_cores. Collective.
    int shared_cores() const;

    void barrier() const;
    double maximum(double mine) const;
    std::int64_t sum(std::int64_t mine) const;
    /// Element by element, over all ranks.
    void maximum(std::span<double> mine) const;

    /// The first rank's text.
    std::string from_first(std::string text) const;

    /// Runs `part` on every rank. If it throws on any, all ranks throw refusal with the message of the first of those.
    template <class Part>
    auto together(Part part) const {
        std::optional<decltype(part())> result;
        std::string message;
        try {
            result.emplace(part());
        } catch (const std::exception& e) {
            message = e.what();
        }
        agree(result.has_value(), message);
        return std::move(*result);
    }

    /// Ends all ranks now: for failures that the others do not know of.
    [[noreturn]] void abort(int code) const;

private:
    void agree(bool fine, const std::string& message) const;

    int rank_ = 0, size_ = 0;
    std::string library_;
    std::vector<int> hosts_;
};

}  // namespace terrace::detail::bench
