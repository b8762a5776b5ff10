#pragma once

#include <cstdint>
#include <vector>

namespace terrace::detail::pmpi {

/// Who runs a call.
enum class runner : std::uint8_t { mpi, terrace };

/// Which of the two is faster for one call of one size class on one communicator. MPI runs the first calls, so that
/// communicators with few calls get none of Terrace's; then Terrace runs as many. All ranks ask and are told the same.
class trial {
public:
    /// @param bytes of the class: large calls are tried once
    explicit trial(std::int64_t bytes) noexcept;

    bool settled() const noexcept { return settled_; }
    /// Whom the next call is for; after the trial, whom all calls are for.
    runner next() const noexcept {
        if (settled_) return chosen_;
        return mpi_.size() < rule_.each ? runner::mpi : runner::terrace;
    }
    /// Adds the time of a call [s].
    void add(runner by, double seconds) {
        (by == runner::mpi ? mpi_ : terrace_).push_back(seconds);
        spent_ += seconds;
    }
    /// True if ranks may now compare: agree on times() and settle() them.
    bool may_settle() const noexcept { return mpi_.size() >= rule_.each && terrace_.size() >= rule_.each; }
    struct durations {
        double mpi = 0, terrace = 0;
    };
    /// The median times of this rank, without the first calls, which set things up [s].
    durations times() const;
    /// Ends the trial, or goes on if another call may help Terrace. @param slowest times() of the slowest rank each
    void settle(const durations& slowest) noexcept;
    /// Ends it for MPI: Terrace cannot run here.
    void give_up() noexcept { settled_ = true; }

    /// What ranks agreed on [s].
    const durations& agreed() const noexcept { return agreed_; }
    runner chosen() const noexcept { return chosen_; }
    int calls() const noexcept { return static_cast<int>(mpi_.size() + terrace_.size()); }
    /// The time of all calls of the trial on this rank [s].
    double spent() const noexcept { return spent_; }

private:
    struct rule {
        std::size_t each;   // calls that both run
        std::size_t extra;  // more that Terrace may run
        double worth;  // Terrace must take less than this part of MPI's time: the fewer calls, the more times scatter
    };
    rule rule_;
    std::vector<double> mpi_, terrace_;
    double spent_ = 0;
    durations agreed_;
    runner chosen_ = runner::mpi;
    bool settled_ = false;
};

}  // namespace terrace::detail::pmpi
