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

/// Iterations of a row where the command line does not say: as fit into about a second, but within these.
inline constexpr int fewest_iterations = 5;
inline constexpr int most_iterations = 200;  // or the fewest, where they are more

/// What the command line asks for.
struct settings {
    std::filesystem::path plan_file;
    std::filesystem::path json_file;  ///< results for programs; empty: none
    bool force = false;               ///< replaces files that Terrace did not write
    std::vector<collective> collectives{collective::allreduce};
    int root = 0;                                          ///< of broadcast and reduce
    bool all_that_suit = false;                            ///< `algorithms` are all, as the user has named none
    std::vector<std::string> algorithms;                   ///< names of backends, in the order they run and are printed
    std::vector<std::filesystem::path> beside;             ///< plans that run, too, by the names of their files
    std::string reference;                                 ///< the one among them that the others are divided by
    std::int64_t begin = 8, end = std::int64_t{32} << 20;  ///< bytes of the larger buffer, inclusive
    std::int64_t step = 0;                                 ///< [bytes] from size to size; 0: `factor` rules
    int factor = 4;
    std::optional<int> iterations;   ///< nothing: as many as time allows
    int fewest = fewest_iterations;  ///< where time is to tell
    int warmup = 2;
    bool check = true;
    element_type type = element_type::float32;
    reduce_op op = reduce_op::sum;
    options::placement place = options::placement::by_node;
    bool ucx = false;          ///< Terrace's messages go over UCX, not MPI
    bool device = false;       ///< buffers are on a GPU
    bool staging = false;      ///< and go through memory of the host
    bool graph = false;        ///< calls on them are captured, and replayed
    bool windows = false;      ///< backends may use memory of their own (backend::allocate)
    bool own_lengths = false;  ///< of blocks that are exchanged each rank knows those of its own alone
    int async = 1;             ///< calls of an iteration, at once where a backend can
    bool in_turn = false;      ///< these calls run one after the other
    bool progress = false;     ///< also where stderr is no terminal

    /// Returns the name of the function that is measured: of `what`, or of its twin for lengths of blocks.
    std::string function_of(collective what) const { return std::string(to_string(what)) + (own_lengths ? "v" : ""); }
    /// Returns what a plan of `beside` is called: its file's name up to the first dot.
    static std::string name_of(const std::filesystem::path& plan) {
        const std::string file = plan.filename();
        return file.substr(0, file.find('.'));
    }
    /// Elements of each call to measure, ascending and positive (count_of).
    std::vector<std::int64_t> counts(collective what, int ranks) const;
};

std::variant<settings, answer> parse_settings(int argc, const char* const* argv);

}  // namespace terrace::detail::bench
