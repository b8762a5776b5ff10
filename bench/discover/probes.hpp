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

/// Measurements of a network.
class probes {
public:
    virtual ~probes() = default;

    virtual int ranks() const = 0;
    /// Returns half the round-trip time of a short message [s].
    virtual double latency(int a, int b) = 0;
    /// Returns the processor time of one short message sent and one received, while both ranks send continuously [s].
    virtual double overhead(int a, int b) = 0;
    /// Returns the rate at which each stream arrives while all of them run at once [B/s].
    virtual std::vector<double> rates(std::span<const stream> all) = 0;
    /// Returns the rate of one stream alone [B/s], in a few milliseconds and less exactly.
    virtual double rough_rate(const stream& self) { return rates(std::span(&self, 1)).front(); }
};

/// Called before each probe with its purpose and the number of earlier probes. Returns false if there is no time left.
using permission = std::function<bool(const std::string& step, int asked)>;

/// Thrown instead of a probe for which there is no time.
struct out_of_time {};

/// Repeats probes until results agree. Other work on a machine makes messages slower and never faster, so the best
/// result counts. All probes throw out_of_time.
class careful_probes {
public:
    careful_probes(probes& asked, permission may_ask) : asked_(asked), may_ask_(std::move(may_ask)) {}

    /// Sets the purpose of the next probes.
    void begin(std::string step) { step_ = std::move(step); }
    const std::string& step() const noexcept { return step_; }

    int ranks() const { return asked_.ranks(); }
    /// Measures three times or more, until the best two results agree, or six times. Returns the smallest.
    double latency(int a, int b);
    /// Measures twice or more in the same way. Returns the smallest.
    double overhead(int a, int b);
    /// Measures twice or more in the same way. Returns the largest. @param self a stream by itself
    double rate(stream self);
    double rough_rate(stream self);
    /// Measures once.
    std::vector<double> rates_once(std::span<const stream> all);
    /// Measures twice. Returns means if the results agree, else measures again and returns medians, by element.
    std::vector<double> rates(std::span<const stream> all);

    int asked() const noexcept { return count_; }
    /// Returns the number of measurements whose results never agreed.
    int unstable() const noexcept { return unstable_; }

private:
    void count() {
        if (!may_ask_(step_, count_)) throw out_of_time();
        ++count_;
    }
    // Measures `fewest` times or more, until the best two agree. better(a, b): a is better than b.
    template <class Better, class Ask>
    double best_of(std::size_t fewest, Better better, Ask ask);

    probes& asked_;
    permission may_ask_;
    std::string step_;
    int count_ = 0, unstable_ = 0;
};

}  // namespace terrace::detail::bench
