#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "statistics/message_times.hpp"

namespace terrace::detail {

/// Finds links that carry less than before, by the times at which messages began and were complete.
///
/// What a link carries is the bytes of messages that were complete, by the time in which some were under way. A message
/// is under way from when its sender has begun it. So a link that waits for another one, or for its sender, is not
/// slow. Where a receiver is late, messages towards it are slow, and those that leave its node are not: a link is slow
/// if both directions are, while messages wait for it nearly all the time and others of its kind carry what they did.
class slow_links {
public:
    /// One direction of a link.
    struct direction {
        int kind = 0;     ///< links of one kind are beside one another
        int back = 0;     ///< the number of the other direction
        double rate = 0;  ///< of the plan [B/s]
    };
    /// A link that has become slow, or is so no longer.
    struct finding {
        std::vector<int> links;   ///< directions by number, the first of each link; several carry the same messages
        double rate = 0;          ///< that they carry [B/s]
        double before = 0;        ///< that they carried [B/s]
        std::uint32_t since = 0;  ///< window
        bool is_slow = false;
    };
    /// Returns the links that messages pass from one rank to another.
    using path = std::function<std::vector<int>(int from, int to)>;

    slow_links(std::vector<direction> links, path links_between, std::uint32_t every = 1)
        : links_(std::move(links)), path_(std::move(links_between)), every_(every) {}

    /// Adds what one of two ranks has noted of messages between them.
    void add(std::uint32_t window, int from, int to, bool sends, const message_sample& s);
    /// Judges the windows of which everything should be known by now. @param now the window that is open
    std::vector<finding> judge(std::uint32_t now);
    /// Forgets what links carry now, where messages go other ways from now on.
    void forget();

    /// What a link carried in a window, both of them.
    struct measured {
        double rate = 0;   ///< [B/s]
        double busy = 0;   ///< part of the time in which messages were under way
        double quick = 0;  ///< [B/s] of the half of messages that came soonest after one another

        friend bool operator==(const measured&, const measured&) = default;
    };
    /// What a direction has carried.
    struct history {
        std::deque<std::pair<std::uint32_t, measured>> last{};  ///< by window
        std::deque<double> before{};                            ///< rates of earlier windows
        double usual = 0;                                       ///< half of them are at least this; 0: few are known
    };
    const history& of(int link) { return past()[static_cast<std::size_t>(link)]; }

private:
    struct flow {
        std::optional<message_sample> sent, received;
    };
    // A link in the last windows, both directions together.
    struct judgement {
        int link = 0;
        double part = 0;      // of what is usual, in the better direction and the best window but one
        bool waits = false;   // it carries less than usual, and messages wait for it
        bool is_even = true;  // messages come one by one, in both directions about alike
    };
    using flows = std::map<std::pair<int, int>, flow>;

    // What is known of messages between two ranks: the shortest times from begin to end in windows of the last minute
    // [s]. The clocks of ranks differ by what these are apart from the time that links take.
    struct pair_times {
        std::deque<double> shortest{};
        double off = 0;  // that begins seem to be early [s]
    };

    void learn(pair_times& t, const flow& f, double rate) const;
    std::optional<measured> measure(const std::vector<std::pair<const flow*, double>>& through) const;
    void measure_all(std::uint32_t window, const flows& seen);
    std::vector<history>& past();
    std::optional<double> part_of_usual(int link);
    bool carry_the_same(int a, int b);
    std::optional<judgement> judge_link(int link, std::uint32_t window);
    std::vector<finding> compare(std::uint32_t window);
    void end_slow(std::vector<finding>& found);

    std::vector<direction> links_;
    path path_;
    std::uint32_t every_;
    std::map<std::uint32_t, flows> windows_;           // that are not judged yet
    int calls_ = -1;                                   // message_sample::calls of the last window; -1: several
    std::map<int, std::vector<history>> past_;         // by calls, then by link: other calls may need less of a link
    std::map<std::pair<int, int>, pair_times> pairs_;  // by sender and receiver
    std::vector<finding> slow_;
};

}  // namespace terrace::detail
