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

/// The calls of a rank, numbered from 1. Only the latest ones are remembered.
class call_history {
public:
    struct record {
        std::uint64_t number = 0;
        std::uint64_t before = 0;  ///< hash over all earlier calls
        std::uint64_t after = 0;   ///< hash over all earlier calls and this one
        call_shape call;
        std::string words;  ///< description of an action that is not a call; replaces `call`
    };

    /// Adds a call. Returns its record, in which only the number and the hashes are set.
    record& add(std::uint64_t signature);
    /// Returns the number of the last call.
    std::uint64_t calls() const noexcept { return calls_; }
    /// Returns the hash over all calls.
    std::uint64_t hash() const noexcept { return hash_; }
    /// Returns the record of a call; that of a later call if this one is no longer remembered.
    const record& at(std::uint64_t call) const noexcept { return recent_[call & (remembered - 1)]; }
    /// Returns the description of a call, with its number.
    std::string text_of(std::uint64_t call) const;

    /// Number of calls that are remembered, since a rank may be ahead of ranks that it does not wait for.
    static constexpr std::size_t remembered = 64;
    /// Returns the stamps of the remembered calls, in no order; unused entries have number 0.
    std::array<call_stamp, remembered> stamps() const noexcept {
        std::array<call_stamp, remembered> own{};
        for (std::size_t i = 0; i < own.size(); ++i) own[i] = {recent_[i].number, recent_[i].after};
        return own;
    }

private:
    std::uint64_t calls_ = 0, hash_ = 0;
    std::array<record, remembered> recent_;
};

/// Returns the first call that differs between ranks, if all ranks still remember it; otherwise `otherwise`.
/// @param all the stamps of all ranks
std::uint64_t earliest_difference(const std::vector<call_stamp>& all, std::size_t ranks, std::uint64_t otherwise);

/// Stamps that were sent to the ranks that a call waits for. A rank gets the next stamp only after it has read the one
/// before. So a rank that computes for long finds at most one stamp from each other rank.
class sent_stamps {
public:
    /// @param patience time that a call waits before its stamp is sent
    explicit sent_stamps(std::chrono::duration<double> patience) noexcept : patience_(patience) {}

    /// Returns true if it is time to send the stamp of a call. @param waited time that this rank has waited in the call
    bool is_time(std::chrono::duration<double> waited) noexcept {
        const auto now = clock::now();
        if (waited < patience_ || now < next_) return false;
        next_ = now + std::chrono::duration_cast<clock::duration>(patience_ / 4);
        return true;
    }
    /// Returns true if the stamp of a call must be sent to a rank, and records it as sent.
    bool add(int rank, std::uint64_t call) {
        if (unread_.contains(rank) || std::exchange(last_[rank], call) == call) return false;
        unread_.insert(rank);
        return true;
    }
    /// Records that a rank has read its stamp.
    void read_by(int rank) { unread_.erase(rank); }
    /// Returns true if a stamp may still be in flight to a rank that has not read it.
    bool is_open() const noexcept { return !unread_.empty(); }

private:
    using clock = std::chrono::steady_clock;

    std::chrono::duration<double> patience_;
    std::set<int> unread_;               // ranks that have not read their stamp
    std::map<int, std::uint64_t> last_;  // number of the call whose stamp was sent last, by rank
    clock::time_point next_{};
};

/// Finds calls that differ between the ranks of a communicator before they run.
///
/// Ranks compare by control messages, in ceil(lg P) rounds. In round k each rank sends the lowest and the highest hash
/// that it knows to the rank 2^k ahead. In the end all ranks know whether hashes differ. The hash covers the call and
/// all calls before it. Only if hashes differ do ranks gather what each has called.
///
/// At level `first` a rank runs a call without a comparison if ranks have agreed on its shape before. If another rank
/// makes a different call, of a new shape, that rank begins a comparison. Its messages reach ranks that wait in the
/// call; these take part and fail as well, instead of waiting for messages that never come. If no shape is new,
/// messages of the two calls do not match, since all carry the call's stamp. A rank that waits for long sends its stamp
/// to the ranks that it waits for. A rank that has made another call of that number informs all ranks, and all compare.
class call_check final : public control_service {
public:
    /// @param callers_rank the caller's rank numbers, by rank of the endpoint; must outlive this
    /// @param o the level and the timeout are used   @param progress progresses calls in flight during a wait, since a
    /// rank may have to complete one before it makes this call   @param watch called while nothing progresses; may
    /// throw to end the wait
    call_check(control_router& router, const std::vector<int>& callers_rank, const options& o,
               std::function<void()> progress, std::function<void()> watch);

    /// Must be called before a valid call. Returns true if the call may run. Returns false if ranks compare it first;
    /// it may run once advance() returns true. No other comparison may be in progress.
    /// @param signature signature_of(call)   @throws usage_error if another rank has made a different call
    bool start(const call_shape& call, std::uint64_t signature);
    /// Progresses the comparison. Returns true if none is in progress any more.
    /// @throws usage_error on all ranks if their calls differ
    bool advance();
    /// Does the same as start(), and waits until the call may run. @throws transport_error and errors of `watch`, too
    void start_and_wait(const call_shape& call, std::uint64_t signature) {
        if (!start(call, signature)) finish();
    }
    /// Compares another action that all ranks must do together, unless the level is `off`. A refused call takes part as
    /// such an action, so the other ranks do not wait for it.
    /// @param what description of the action   @param detail for the error message only   @throws as above
    void meet(const std::string& what, const std::string& detail = {});
    /// Does the same for an invalid call.
    void meet_refused(const call_shape& call, const std::string& objection) {
        meet(describe(call) + ", refused", ": " + objection);
    }
    /// Takes part in comparisons of others while this rank waits in a call. @throws usage_error if calls differ
    void listen();
    /// Returns true if listen() is needed. At level `every` it is not: ranks have compared each call that they wait in.
    bool listens() const noexcept { return level_ == options::checking::first && net_.size() > 1; }
    /// Returns the stamp of the call that was begun last, which its messages carry.
    call_stamp stamp() const noexcept { return {compares() ? history_.calls() : 0, history_.hash()}; }
    /// Returns the record of stamps that were sent.
    sent_stamps& stamps() noexcept { return stamps_; }
    /// Sends a stamp to a rank, if sent_stamps::add allows it.
    void send_stamp(const call_stamp& stamp, int rank) {
        if (stamp.number != 0 && rank != net_.rank() && stamps_.add(rank, stamp.number))
            send_control(rank, order_kind::stamp, {}, stamp);
    }
    /// Returns time_since_first_call() of the comparison in progress; 0 if there is none.
    std::chrono::duration<double> age() noexcept {
        return comparisons_.open ? time_since_first_call(comparisons_.open->since) : std::chrono::duration<double>{};
    }
    /// Adds the rank that the comparison in progress waits for.
    void add_waits(waiting& all);

private:
    // Content of a message of a round: the earliest call in question, and the lowest and the highest hash known.
    struct hashes {
        std::uint64_t call = 0, low = 0, high = 0;
    };
    struct received_round {
        std::uint16_t comparison = 0;
        std::uint32_t round = 0;
        hashes known;
    };
    // A comparison in progress.
    struct comparison {
        hashes known;
        std::uint32_t round = 0;
        bool sent = false;                         // this rank has sent its message of the round
        std::optional<std::uint64_t> agrees_on{};  // signature that ranks agree on if no hash differs
        std::chrono::steady_clock::time_point since{};
    };
    // Signatures that ranks have agreed on.
    struct agreed_calls {
        std::unordered_set<std::uint64_t> all;
        std::optional<std::uint64_t> last;  // signature of the call that was begun last, since most calls repeat it

        bool contains(std::uint64_t signature) const { return signature == last || all.contains(signature); }
        void add(std::uint64_t signature);
    };
    // Knowledge of calls that differ between ranks and were not compared.
    struct suspicions {
        std::optional<std::uint64_t> call;  // the earliest such call
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
        std::uint16_t finished = 0;  // number of finished comparisons; wraps around
        std::optional<comparison> open;
        std::vector<received_round> received;  // of the comparison that is open or comes next, and of the one after it
    } comparisons_;
};

}  // namespace terrace::detail
