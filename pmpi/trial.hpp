#pragma once

#include <cstdint>
#include <vector>

namespace terrace::detail::pmpi {

/// The library that runs a call.
enum class runner : std::uint8_t { mpi, terrace };

/// Finds out, alike on all ranks, whether MPI or Terrace is faster for one call of one size class on one communicator.
/// MPI runs the first calls, so few calls need no communicator of Terrace; then Terrace runs as many.
class trial {
public:
    /// @param bytes least size of the class; large calls are tried once
    explicit trial(std::int64_t bytes) noexcept;

    bool settled() const noexcept { return settled_; }
    /// Returns the runner of the next call; after the trial, of all calls.
    runner next() const noexcept {
        if (settled_) return chosen_;
        return mpi_.size() < rule_.each ? runner::mpi : runner::terrace;
    }
    /// Adds the time of a call [s].
    void add(runner by, double seconds) {
        (by == runner::mpi ? mpi_ : terrace_).push_back(seconds);
        spent_ += seconds;
    }
    /// Returns true if ranks may compare now: agree on times(), then call settle().
    bool may_settle() const noexcept { return mpi_.size() >= rule_.each && terrace_.size() >= rule_.each; }
    struct durations {
        double mpi = 0, terrace = 0;
    };
    /// Returns this rank's median times [s], without the first calls, which include set-up; of two times the shorter.
    durations times() const;
    /// Ends the trial, or goes on if another call may favour Terrace. @param slowest maxima of times() over all ranks
    void settle(const durations& slowest) noexcept;
    /// Ends the trial with MPI chosen, since Terrace cannot run here.
    void give_up() noexcept { settled_ = true; }

    /// Returns the times that ranks agreed on [s].
    const durations& agreed() const noexcept { return agreed_; }
    runner chosen() const noexcept { return chosen_; }
    int calls() const noexcept { return static_cast<int>(mpi_.size() + terrace_.size()); }
    /// Returns the time of all calls of the trial on this rank [s].
    double spent() const noexcept { return spent_; }

private:
    struct rule {
        std::size_t each;   // number of calls that each of the two runs
        std::size_t extra;  // further calls that Terrace may run
        double worth;       // maximum of Terrace's time as a part of MPI's; lower for few calls, whose times vary more
    };
    rule rule_;
    std::vector<double> mpi_, terrace_;
    double spent_ = 0;
    durations agreed_;
    runner chosen_ = runner::mpi;
    bool settled_ = false;
};

}  // namespace terrace::detail::pmpi
