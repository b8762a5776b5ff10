#pragma once

#include <span>
#include <vector>

#include "planner/pattern.hpp"
#include "planner/phase_setting.hpp"

namespace terrace::detail {

/// Use of a link in its two directions.
struct link_use {
    double out = 0, in = 0;

    double busier() const noexcept { return out > in ? out : in; }
    link_use& operator+=(const link_use& more) noexcept {
        out += more.out;
        in += more.in;
        return *this;
    }
    friend link_use operator*(const link_use& use, double times) noexcept { return {use.out * times, use.in * times}; }
    friend bool operator==(const link_use&, const link_use&) = default;
};

/// Counts the load of a phase, domain by domain. Domains do not wait for one another: of start-ups and of time on wires
/// the domain counts that has the most. Ranks of equal domains do the same, so that samples speak for all.
class load_tally {
public:
    explicit load_tally(const phase_setting& setting);

    const phase_setting& setting() const noexcept { return setting_; }

    /// The load of the domain at hand.
    struct domain_load {
        double startups = 0, wire = 0, in_turn = 0, overlap = 0, path_memory = 0;
        std::vector<message_load> path;
        double path_parts = 0;  ///< size of the messages on the path, together
        std::vector<ring_hop> lap;
        std::vector<double> held_startups, held_wire;  ///< by position; empty: all take part in everything
    };

    /// Begins a domain of the stage, which has these samples.
    void begin(std::span<const std::size_t> samples);
    domain_load& now() noexcept { return now_; }
    std::span<const std::size_t> samples() const noexcept { return here_; }
    const sample_place& any_place() const { return setting_.place_of(here_.front()); }
    int size() const { return any_place().positions; }
    /// Time that a vector takes on the busiest link inside any of the positions, which all send it together [s/B].
    double inside() const noexcept { return inside_; }
    /// The same inside the position that a sample speaks for.
    double inside(std::size_t sample) const noexcept { return inside_of_[sample]; }
    /// The largest piece that a rank of the domain holds, of the vector.
    double largest_piece() const noexcept { return largest_piece_; }

    /// What a step keeps a processor busy with.
    struct step_messages {
        double largest = 0;  ///< message, a part of what its domain moves
        int level = 0;       ///< that it crosses
        int at_once = 1;     ///< so many of one position, one after the other
    };
    /// Adds equal steps in succession to the domain: the time of their busiest link [s/B], and the latency of each [s].
    void add_steps(const exchange& steps, double busiest, const step_messages& each, double latency);
    /// Adds a message that a sampled rank sends or receives in each of so many steps, a part of what its domain moves.
    void add_message(std::size_t sample, bool sends, double part, int level, int steps);
    /// Adds time of a sampled rank's processor [s/B].
    void add_processor_time(std::size_t sample, double time) { ranks_[sample].memory += time; }
    /// Adds vectors through the link of the sample's domain of a height, if it has one.
    void pass(std::size_t sample, int height, const link_use& vectors);
    /// Adds vectors through a link of the sample in any row of links.
    void pass_row(std::size_t sample, int row, const link_use& vectors);
    /// Notes a message, or a part that a rank works on, of the vector.
    void note_size(double part, bool between_nodes);
    /// Notes that several rings of the domain run side by side. A rank takes part in one or another all the time.
    void run_side_by_side();
    /// Ends the domain.
    void end();

    /// The load of the phase, once all domains are counted.
    phase_load finish();

private:
    struct rank_load {
        std::vector<message_load> sent, received;
        double memory = 0;
    };

    double time_inside(std::size_t sample) const;
    double time_on_nic(std::size_t sample) const;
    void count(std::vector<message_load>& messages, const message_load& more) const;
    double owners_of(const sample_place& p) const;

    const phase_setting& setting_;
    std::vector<rank_load> ranks_;  // by sample
    phase_load made_;
    double longest_path_ = 0;
    // For the domain at hand.
    std::span<const std::size_t> here_;
    double inside_ = 0;
    std::vector<double> inside_of_;  // by sample
    double largest_piece_ = 0;
    domain_load now_;
};

}  // namespace terrace::detail
