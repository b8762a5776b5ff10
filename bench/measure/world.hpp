#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace terrace::detail::bench {

/// Thrown on all ranks if one of them cannot continue; what() is its message.
class refusal : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// All ranks, and the operations among them that all parts of the bench need. One per process. Functions are
/// collective, except those that only return a member.
class world {
public:
    world(const world&) = delete;
    world& operator=(const world&) = delete;
    virtual ~world() = default;

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    /// True on the rank that prints for all.
    bool first() const noexcept { return rank_ == 0; }
    /// "Open MPI v4.1.4"; empty without MPI
    const std::string& library() const noexcept { return library_; }
    bool has_mpi() const noexcept { return !library_.empty(); }

    /// The lowest rank on the host of each rank, by rank.
    const std::vector<int>& hosts() const noexcept { return hosts_; }
    int host_count() const;

    virtual void barrier() const = 0;
    double maximum(double mine) const {
        maximum(std::span<double>(&mine, 1));
        return mine;
    }
    virtual std::int64_t sum(std::int64_t mine) const = 0;
    /// Replaces each element by its maximum over all ranks.
    virtual void maximum(std::span<double> mine) const = 0;

    /// Returns the text of the first rank.
    std::string from_first(std::string text) const { return text_from(0, std::move(text)); }

    /// Runs `part` on every rank. If it throws on any, all ranks throw refusal with the message of the first such rank.
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

    /// Runs `part` on the first rank alone. If it throws, so do all ranks, as above.
    template <class Part>
    void on_first(Part part) const {
        together([&] {
            if (first()) part();
            return true;
        });
    }

    /// Returns an error message if the launcher has started more processes than there are ranks, else an empty text.
    /// Not collective.
    virtual std::string trouble_of_launch(int /*launched*/) const { return {}; }
    /// Returns the lines that this rank prints for an error that ends the program, before abort(). Not collective.
    virtual std::string error_lines(const std::string& what) const = 0;
    /// Ends all ranks now, for failures that the others do not know of.
    [[noreturn]] virtual void abort(int code) const = 0;

protected:
    world() = default;

    virtual std::string text_from(int source, std::string text) const = 0;
    virtual std::vector<int> gather(int mine) const = 0;

    int rank_ = 0, size_ = 0;
    std::string library_;
    std::vector<int> hosts_;

private:
    void agree(bool ok, const std::string& message) const;
};

/// Initialises MPI; the world finalises it when it ends. Null if the bench was built without MPI.
std::unique_ptr<world> world_over_mpi(int& argc, char**& argv);
/// Connects ranks without MPI, by the bootstrap that TERRACE_BOOTSTRAP names. @throws as ucx::create
std::unique_ptr<world> world_over_ucx();

}  // namespace terrace::detail::bench
