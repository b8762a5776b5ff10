#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "schedule/block_layout.hpp"
#include "schedule/collective_call.hpp"

namespace terrace::detail {

/// Returns the first stage that cannot exchange blocks, and why; nothing if all can. Stages of an exchange are in mode
/// scatter or root, of gather and scatter all in the same, and run an algorithm that has an exchanger, over messages;
/// all blocks take them in one order.
std::optional<std::pair<int, std::string>> fault_of_exchange(std::span<const stage> stages,
                                                             collective what = collective::alltoall);
/// @throws stage_error that says the same
void check_exchange(std::span<const stage> stages, collective what = collective::alltoall);

/// Returns the groups of an exchange. The vector that they divide has one element for each rank, which stands for all
/// blocks that go to this rank: after a stage the owner of the element in a domain has the blocks of the domain's ranks
/// (docs/explanation/ownership.md, "Blocks from each rank to each rank"). Owners are those after the way down, which
/// stages of alltoall in mode root go.
/// @throws stage_error, plan_error as check_exchange() and compose() do
block_layout compose_exchange(const hierarchy& machine, std::span<const stage> stages,
                              collective what = collective::alltoall);

/// Returns the program of one rank.
/// @param b made by compose_exchange   @param shape stage_tree() of the same
schedule generate_exchange(const block_layout& b, const tree& shape, const collective_call& call, int rank);

}  // namespace terrace::detail
