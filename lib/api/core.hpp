#pragma once

#include <list>
#include <memory>
#include <string>

#include <terrace/communicator.hpp>

#include "executor/program.hpp"
#include "plan/recipe.hpp"

namespace terrace {

/// What is behind a communicator: a plan, a transport, and programs bound so far.
class communicator::core {
public:
    /// `rank` is the caller's own numbering. All ranks have the same plan, which whoever made `net` has made sure of.
    /// @throws plan_error
    core(const plan& p, std::unique_ptr<transport> net, int rank, options o);

    void allreduce(const void* send, void* recv, std::int64_t count, element_type type, reduce_op op);
    std::string shape(std::int64_t bytes) const;
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return net_->size(); }

private:
    /// What two calls must have in common to run the same program.
    struct key {
        std::int64_t count;
        element_type type;
        reduce_op op;
        friend bool operator==(const key&, const key&) = default;
    };
    struct bound {
        key what;
        program run;
    };

    void check_rules() const;
    program& find_or_bind(const key& k);
    program bind(const key& k);

    plan plan_;
    int rank_;
    options options_;
    std::list<bound> cache_;  // most recently used first; must outlive what the transport still has in flight
    std::unique_ptr<transport> net_;
    bool broken_ = false;     // a call has failed: some ranks may have gone on, so that no later one can match
};

}  // namespace terrace
