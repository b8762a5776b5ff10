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

/// All ranks have learned that one of them cannot go on; what() is its message.
class refusal : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// All ranks, and the few things that all parts of the bench ask of them. One per process. Functions are collective
/// but where they only look.
class world {
public:
    world(const world&) = delete;
    world& operator=(const world&) = delete;
    virtual ~world() = default;

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    /// Speaks for all.
    bool first() const noexcept { return rank_ == 0; }
    /// "Open MPI v4.1.4"; empty without MPI
    const std::string& library() const noexcept { return library_; }
    bool has_mpi() const noexcept { return !library_.empty(); }

    /// Every rank's lowest fellow on its host, by rank.
    const std::vector<int>& hosts() const noexcept { return hosts_; }
    int host_count() const;

    virtual void barrier() const = 0;
    double maximum(double mine) const {
        maximum(std::span<double>(&mine, 1));
        return mine;
    }
    virtual std::int64_t sum(std::int64_t mine) const = 0;
    /// Element by element, over all ranks.
    virtual void maximum(std::span<double> mine) const = 0;

    /// The first rank's text.
    std::string from_first(std::string text) const { return text_from(0, std::move(text)); }

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

    /// Runs `part` on the first rank alone. If it throws, so do all ranks, as above.
    template <class Part>
    void on_first(Part part) const {
        together([&] {
            if (first()) part();
            return true;
        });
    }

    /// What is wrong where the launcher has started more processes than there are ranks; empty: nothing. Not
    /// collective.
    virtual std::string trouble_of_launch(int /*launched*/) const { return {}; }
    /// What this rank prints of an error that ends the program, before it calls abort(). Not collective.
    virtual std::string error_lines(const std::string& what) const = 0;
    /// Ends all ranks now: for failures that the others do not know of.
    [[noreturn]] virtual void abort(int code) const = 0;

protected:
    world() = default;

    virtual std::string text_from(int speaker, std::string text) const = 0;
    virtual std::vector<int> gather(int mine) const = 0;

    int rank_ = 0, size_ = 0;
    std::string library_;
    std::vector<int> hosts_;

private:
    void agree(bool ok, const std::string& message) const;
};

/// MPI from MPI_Init to MPI_Finalize. Null where the bench was built without MPI.
std::unique_ptr<world> world_over_mpi(int& argc, char**& argv);
/// Ranks without MPI, which meet as TERRACE_BOOTSTRAP says. @throws as ucx::create
std::unique_ptr<world> world_over_ucx();

}  // namespace terrace::detail::bench
