#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include <terrace/communicator.hpp>

#include "api/call_check.hpp"
#include "executor/program.hpp"
#include "plan/recipe.hpp"

namespace terrace {

/// What is behind a communicator: a plan, a transport, and programs bound so far.
class [[gnu::visibility("hidden")]] communicator::core {
public:
    /// `rank` is the caller's own numbering. All ranks have the same plan, which whoever made `net` has made sure of.
    /// @throws plan_error
    core(const plan& p, std::unique_ptr<transport> net, int rank, options o);

    using shape_of_call = call_shape;

    void run(const shape_of_call& call, const void* send, void* recv);
    /// Null where the color is negative.
    std::unique_ptr<core> split(int color, int key);
    std::string shape(std::int64_t bytes) const;
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return net_->size(); }

private:
    struct bound {
        shape_of_call what;
        program run;
    };

    slicing slice_call(const shape_of_call& call, const rule& chosen) const;
    std::vector<program::place> take_slots(const program& p);
    void share_memory();
    void number_ranks();
    program& find_or_bind(const shape_of_call& call);
    program bind(const shape_of_call& call);
    schedule program_of(const shape_of_call& call, const rule& chosen, std::int64_t count) const;
    schedule block_program_of(const shape_of_call& call, const rule& chosen, std::int64_t count) const;
    std::int64_t elements_of(const shape_of_call& call) const;
    bool fits_slot(std::int64_t count, const shape_of_call& call) const;

    plan plan_;
    int rank_;
    std::vector<int> callers_rank_;  // by rank of the plan
    options options_;
    std::list<bound> cache_;  // most recently used first; must outlive what the transport still has in flight
    std::unique_ptr<transport> net_;
    std::vector<std::uint64_t> turns_;  // chunks begun so far by lane slot: equal on all ranks
    int next_slot_ = 0;
    std::unique_ptr<call_check> check_;
    bool broken_ = false;     // a call has failed: some ranks may have gone on, so that no later one can match
};

}  // namespace terrace
