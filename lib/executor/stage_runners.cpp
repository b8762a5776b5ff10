#include "executor/stage_runners.hpp"

#include <utility>

namespace terrace::detail {

void stage_runners::add(std::unique_ptr<node_stage_runner> node) {
    if (!node) return;
    node_ = std::move(node);
    const capabilities& more = node_->can();
    can_.stages = more.stages;
    can_.domain = more.domain;
    can_.slot_bytes = more.slot_bytes;
    can_.slots = more.slots;
}

void stage_runners::add(std::unique_ptr<stage_runner> collectives) {
    if (!collectives) return;
    collectives_ = std::move(collectives);
    const capabilities& more = collectives_->can();
    can_.mpi_stages = more.mpi_stages;
    can_.mpi_groups = more.mpi_groups;
    can_.slots = more.slots;
}

std::vector<int> stage_runners::missing(int slot) const {
    std::vector<int> ranks = node_ ? node_->missing(slot) : std::vector<int>{};
    return ranks.empty() && collectives_ ? collectives_->missing(slot) : ranks;
}

}  // namespace terrace::detail
