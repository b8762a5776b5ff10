#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "control/router.hpp"
#include "transport/liveness.hpp"

namespace terrace::detail {

/// Something that a rank has found out about another one. Ranks are the plan's.
struct testimony_of_failure {
    int rank = 0;  ///< of which it is
    int by = 0;    ///< who has found it; `rank` itself where any rank would find the same
    evidence shows = evidence::process_ended;

    friend auto operator<=>(const testimony_of_failure&, const testimony_of_failure&) = default;
};

/// Ranks that have failed, and what shows it.
using failed_ranks = std::map<int, evidence>;

/// Returns who has failed by what is known. If two ranks cannot reach each other it is the one that is in most such
/// pairs; of two with equally many the one with fewer lines, since more of them are cut; then the one that fewer ranks
/// reach, then the higher one. So both sides of a cut say the same.
/// @param lines liveness::lines, by rank
failed_ranks judge(const std::set<testimony_of_failure>& known, const std::vector<int>& lines = {});

/// What a rank knows of failures, from itself and from others. It only grows.
class failure_knowledge {
public:
    using clock = std::chrono::steady_clock;

    /// Adds what has been found out.
    void add(const testimony_of_failure& t);
    const std::set<testimony_of_failure>& all() const noexcept { return all_; }
    /// Returns the same in the order of arrival.
    const std::vector<testimony_of_failure>& facts() const noexcept { return facts_; }
    std::uint64_t hash() const noexcept { return hash_; }
    /// Returns when something was added last, or changed() was set.
    clock::time_point changed() const noexcept { return changed_; }
    void set_changed() noexcept { changed_ = clock::now(); }
    /// Returns true if there are ranks that do not reach each other.
    bool has_pairs() const noexcept { return has_pairs_; }
    /// Returns true if a rank is one of these.
    bool is_in_a_pair(int rank) const;

private:
    std::set<testimony_of_failure> all_;
    std::vector<testimony_of_failure> facts_;
    bool has_pairs_ = false;
    std::uint64_t hash_ = 0;
    clock::time_point changed_{};
};

/// Some of the ranks of a communicator, in blocks that fit into a control message each.
class rank_set {
public:
    using block = std::array<std::uint64_t, 4>;  ///< of 256 ranks, a bit each

    explicit rank_set(int ranks = 0) : blocks_(at(ranks + 255) / 256) {}

    static constexpr std::size_t block_of(int rank) noexcept { return at(rank) / 256; }
    std::size_t size() const noexcept { return blocks_.size(); }
    const block& operator[](std::size_t i) const noexcept { return blocks_[i]; }

    bool contains(int rank) const noexcept { return (blocks_[block_of(rank)][word_of(rank)] & bit_of(rank)) != 0; }
    void insert(int rank) noexcept { blocks_[block_of(rank)][word_of(rank)] |= bit_of(rank); }
    void insert(std::size_t i, const block& ranks) noexcept {
        for (std::size_t w = 0; w < ranks.size(); ++w) blocks_[i][w] |= ranks[w];
    }

private:
    static constexpr std::size_t word_of(int rank) noexcept { return at(rank) / 64 % 4; }
    static constexpr std::uint64_t bit_of(int rank) noexcept { return std::uint64_t{1} << at(rank) % 64; }

    std::vector<block> blocks_;
};

/// Some ranks in a ring, in ascending order, as one of them sees it.
class rank_ring {
public:
    rank_ring() = default;
    /// @param ranks ascending   @param own one of them
    rank_ring(std::vector<int> ranks, int own) : ranks_(std::move(ranks)), place_(position_of(own, ranks_)) {}

    int size() const noexcept { return static_cast<int>(ranks_.size()); }
    /// Returns the logarithm of its size, rounded up.
    int log() const noexcept { return static_cast<int>(std::bit_width(ranks_.size() - 1)); }
    /// Returns the rank so far ahead, at most once around; behind if it is negative.
    int at_distance(int d) const noexcept { return ranks_[at((place_ + size() + d) % size())]; }

private:
    std::vector<int> ranks_;
    int place_ = 0;
};

/// Lets all ranks that reach one another name the same failed ranks, also when more fail meanwhile: the page on control
/// messages has the protocol. Each rank has some 2 lg P contacts, which follow from what it knows.
///
/// What a rank knows reaches all others from contact to contact. When all ranks that are not known to have failed know
/// the same, that is the verdict; who has it first sends it to its contacts before it goes on, and who gets it adopts
/// it, and passes it on. A rank that makes no call says nothing: after `patience` without news the others go on without
/// it. It adopts their verdict when it makes its next call.
///
/// There may be several rounds, one after the other, each with a verdict of its own. In one that all ranks take part in
/// they may agree that none has failed.
class failure_agreement final : public control_service {
public:
    using clock = failure_knowledge::clock;

    /// @param lines as judge() has it
    failure_agreement(control_router& router, std::chrono::duration<double> patience, std::vector<int> lines = {});

    /// Adds what this rank has found out.
    void add(const testimony_of_failure& t) { knowledge_.add(t); }
    const failure_knowledge& knowledge() const noexcept { return knowledge_; }
    /// Says whether this rank may find out more soon. Then it names nobody yet of whom some say that they cannot reach
    /// them: who of a pair is to blame depends on how many others say so.
    void expect_more(bool expects) noexcept { expects_more_ = expects; }
    /// Moves the round along. Returns true once there is a verdict, which may be that none has failed if all come.
    /// @param all_come all ranks that have not failed take part in the round, however late; a rank that has failed by
    /// what it knows waits for none
    bool advance(bool all_come = false);
    /// Returns the verdict of the round; empty where there is none yet.
    const failed_ranks& verdict() const noexcept { return verdict_; }
    /// Returns who has failed by what this rank knew in the last advance().
    const failed_ranks& known_failed() const noexcept { return weighed_.failed; }
    /// Begins the next round, in which all is known that was before.
    void next_round();
    /// Whether a rank takes part in this round, as far as this rank knows.
    bool has_come(int rank) const {
        const auto state = rounds_.find(epoch_);
        return state != rounds_.end() && state->second.come.contains(rank);
    }
    /// Returns the ranks that have not come, of those not known to have failed.
    std::vector<int> silent() const;

private:
    using testimonies = std::set<testimony_of_failure>;
    struct step_bits {
        std::uint64_t come = 0;  // steps that have been said to this rank
        int sent = 0;            // steps that this rank has sent
    };
    struct round_state {
        explicit round_state(int ranks) : come(ranks), sent_come(ranks) {}

        rank_set come;                                // ranks that take part
        std::map<std::uint64_t, step_bits> steps;     // by hash of what is known
        std::map<std::uint64_t, testimonies> coming;  // verdicts, by hash
        std::optional<std::uint64_t> decided;         // hash of the one that is complete
        std::optional<testimonies> final;             // the verdict
        std::set<int> informed;                       // ranks that have been told it
        std::optional<clock::time_point> began;       // this rank has spoken
        rank_set sent_come;                           // to sent_to, but for greetings
        std::vector<int> sent_to;
        clock::time_point next_said;
    };
    struct contact {
        std::size_t sent = 0;  // facts
        bool greeted = false;  // in this round
    };

    void receive(int from, const control_frame& f) override;
    void weigh();
    std::vector<int> contacts();
    void speak(bool all_come);
    void send_steps();
    void send_arrivals(const std::vector<int>& whom);
    bool is_agreed(bool all_come);
    void decide(const testimonies& final) {
        verdict_ = judge(final, lines_);
        now().final = final;
        for (const int peer : contacts()) send_verdict(peer, epoch_);
    }
    void send_verdict(int peer, std::uint16_t epoch);
    round_state& round(std::uint16_t epoch) { return rounds_.try_emplace(epoch, net_.size()).first->second; }
    round_state& now() { return round(epoch_); }

    std::chrono::duration<double> patience_;
    std::vector<int> lines_;
    failure_knowledge knowledge_;
    bool expects_more_ = false;
    // What follows from knowledge_.
    struct {
        std::size_t facts = 0;    // of these
        failed_ranks failed;      // judge()
        rank_ring hearers, live;  // ranks that have not died, and that have not failed, this one among them
    } weighed_;
    std::map<int, contact> contacts_;
    std::uint16_t epoch_ = 0;                      // wraps around
    std::map<std::uint16_t, round_state> rounds_;  // the last one, this one, and those that others are in already
    failed_ranks verdict_;
};

}  // namespace terrace::detail
