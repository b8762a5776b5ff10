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

/// Finds links that have become slower, by the times at which messages began and were complete.
///
/// Messages that began after one moment and were complete before another one crossed their links in between. So the
/// rate of a link is at least their bytes over this time. The highest such rate of a window is the measure of a link. A
/// link that waits for another link or for a rank still shows its rate, once a few messages cross it without delay. A
/// slow link cannot. A late rank delays messages of one direction only: so both directions of a slow link must be slow.
class slow_links {
public:
    /// One direction of a link.
    struct direction {
        int kind = 0;     ///< row of the link (link_rows)
        int back = 0;     ///< number of the other direction
        double rate = 0;  ///< rate in the plan [B/s]
    };
    /// A link that has become slow, or has recovered.
    struct finding {
        std::vector<int> links;   ///< a direction of each link, by number; several if they carry the same messages
        double rate = 0;          ///< present rate [B/s]
        double before = 0;        ///< rate before [B/s]
        std::uint32_t since = 0;  ///< first window with the slow rate
        bool is_slow = false;
    };
    /// Returns the links that messages pass from one rank to another.
    using path = std::function<std::vector<int>(int from, int to)>;

    slow_links(std::vector<direction> links, path links_between, std::uint32_t every = 1)
        : links_(std::move(links)), path_(std::move(links_between)), every_(every) {}

    /// Adds the times of messages between two ranks, recorded by one of them. @param sends true: by the sender
    void add(std::uint32_t window, int from, int to, bool sends, const message_sample& s);
    /// Judges windows whose records should have arrived; returns changed links. @param now the window that is open
    std::vector<finding> judge(std::uint32_t now);
    /// Returns true if a slow link may have recovered: single messages show a higher rate.
    bool may_be_back();
    /// Forgets the latest rates of links, since messages take other routes from now on.
    void forget() {
        for (auto& [calls, links] : past_)
            for (history& h : links) h.last.clear();
    }

private:
    // The time of a message at one of its ends.
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
    // The records of messages from one rank to another.
    struct pair_times {
        numbered begun{};
        std::deque<double> shortest{};  // by window of the last minute: shortest time, minus that on the link [s]
    };
    struct crossing {
        std::vector<message> messages{};
        double burst = 0;  // bytes that may seem to cross a link in no time, due to queues and clocks
    };
    // The rates of a link in a window.
    struct measured {
        double rate = 0, sure = 0;  // [B/s]; `sure` holds even if clocks differ
        std::vector<message> messages{};
        friend bool operator==(const measured&, const measured&) = default;
    };
    struct history {
        std::deque<std::pair<std::uint32_t, measured>> last{};  // by window
        std::deque<double> before{};                            // rates in earlier windows
        double usual = 0;                                       // rate that the best of them show; 0: too few windows
    };
    // The state of a link in the last windows, both directions together.
    struct judgement {
        int link = 0;
        double part = 0;  // present rate as a part of the usual one, in the better direction
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
    std::map<std::uint32_t, flows> windows_;           // ends of messages, by window that is not judged yet
    std::uint32_t judged_ = 0;                         // windows before this one are judged
    int calls_ = -1;                                   // message_sample::calls of the last window; -1: several
    std::map<int, std::vector<history>> past_;         // by calls, then by link: other calls may use less of a link
    std::map<std::pair<int, int>, pair_times> pairs_;  // by sender and receiver
    std::vector<finding> slow_;
};

}  // namespace terrace::detail
