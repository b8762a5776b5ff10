#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan_data.hpp"
#include "schedule/group_proof.hpp"

namespace terrace::detail {

/// Reads a plan, and checks that all its rules can be run. @throws input_error
plan_data read_runnable_plan(const std::filesystem::path& file);

/// A program to prove for all ranks: one rule of the plan, at the count of one chunk.
struct claim {
    collective what = collective::allreduce;
    std::size_t rule = 0;
    std::int64_t count = 0;  ///< float32 elements of the chunk; for reduce_scatter and allgather, of every block
    int root = 0;            ///< for broadcast and reduce
    std::string reason;      ///< the message of which it is a chunk
};

/// Returns the claims that `terrace verify` proves: every rule of every collective, as the executor would run it.
/// Messages (or blocks) have 0, 1, P-1, P and 2P+3 elements and the sizes on both sides of every rule's bound, or only
/// `count` elements. The root is the first, the middle or the last rank. No program occurs twice.
std::vector<claim> claims_of(const plan_data& plan, std::optional<std::int64_t> count = {});

/// Estimates the instructions of all ranks: the cost of proving a whole program. Lays nothing out.
std::int64_t work_of(const plan_data& plan, const claim& c);

/// Returns the fault of the program; nothing if it is right.
std::optional<std::string> prove(const plan_data& plan, const claim& c);

/// Does the same if a whole program is too long. Uses and extends the proofs of groups in `known`.
std::optional<std::string> prove_by_groups(const plan_data& plan, const claim& c, group_proof& known);

/// Returns "allreduce rule 2 (up to 64 KiB), 1024 elements, from ...", for messages.
std::string describe(const plan_data& plan, const claim& c);

}  // namespace terrace::detail
