#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <terrace/options.hpp>
#include <terrace/types.hpp>

#include "plan/plan_data.hpp"
#include "tools/common/answer.hpp"

namespace terrace::detail::bench {

/// Limits for the iterations of a row without -n, which are as many as fit into about a second.
inline constexpr int fewest_iterations = 5;
inline constexpr int most_iterations = 200;  // or settings::fewest, if that is more

/// Settings from the command line.
struct settings {
    std::filesystem::path plan_file;
    std::filesystem::path json_file;  ///< results for programs; empty: none
    bool force = false;               ///< replaces files that Terrace did not write
    std::vector<collective> collectives{collective::allreduce};
    int root = 0;                                          ///< root of the collectives that have one
    bool all_that_suit = false;                            ///< the user named no algorithms: `algorithms` has all
    std::vector<std::string> algorithms;                   ///< names of back ends, in the order of their rows
    std::vector<std::filesystem::path> beside;             ///< more plans to run, named by their files
    std::string reference;                                 ///< algorithm by whose time the others are divided
    std::int64_t begin = 8, end = std::int64_t{32} << 20;  ///< bytes of the larger buffer, inclusive
    std::int64_t step = 0;                                 ///< difference between sizes [bytes]; 0: `factor` applies
    int factor = 4;
    std::optional<int> iterations;   ///< nothing: as many as time allows
    int fewest = fewest_iterations;  ///< minimum if `iterations` is not given
    int warmup = 2;
    bool check = true;
    element_type type = element_type::float32;
    reduce_op op = reduce_op::sum;
    options::placement place = options::placement::by_node;
    bool ucx = false;          ///< Terrace's messages go over UCX, not MPI
    bool device = false;       ///< buffers are on a GPU
    bool staging = false;      ///< device buffers go through host memory
    bool graph = false;        ///< calls on device buffers are captured, and replayed
    bool windows = false;      ///< back ends may use memory of their own (backend::allocate)
    bool own_lengths = false;  ///< exchanges: each rank knows only the lengths of its own blocks
    int async = 1;             ///< calls per iteration, at once if a back end can
    bool in_turn = false;      ///< these calls run one after the other
    bool progress = false;     ///< even if stderr is no terminal

    /// Returns the name of the measured function: that of `what`, or of its variant with lengths of blocks.
    std::string function_of(collective what) const { return std::string(to_string(what)) + (own_lengths ? "v" : ""); }
    /// Returns the name of a plan of `beside`: its file name up to the first dot.
    static std::string name_of(const std::filesystem::path& plan) {
        const std::string file = plan.filename();
        return file.substr(0, file.find('.'));
    }
    /// Returns the elements of each call to measure, ascending and positive (count_of).
    std::vector<std::int64_t> counts(collective what, int ranks) const;
};

std::variant<settings, answer> parse_settings(int argc, const char* const* argv);

}  // namespace terrace::detail::bench
