#pragma once

#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/communicator.hpp>
#include <terrace/request.hpp>

#include "api/binding.hpp"
#include "api/call_check.hpp"
#include "api/device_calls.hpp"
#include "api/progress_thread.hpp"
#include "executor/engine.hpp"
#include "plan/recipe.hpp"

namespace terrace {

/// What is behind a communicator: a plan, a transport, programs bound so far, and those in flight.
class [[gnu::visibility("hidden")]] communicator::core final : public calls_in_flight {
public:
    /// `rank` is the caller's own numbering. All ranks have the same plan, which whoever made `net` has made sure of.
    /// @param device for device buffers as well   @throws plan_error; with a device transport_error, timeout_error
    core(const plan& p, std::unique_ptr<transport> net, int rank, options o, std::optional<device_setting> device = {});

    using shape_of_call = call_shape;

    ~core();

    /// Starts a call, wherever its buffers are. @returns nothing left to wait for if it is complete already
    request start(const shape_of_call& call, const void* send, void* recv);
    /// Puts a call whose buffers are on the device behind what is in `stream`, and returns.
    void enqueue(const shape_of_call& call, const void* send, void* recv, CUstream_st* stream);
    /// Waits for all that have been put in.
    void synchronize();
    void run(const shape_of_call& call, const void* send, void* recv);
    bool test(std::uint64_t call) override;
    void wait(std::uint64_t call) override;
    std::shared_ptr<std::byte> allocate(std::size_t count, std::size_t element);
    /// Null where the color is negative.
    std::unique_ptr<core> split(int color, int key);
    std::string shape(std::int64_t bytes) const;
    std::string transports() const;
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return net_->size(); }

private:
    struct bound {
        shape_of_call what;
        std::uint64_t signature;
        bool reachable;  // both buffers, to peers on the node
        program run;
        std::uint64_t call = 0;  // the last one that it ran
    };

    slicing slice_call(const shape_of_call& call, const rule& chosen) const;
    std::uint64_t start_on_device(const shape_of_call& call, const void* send, void* recv, CUstream_st* stream);
    void prepare_library();
    void share_memory();
    int most_lanes() const;
    int lane_slots() const;
    void check_call(const shape_of_call& call, std::uint64_t signature, const void* send, const void* recv,
                    std::string objection = {});
    std::unique_ptr<progress_thread> make_thread();
    progress_thread::lock hold();
    void finish(std::uint64_t call);
    bool progress();
    void look_around();
    void watch();
    waiting waits() const;
    [[noreturn]] void time_out() const;
    [[noreturn]] void fail(std::exception_ptr why);
    template <class Action>
    void or_fail(Action what);
    template <class Action>
    void or_all_fail(Action what);
    void keep_programs();
    void dump() const;
    void number_ranks();
    bool reachable(const shape_of_call& call, const void* send, const void* recv) const noexcept;
    bound* find_idle(const shape_of_call& call, bool reachable) noexcept;
    bound& bind_new(const shape_of_call& call, std::uint64_t signature, bool reachable);
    program bind(const shape_of_call& call, bool reachable);
    void expect_unbroken(std::string_view what) const;
    void end_calls_for(const std::string& what);
    bool streams(const shape_of_call& call) const;
    bool fits_slot(std::int64_t count, const shape_of_call& call) const;

    plan plan_;
    int rank_;
    std::vector<int> callers_rank_;  // by rank of the plan
    binding binding_;
    options options_;
    std::list<bound> cache_;  // most recently used first; must outlive what the transport still has in flight
    std::unique_ptr<transport> net_;
    recorder events_;
    std::unique_ptr<engine> engine_;
    std::unique_ptr<call_check> check_;
    std::optional<device_setting> device_;
    std::unique_ptr<device_calls> device_calls_;
    std::unique_ptr<progress_thread> thread_;
    unsigned dumps_seen_ = 0;
    std::exception_ptr failure_;  // of a call: some ranks may have gone on, so that no later one can match
};

}  // namespace terrace
