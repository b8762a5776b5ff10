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
/// Messages that all began after some time and were complete before another one crossed their links in between. So a
/// link carries at least their bytes by that time, and the most that a window shows is the measure of a link. A link
/// that waits, for another one or for a rank, shows its rate as soon as a few messages cross it without delay. One that
/// is slow cannot. Where ranks are late, the messages of one direction are: a link is slow where both directions are.
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
    /// Returns true if a link that is slow may be back: single messages have shown more.
    bool may_be_back();
    /// Forgets what links carry now, where messages go other ways from now on.
    void forget() {
        for (auto& [calls, links] : past_)
            for (history& h : links) h.last.clear();
    }

private:
    // The end of a message at one rank.
    struct noted {
        double time = 0, bytes = 0;  // [s]
        int calls = 0;
    };
    struct message {
        double begun = 0, ended = 0, bytes = 0;  // [s]
        friend bool operator==(const message&, const message&) = default;
    };
    using numbered = std::map<std::uint32_t, noted>;
    using flows = std::map<std::pair<int, int>, numbered>;  // by sender and receiver
    // What is known of messages from one rank to another.
    struct pair_times {
        numbered begun{};
        std::deque<double> shortest{};  // from begin to end, less what links take, in windows of the last minute [s]
    };
    struct crossing {
        std::vector<message> messages{};
        double burst = 0;  // bytes by which the shortest of a pair is shorter, as queues or clocks allow
    };
    // What a window shows of a link.
    struct measured {
        double rate = 0, sure = 0;  // [B/s]; the second however clocks differ
        std::vector<message> messages{};
        friend bool operator==(const measured&, const measured&) = default;
    };
    struct history {
        std::deque<std::pair<std::uint32_t, measured>> last{};  // by window
        std::deque<double> before{};                            // rates of earlier windows
        double usual = 0;                                       // what the best of them show; 0: few are known
    };
    // A link in the last windows, both directions together.
    struct judgement {
        int link = 0;
        double part = 0;  // of what is usual, at most, in the better direction
    };

    static crossing messages_of(pair_times& p, const numbered& ended, double rate);
    void measure(std::uint32_t window, const flows& seen);
    std::vector<history>& past();
    const history& of(int link) { return past()[static_cast<std::size_t>(link)]; }
    double rate_now(int link);
    bool carry_the_same(int a, int b);
    std::optional<judgement> judge_link(int link, std::uint32_t window);
    bool is_back(const finding& f);
    bool show(const finding& f, double part, double measured::*rate, std::size_t windows);
    std::optional<finding> compare(std::uint32_t window);
    void end_slow(std::vector<finding>& found);

    std::vector<direction> links_;
    path path_;
    std::uint32_t every_;
    std::map<std::uint32_t, flows> windows_;           // of which some is not judged yet: ends of messages
    std::uint32_t judged_ = 0;                         // windows before it are
    int calls_ = -1;                                   // message_sample::calls of the last window; -1: several
    std::map<int, std::vector<history>> past_;         // by calls, then by link: other calls may need less of a link
    std::map<std::pair<int, int>, pair_times> pairs_;  // by sender and receiver
    std::vector<finding> slow_;
};

}  // namespace terrace::detail
