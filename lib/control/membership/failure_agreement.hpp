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

/// A fact that one rank has found out about another one. Ranks are numbered as in the plan.
struct testimony_of_failure {
    int rank = 0;  ///< rank that the fact is about
    int by = 0;    ///< rank that has found it; `rank` itself if any rank would find the same
    evidence shows = evidence::process_ended;

    friend auto operator<=>(const testimony_of_failure&, const testimony_of_failure&) = default;
};

/// Failed ranks, with the evidence for each.
using failed_ranks = std::map<int, evidence>;

/// Returns the failed ranks by the known facts. If two ranks cannot reach each other, the one in more such pairs has
/// failed. If both are in equally many, it is the one with fewer lines, since a larger share of them is cut; then the
/// one that fewer ranks reach; then the higher one. So both sides of a cut get the same result.
/// @param lines liveness::lines, by rank
failed_ranks judge(const std::set<testimony_of_failure>& known, const std::vector<int>& lines = {});

/// The facts about failures that a rank knows, its own and those of others. They only grow in number.
class failure_knowledge {
public:
    using clock = std::chrono::steady_clock;

    /// Adds a fact, unless it is known.
    void add(const testimony_of_failure& t);
    const std::set<testimony_of_failure>& all() const noexcept { return all_; }
    /// Returns the same facts, in the order of arrival.
    const std::vector<testimony_of_failure>& facts() const noexcept { return facts_; }
    std::uint64_t hash() const noexcept { return hash_; }
    /// Returns the time of the last new fact, or of the last set_changed().
    clock::time_point changed() const noexcept { return changed_; }
    void set_changed() noexcept { changed_ = clock::now(); }
    /// Returns true if there are pairs of ranks that do not reach each other.
    bool has_pairs() const noexcept { return has_pairs_; }
    /// Returns true if a rank is in one of these pairs.
    bool is_in_a_pair(int rank) const;

private:
    std::set<testimony_of_failure> all_;
    std::vector<testimony_of_failure> facts_;
    bool has_pairs_ = false;
    std::uint64_t hash_ = 0;
    clock::time_point changed_{};
};

/// A set of ranks of a communicator, as blocks that each fit into a control message.
class rank_set {
public:
    using block = std::array<std::uint64_t, 4>;  ///< 256 ranks, one bit each

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

/// A ring of ranks in ascending order, as seen by one of them.
class rank_ring {
public:
    rank_ring() = default;
    /// @param ranks ascending   @param own one of them
    rank_ring(std::vector<int> ranks, int own) : ranks_(std::move(ranks)), place_(position_of(own, ranks_)) {}

    int size() const noexcept { return static_cast<int>(ranks_.size()); }
    /// Returns the binary logarithm of its size, rounded up.
    int log() const noexcept { return static_cast<int>(std::bit_width(ranks_.size() - 1)); }
    /// Returns the rank at distance d ahead, or behind if d is negative. @param d at most once around the ring
    int at_distance(int d) const noexcept { return ranks_[at((place_ + size() + d) % size())]; }

private:
    std::vector<int> ranks_;
    int place_ = 0;
};

/// Lets all ranks that reach one another agree on the failed ranks, even if more fail meanwhile. The page on control
/// messages describes the protocol. Each rank has some 2 lg P contacts, which follow from the facts that it knows.
///
/// Each fact reaches all ranks, from contact to contact. When all ranks that are not known to have failed know the same
/// facts, these give the verdict. The first rank that has it sends it to its contacts before it continues. A rank that
/// receives a verdict adopts it and passes it on. A rank that makes no call is silent: after `patience` without news
/// the others continue without it. It adopts their verdict in its next call.
///
/// There may be several rounds, one after the other, each with its own verdict. In a round that all ranks take part in,
/// they may agree that none has failed.
class failure_agreement final : public control_service {
public:
    using clock = failure_knowledge::clock;

    /// @param lines as in judge()
    failure_agreement(control_router& router, std::chrono::duration<double> patience, std::vector<int> lines = {});

    /// Adds a fact that this rank has found out.
    void add(const testimony_of_failure& t) { knowledge_.add(t); }
    const failure_knowledge& knowledge() const noexcept { return knowledge_; }
    /// Sets whether this rank may soon find out more. If so, it does not decide while it knows of ranks that cannot
    /// reach each other: which rank of a pair has failed depends on the number of its pairs.
    void expect_more(bool expects) noexcept { expects_more_ = expects; }
    /// Progresses the round. Returns true once there is a verdict, which may be empty if all_come.
    /// @param all_come all ranks that have not failed take part in the round, however late; a rank that has failed by
    /// its own facts does not wait for them
    bool advance(bool all_come = false);
    /// Returns the verdict of the round; empty if there is none yet.
    const failed_ranks& verdict() const noexcept { return verdict_; }
    /// Returns the failed ranks by the facts that this rank knew in the last advance().
    const failed_ranks& known_failed() const noexcept { return weighed_.failed; }
    /// Begins the next round. Known facts remain known.
    void next_round();
    /// Returns true if a rank takes part in this round, as far as this rank knows.
    bool has_come(int rank) const {
        const auto state = rounds_.find(epoch_);
        return state != rounds_.end() && state->second.come.contains(rank);
    }
    /// Returns the ranks that do not take part yet, of those not known to have failed.
    std::vector<int> silent() const;

private:
    using testimonies = std::set<testimony_of_failure>;
    struct step_bits {
        std::uint64_t come = 0;  // received steps, one bit each
        int sent = 0;            // number of steps that this rank has sent
    };
    struct round_state {
        explicit round_state(int ranks) : come(ranks), sent_come(ranks) {}

        rank_set come;                                // ranks that take part
        std::map<std::uint64_t, step_bits> steps;     // by hash of the sender's facts
        std::map<std::uint64_t, testimonies> coming;  // received facts of verdicts, by hash of the verdict
        std::optional<std::uint64_t> decided;         // hash of the first verdict that is complete
        std::optional<testimonies> final;             // verdict of this rank
        std::set<int> informed;                       // ranks that it was sent to
        std::optional<clock::time_point> began;       // time when this rank first sent messages
        rank_set sent_come;                           // ranks sent to sent_to, except in greetings
        std::vector<int> sent_to;
        clock::time_point next_said;
    };
    struct contact {
        std::size_t sent = 0;  // number of facts sent
        bool greeted = false;  // in this round
    };

    void receive(int from, const control_frame& f) override;
    void weigh();
    std::vector<int> contacts();
    void send_news(bool all_come);
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
    // Conclusions from knowledge_.
    struct {
        std::size_t facts = 0;     // number of facts that were used
        failed_ranks failed;       // judge()
        rank_ring not_dead, live;  // this rank and all that have not died; all that have not failed
    } weighed_;
    std::map<int, contact> contacts_;
    std::uint16_t epoch_ = 0;                      // number of the round; wraps around
    std::map<std::uint16_t, round_state> rounds_;  // the last round, this one, and later ones begun by other ranks
    failed_ranks verdict_;
};

}  // namespace terrace::detail
