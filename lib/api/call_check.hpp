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
#include <vector>

#include <terrace/options.hpp>

#include "api/failure_watch.hpp"
#include "api/signature.hpp"
#include "api/wait_chain.hpp"
#include "executor/engine.hpp"
#include "executor/point_to_point.hpp"

namespace terrace::detail {

/// Finds calls that differ between the ranks of a communicator before they run.
///
/// Ranks compare by notes, in ceil(lg P) rounds: in round k each passes on to the rank 2^k ahead the lowest and the
/// highest hash it knows of, so that in the end all know whether there is more than one. The hash is over the call and
/// all calls before it. What each rank has called is gathered only where they differ.
///
/// At level `first` a rank whose call is of a shape that has been agreed on runs it without comparing. If another rank
/// calls something else there, which is new to it, that one begins to compare; its notes say so to ranks that wait in
/// the call, which then take part and fail with it, rather than wait for messages that never come. If it is not new to
/// any, messages of the two calls do not meet, since all carry the call's stamp. Who waits for long tells those that it
/// waits for its stamp; one that has made another call at that number tells all, and all compare.
class call_check {
public:
    /// @param callers_rank the callers' numbering by rank of `net`, which must outlive this
    /// @param chain takes the notes that are no comparison's
    /// @param progress moves calls in flight along while this waits: a rank may have to end one before it gets here
    /// @param watch what whoever waits does where nothing moves, which may throw to end it
    /// @param patience how long a call waits until it tells its stamp
    call_check(endpoint& net, std::vector<int> callers_rank, wait_chain& chain, options::checking level,
               std::function<void()> progress, std::function<void()> watch,
               std::chrono::duration<double> patience = std::chrono::seconds(1));

    /// Hands notes of messages on to `messages`, which must outlive this.
    void serve(point_to_point& messages) noexcept { messages_ = &messages; }
    /// Hands notes of failures on to `failures`, which must outlive this.
    void serve(failure_watch& failures) noexcept { failures_ = &failures; }

    /// Before a call that is right in itself: returns true if the call may run, and false where it is compared first.
    /// Then advance() says when it may. No comparison may be under way.
    /// @param signature signature_of(call)   @throws usage_error if another rank has made a different call
    bool start(const call_shape& call, std::uint64_t signature);
    /// Moves the comparison along. Returns true if none is under way any more.
    /// @throws usage_error on all ranks if their calls differ
    bool advance();
    /// The same as start(), and waits. @throws transport_error, and what `watch` does, too
    void begin(const call_shape& call, std::uint64_t signature);
    /// Before something else that all ranks must do together, said in words: it is compared unless the level is `off`.
    /// A call that is refused takes part as such, so that the others do not wait for it.
    /// @param detail for the message alone @throws as above
    void meet(const std::string& what, const std::string& detail = {});
    /// For one who waits in a call. @throws usage_error if another rank has made a different call
    void listen();
    /// Whether listen() has anything to do: at level `every` who waits in a call has compared it.
    bool listens() const noexcept { return level_ == options::checking::first && net_.size() > 1; }
    /// The stamp of the call that was begun last, which its messages carry.
    call_stamp stamp() const noexcept { return {compares() ? calls_ : 0, history_}; }
    /// Whether it is time for one who has waited so long in a call to tell its stamp to those that it waits for.
    bool is_time_to_tell(std::chrono::duration<double> waited) noexcept;
    /// Tells a stamp to a rank, once.
    void tell(const call_stamp& stamp, int rank);
    /// Whether a stamp may still be under way to a rank that does not read it.
    bool is_open() const noexcept { return !told_.empty(); }
    /// How long ago this was first asked of the comparison that is under way; 0 where there is none. A rank that waits
    /// asks all the time.
    std::chrono::duration<double> age() noexcept;
    /// Takes the notes that have arrived.
    void take_notes();
    /// Adds what the comparison under way waits for.
    void add_waits(waiting& all);

private:
    struct record {
        std::uint64_t number = 0;  // of calls, from 1
        std::uint64_t before = 0;  // history_ without it
        std::uint64_t after = 0;   // and with it
        call_shape call;
        std::string words;  // instead of a call
    };

    bool compares() const noexcept { return level_ != options::checking::off && net_.size() > 1; }
    record& count_call(std::uint64_t signature);
    record& at(std::uint64_t call) noexcept { return recent_[call & (recent_.size() - 1)]; }
    bool hears_of_a_comparison() const noexcept;
    bool knows_of_a_difference() const noexcept { return differing_ && *differing_ <= calls_; }
    bool take_stamp(const note& n);
    void compare_with(const call_stamp& stamp);
    void open(std::uint64_t call, std::uint64_t low, std::uint64_t high);
    void exchange(std::uint64_t call, std::uint64_t low, std::uint64_t high);
    bool finish_round();
    void agree_on(std::uint64_t signature);
    template <class Done>
    void await(Done done);
    std::string said(std::uint64_t call);
    std::uint64_t earliest_difference(std::uint64_t call);
    [[noreturn]] void report(std::uint64_t call);

    endpoint& net_;
    std::vector<int> callers_rank_;
    wait_chain& chain_;
    point_to_point* messages_ = nullptr;
    failure_watch* failures_ = nullptr;
    options::checking level_;
    std::function<void()> progress_, watch_;

    std::uint64_t calls_ = 0;        // begun
    std::uint64_t comparisons_ = 0;  // finished
    std::uint64_t history_ = 0;      // hash over all calls
    std::array<record, 64> recent_;  // a rank may be ahead of others where it waits for none of them
    std::unordered_set<std::uint64_t> agreed_;
    std::optional<std::uint64_t> last_agreed_;  // begun last: most calls are like the one before
    // The comparison that is under way.
    struct comparison {
        std::uint64_t call = 0, low = 0, high = 0;  // the earliest call in question, and the hashes known
        std::uint64_t round = 0;
        int distance = 1;
        bool told = false;                         // this rank has sent its note of the round
        std::optional<std::uint64_t> agrees_on{};  // signature
        std::chrono::steady_clock::time_point since{};
    };
    std::optional<comparison> open_;
    // Stamps of calls that wait for long.
    std::chrono::duration<double> patience_;
    std::set<int> told_;                      // ranks that have been told one, and have not answered
    std::map<int, std::uint64_t> last_told_;  // call, by rank
    std::chrono::steady_clock::time_point next_telling_{};
    std::vector<call_stamp> ahead_;           // of calls that this rank has not begun
    std::optional<std::uint64_t> differing_;  // a call that ranks have made differently

    int awaited_ = -1;         // rank, while this one compares
    std::vector<note> heard_;  // of the comparison that comes next, and of the one after it
};

}  // namespace terrace::detail
