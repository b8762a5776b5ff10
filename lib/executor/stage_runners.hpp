#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transport/stage_runner.hpp"

namespace terrace::detail {

/// The runners of whole stages of a communicator: one in the memory that the ranks of a node share, and one by the
/// collectives of the library below. There may be none.
class stage_runners {
public:
    /// Adds runners, before anything runs. Null: none.
    void add(std::unique_ptr<node_stage_runner> node);
    void add(std::unique_ptr<stage_runner> collectives);

    const capabilities& can() const noexcept { return can_; }
    node_stage_runner* node() const noexcept { return node_.get(); }
    bool any() const noexcept { return node_ || collectives_; }

    /// stage_runner::start. Returns true for a stage of the library, whose progress somebody must look after.
    bool start(int slot, const stage_call& call) noexcept {
        if (call.by != provider::mpi) return node_->start(slot, call), false;
        collectives_->start(slot, call);
        return true;
    }
    /// Moves stages along, and appends the slots of those that are complete. Returns how many are the library's.
    std::size_t poll(std::vector<int>& done) noexcept {
        if (node_) node_->poll(done);
        if (!collectives_) return 0;
        const std::size_t before = done.size();
        collectives_->poll(done);
        return done.size() - before;
    }
    /// Returns the ranks that the stage in a slot waits for.
    std::vector<int> missing(int slot) const;
    /// Returns one of them; -1: none.
    int first_missing(int slot) const {
        const int in_node = node_ ? node_->first_missing(slot) : -1;
        return in_node < 0 && collectives_ ? collectives_->first_missing(slot) : in_node;
    }
    std::byte* lane_memory(int lane_slot, std::size_t bytes) noexcept {
        return node_ ? node_->lane_memory(lane_slot, bytes) : nullptr;
    }
    bool lane_ready(int lane_slot) noexcept { return !node_ || node_->lane_ready(lane_slot); }
    std::vector<int> lane_readers(int lane_slot) const {
        return node_ ? node_->lane_readers(lane_slot) : std::vector<int>{};
    }
    /// Returns the first failure; null if there is none.
    const std::optional<transport_fault>* fault() const noexcept {
        return collectives_ ? &collectives_->fault() : nullptr;
    }
    bool abandon() noexcept { return !collectives_ || collectives_->abandon(); }

private:
    std::unique_ptr<stage_runner> collectives_;
    std::unique_ptr<node_stage_runner> node_;
    capabilities can_;
};

}  // namespace terrace::detail
