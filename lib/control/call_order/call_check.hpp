#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <terrace/options.hpp>

#include "control/call_order/signature.hpp"
#include "control/router.hpp"
#include "executor/engine.hpp"

namespace terrace::detail {

/// The calls that a rank has made, by number from 1, of which it remembers the last ones.
class call_history {
public:
    struct record {
        std::uint64_t number = 0;
        std::uint64_t before = 0;  ///< hash over all calls before it
        std::uint64_t after = 0;   ///< the same with it
        call_shape call;
        std::string words;  ///< instead of a call
    };

    /// Adds a call. Its record has its numbers alone.
    record& add(std::uint64_t signature);
    /// Returns the number of the last call.
    std::uint64_t calls() const noexcept { return calls_; }
    /// Returns the hash over all calls.
    std::uint64_t hash() const noexcept { return hash_; }
    /// Returns the record of a call; of another one if it is no longer remembered.
    const record& at(std::uint64_t call) const noexcept { return recent_[call & (remembered - 1)]; }
    /// Returns a call in words.
    std::string text_of(std::uint64_t call) const;

    /// The number of calls that are remembered: a rank may be ahead of others where it waits for none of them.
    static constexpr std::size_t remembered = 64;
    /// Returns the stamps of these, in no order; number 0 where there is none.
    std::array<call_stamp, remembered> stamps() const noexcept {
        std::array<call_stamp, remembered> own{};
        for (std::size_t i = 0; i < own.size(); ++i) own[i] = {recent_[i].number, recent_[i].after};
        return own;
    }

private:
    std::uint64_t calls_ = 0, hash_ = 0;
    std::array<record, remembered> recent_;
};

/// Returns the first call at which ranks came apart, if all still know it; else `otherwise`.
/// @param all the stamps of all ranks
std::uint64_t earliest_difference(const std::vector<call_stamp>& all, std::size_t ranks, std::uint64_t otherwise);

/// Which ranks have been told the stamp of a call that waits for them. A rank is told one at a time: it may compute for
/// long, again and again, and then finds no more than one of each other rank.
class sent_stamps {
public:
    /// @param patience how long a call waits until its stamp is told
    explicit sent_stamps(std::chrono::duration<double> patience) noexcept : patience_(patience) {}

    /// Returns true if it is time for a rank that has waited so long in a call to tell its stamp.
    bool is_time(std::chrono::duration<double> waited) noexcept {
        const auto now = clock::now();
        if (waited < patience_ || now < next_) return false;
        next_ = now + std::chrono::duration_cast<clock::duration>(patience_ / 4);
        return true;
    }
    /// Returns true if a rank is to be told the stamp of a call, and takes it for told.
    bool add(int rank, std::uint64_t call) {
        if (unread_.contains(rank) || std::exchange(last_[rank], call) == call) return false;
        unread_.insert(rank);
        return true;
    }
    /// Follows the answer of a rank.
    void read_by(int rank) { unread_.erase(rank); }
    /// Returns true if a stamp may still be under way to a rank that does not read it.
    bool is_open() const noexcept { return !unread_.empty(); }

private:
    using clock = std::chrono::steady_clock;

    std::chrono::duration<double> patience_;
    std::set<int> unread_;               // ranks that have not answered
    std::map<int, std::uint64_t> last_;  // call, by rank
    clock::time_point next_{};
};

/// Finds calls that differ between the ranks of a communicator before they run.
///
/// Ranks compare by control messages, in ceil(lg P) rounds: in round k each passes on to the rank 2^k ahead the lowest
/// and the highest hash it knows of, so that in the end all know whether there is more than one. The hash is over the
/// call and all calls before it. What each rank has called is gathered only where they differ.
///
/// At level `first` a rank whose call is of a shape that has been agreed on runs it without comparing. If another rank
/// calls something else there, which is new to it, that one begins to compare; its messages say so to ranks that wait
/// in the call, which then take part and fail with it, rather than wait for messages that never come. If it is not new
/// to any, messages of the two calls do not meet, since all carry the call's stamp. Who waits for long tells those that
/// it waits for its stamp; one that has made another call at that number tells all, and all compare.
class call_check final : public control_service {
public:
    /// @param callers_rank the callers' numbering by rank of the endpoint; must outlive this
    /// @param o its check and timeout   @param progress moves calls in flight along while this waits: a rank may have
    /// to end one before it gets here   @param watch what whoever waits does where nothing moves, which may throw to
    /// end it
    call_check(control_router& router, const std::vector<int>& callers_rank, const options& o,
               std::function<void()> progress, std::function<void()> watch);

    /// Before a call that is right in itself: returns true if the call may run, and false where it is compared first.
    /// Then advance() says when it may. No comparison may be under way.
    /// @param signature signature_of(call)   @throws usage_error if another rank has made a different call
    bool start(const call_shape& call, std::uint64_t signature);
    /// Moves the comparison along. Returns true if none is under way any more.
    /// @throws usage_error on all ranks if their calls differ
    bool advance();
    /// The same as start(), and waits. @throws transport_error, and what `watch` does, too
    void start_and_wait(const call_shape& call, std::uint64_t signature) {
        if (!start(call, signature)) finish();
    }
    /// Before something else that all ranks must do together, said in words: it is compared unless the level is `off`.
    /// A call that is refused takes part as such, so that the others do not wait for it.
    /// @param detail for the message alone @throws as above
    void meet(const std::string& what, const std::string& detail = {});
    /// The same of a call that is wrong in itself.
    void meet_refused(const call_shape& call, const std::string& objection) {
        meet(describe(call) + ", refused", ": " + objection);
    }
    /// For one who waits in a call. @throws usage_error if another rank has made a different call
    void listen();
    /// Whether listen() has anything to do: at level `every` who waits in a call has compared it.
    bool listens() const noexcept { return level_ == options::checking::first && net_.size() > 1; }
    /// The stamp of the call that was begun last, which its messages carry.
    call_stamp stamp() const noexcept { return {compares() ? history_.calls() : 0, history_.hash()}; }
    /// Which ranks know the stamp of a call that waits for them.
    sent_stamps& stamps() noexcept { return stamps_; }
    /// Tells a stamp to a rank, unless that knows it.
    void send_stamp(const call_stamp& stamp, int rank) {
        if (stamp.number != 0 && rank != net_.rank() && stamps_.add(rank, stamp.number))
            send_control(rank, order_kind::stamp, {}, stamp);
    }
    /// Returns time_since_asked() of the comparison that is under way; 0 where there is none.
    std::chrono::duration<double> age() noexcept {
        return comparisons_.open ? time_since_asked(comparisons_.open->since) : std::chrono::duration<double>{};
    }
    /// Adds what the comparison under way waits for.
    void add_waits(waiting& all);

private:
    // The earliest call in question, and the lowest and the highest hash known: what ranks say in a round.
    struct hashes {
        std::uint64_t call = 0, low = 0, high = 0;
    };
    struct received_round {
        std::uint16_t comparison = 0;
        std::uint32_t round = 0;
        hashes of;
    };
    // A comparison that is under way.
    struct comparison {
        hashes known;
        std::uint32_t round = 0;
        bool sent = false;                         // this rank has sent its message of the round
        std::optional<std::uint64_t> agrees_on{};  // signature
        std::chrono::steady_clock::time_point since{};
    };
    // Signatures that ranks have agreed on.
    struct agreed_calls {
        std::unordered_set<std::uint64_t> all;
        std::optional<std::uint64_t> last;  // of the call that was begun last: most calls are like the one before

        bool contains(std::uint64_t signature) const { return signature == last || all.contains(signature); }
        void add(std::uint64_t signature);
    };
    // What is known of calls that ranks have made differently without comparing them.
    struct suspicions {
        std::optional<std::uint64_t> call;  // the earliest one
        std::vector<call_stamp> ahead;      // stamps of calls that this rank has not begun
    };

    bool compares() const noexcept { return level_ != options::checking::off && net_.size() > 1; }
    call_history::record& count_call(std::uint64_t signature);
    bool knows_of_a_difference() const noexcept { return differing_.call && *differing_.call <= history_.calls(); }
    void receive(int from, const control_frame& f) override;
    void compare_with(const call_stamp& stamp);
    void exchange(const hashes& known) {
        comparisons_.open = {.known = known};
        finish();
    }
    bool finish_round();
    void finish();
    [[noreturn]] void report(std::uint64_t call);

    control_router& router_;
    const std::vector<int>& callers_rank_;
    options::checking level_;
    std::function<void()> progress_, watch_;
    call_history history_;
    agreed_calls agreed_;
    sent_stamps stamps_;
    suspicions differing_;
    struct {
        std::uint16_t finished = 0;  // wraps around
        std::optional<comparison> open;
        std::vector<received_round> received;  // of the comparison that comes next, and of the one after it
    } comparisons_;
};

}  // namespace terrace::detail
