#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace terrace::detail::bench {

/// Messages from one rank to another, one after the other.
struct stream {
    int from = 0, to = 0;
};

/// What can be asked of a network.
class probes {
public:
    virtual ~probes() = default;

    virtual int ranks() const = 0;
    /// Half the time that a short message and its answer take [s].
    virtual double latency(int a, int b) = 0;
    /// What a short message sent and one received take each rank together, while both send all the time [s].
    virtual double overhead(int a, int b) = 0;
    /// What arrives of each stream per second while all of them run at once [B/s].
    virtual std::vector<double> rates(std::span<const stream> all) = 0;
    /// The same of one stream, in a few milliseconds and less exactly.
    virtual double rough_rate(const stream& self) { return rates(std::span(&self, 1)).front(); }
};

/// Called before each question with what it is for and how many were asked before. False: there is no time for it.
using permission = std::function<bool(const std::string& step, int asked)>;

/// Thrown in place of a question that there is no time for.
struct out_of_time {};

/// Asks again until answers agree. Other work on a machine makes messages slower and never faster, so the best answer
/// counts. All questions throw out_of_time.
class careful_probes {
public:
    careful_probes(probes& asked, permission may_ask) : asked_(asked), may_ask_(std::move(may_ask)) {}

    /// What the next questions are for.
    void begin(std::string step) { step_ = std::move(step); }
    const std::string& step() const noexcept { return step_; }

    int ranks() const { return asked_.ranks(); }
    /// The least of three answers or more, of which two agree.
    double latency(int a, int b);
    /// The least of answers of which two agree.
    double overhead(int a, int b);
    /// The most of answers of which two agree. @param self a stream by itself
    double rate(stream self);
    double rough_rate(stream self);
    /// One answer.
    std::vector<double> rates_once(std::span<const stream> all);
    /// Element by element the median of three, or the mean of two that agree.
    std::vector<double> rates(std::span<const stream> all);

    int asked() const noexcept { return count_; }
    /// Questions whose answers never agreed.
    int unstable() const noexcept { return unstable_; }

private:
    void count() {
        if (!may_ask_(step_, count_)) throw out_of_time();
        ++count_;
    }
    // Asks so often at least, and until the best two agree. better(a, b): a is better than b.
    template <class Better, class Ask>
    double best_of(std::size_t fewest, Better better, Ask ask);

    probes& asked_;
    permission may_ask_;
    std::string step_;
    int count_ = 0, unstable_ = 0;
};

}  // namespace terrace::detail::bench
