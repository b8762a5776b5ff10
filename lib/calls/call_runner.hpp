#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <terrace/options.hpp>

#include "base/index.hpp"
#include "calls/binding.hpp"
#include "calls/failure_state.hpp"
#include "calls/program_cache.hpp"
#include "calls/uneven_call.hpp"
#include "control/call_order/call_check.hpp"
#include "control/plan_change/plan_changes.hpp"
#include "executor/engine.hpp"

namespace terrace::detail {

/// Runs calls of host buffers. Each shape has a program, and more programs while several calls of it are in flight.
class call_runner {
public:
    using programs = program_cache<program>;

    /// Parts of the communicator. All referenced objects must outlive the last call of the runner.
    struct parts {
        binding bound;
        endpoint& net;
        engine& running;
        recorder& events;
        call_check& call_order;  ///< gives the stamp that messages of a call carry
        plan_changes& plan_change;
        failure_state& failure;
        const options& o;
        std::function<void()> begun;  ///< called after each issue of a call
    };

    explicit call_runner(const parts& with) : with_(with), programs_(with.o.memory) {}

    /// Returns the rank of this process in the caller's numbering.
    int rank() const noexcept { return with_.bound.callers_rank[at(with_.bound.rank)]; }
    int size() const noexcept { return with_.net.size(); }
    bool done(std::uint64_t number) const noexcept { return with_.running.done(number); }

    /// Returns why the call is invalid on this rank; empty if it is valid.
    std::string objection_to(const full_call& c) const {
        std::string wrong = detail::objection_to(c.shape, rank(), size(), c.buffers.send, c.buffers.recv);
        return wrong.empty() ? with_.bound.objection_to_wire(c.shape) : wrong;
    }
    /// Returns the way in which blocks are sent. All ranks get the same result, since it depends on common values only.
    uneven_call::way way_of(const uneven_blocks& b) const;

    /// Selects the plan of the next call in the order of all ranks. Returns false while this plan is unknown.
    bool follow_plan();

    /// Returns an idle program for such calls; null if there is none.
    programs::entry* find_idle(const full_call& c) noexcept {
        return find_idle(c.shape, peers_reach(c.shape, c.buffers.send, c.buffers.recv));
    }
    /// Returns an idle program for such calls; makes one if there is none. @param near peers can access the buffers
    programs::entry& program_for(const call_shape& call, bool near = false);

    /// Issues a call, the same on all ranks.
    /// @param factor of premul_sum, for this rank's elements   @param found an idle program; null: one is found or made
    /// @returns its number in the engine; 0: there is nothing to do
    std::uint64_t issue(const call_shape& call, call_buffers b, double factor = 1, programs::entry* found = nullptr);

    void keep_programs(std::size_t shapes) noexcept { programs_.keep(shapes); }
    /// Keeps all programs until the process ends, since the network may still use their memory.
    void keep_for_ever() { programs_.keep_for_ever(); }

private:
    // Returns true if peers on the node can access the buffers of the call's program, and this saves time. Such a
    // program is `near`.
    bool peers_reach(const call_shape& call, const void* send, const void* recv) const noexcept;
    programs::entry* find_idle(const call_shape& call, bool near) noexcept;
    program bind(const call_shape& call, bool near);
    int owners_of(const rule& r, const call_shape& call) const;
    void lend_scratch(programs::entry& to, std::size_t more = 0);
    const void* multiplied(programs::entry& by, const void* send, void* recv, double factor);

    parts with_;
    std::shared_ptr<const plan_data> plan_;                          // plan of the next call; null: the first plan
    std::map<std::string, std::shared_ptr<const plan_data>> plans_;  // later plans so far, by text
    programs programs_;
};

}  // namespace terrace::detail
