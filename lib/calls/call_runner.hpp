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

/// Runs calls of host buffers by the programs of their shapes: one for each shape, and more while several calls of it
/// are in flight.
class call_runner {
public:
    using programs = program_cache<program>;

    /// What it works with. All that it refers to must outlive its last call.
    struct parts {
        binding bound;
        endpoint& net;
        engine& running;
        recorder& events;
        call_check& call_order;  ///< whose stamp the messages of a call carry
        plan_changes& plan_change;
        failure_state& failure;
        const options& o;
        std::function<void()> begun;  ///< is called whenever a call has been issued
    };

    explicit call_runner(const parts& with) : with_(with), programs_(with.o.memory) {}

    /// Returns the callers' number of this process.
    int rank() const noexcept { return with_.bound.callers_rank[at(with_.bound.rank)]; }
    int size() const noexcept { return with_.net.size(); }
    bool done(std::uint64_t number) const noexcept { return with_.running.done(number); }

    /// Why the call is wrong in itself on this rank; empty if it is not.
    std::string objection_to(const full_call& c) const {
        std::string wrong = detail::objection_to(c.shape, rank(), size(), c.buffers.send, c.buffers.recv);
        return wrong.empty() ? with_.bound.objection_to_wire(c.shape) : wrong;
    }
    /// Returns how blocks go, by what all ranks know alike.
    uneven_call::way way_of(const uneven_blocks& b) const;

    /// Before the next call in the order of all ranks: takes the plan that it runs by. Returns false while that is not
    /// known.
    bool follow_plan();

    /// Returns an idle program for such calls, if there is one.
    programs::entry* find_idle(const full_call& c) noexcept {
        return find_idle(c.shape, peers_reach(c.shape, c.buffers.send, c.buffers.recv));
    }
    /// Returns an idle program for such calls, which is made if there is none. @param near peers reach their buffers
    programs::entry& program_for(const call_shape& call, bool near = false);

    /// Issues a call that all ranks make alike.
    /// @param factor of this rank's elements, of premul_sum   @param found an idle program; null: one is found or made
    /// @returns its number in the engine; 0: there is nothing to do
    std::uint64_t issue(const call_shape& call, call_buffers b, double factor = 1, programs::entry* found = nullptr);

    void keep_programs(std::size_t shapes) noexcept { programs_.keep(shapes); }
    /// Keeps all programs for the rest of the process: the network may still work on their memory.
    void keep_for_ever() { programs_.keep_for_ever(); }

private:
    // True if peers on the node reach the buffers that the call's program works on, and gain by it. Such a program is
    // `near`.
    bool peers_reach(const call_shape& call, const void* send, const void* recv) const noexcept;
    programs::entry* find_idle(const call_shape& call, bool near) noexcept;
    program bind(const call_shape& call, bool near);
    int owners_of(const rule& r, const call_shape& call) const;
    void lend_scratch(programs::entry& to, std::size_t more = 0);
    const void* multiplied(programs::entry& by, const void* send, void* recv, double factor);

    parts with_;
    std::shared_ptr<const plan_data> plan_;                          // that calls have changed to; null: the first one
    std::map<std::string, std::shared_ptr<const plan_data>> plans_;  // that they have changed to so far, by their text
    programs programs_;
};

}  // namespace terrace::detail
