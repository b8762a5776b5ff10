#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <terrace/options.hpp>

#include "tools/common/answer.hpp"

namespace terrace::detail::bench {

/// What the command line of --training asks for. Each combination of the lists is a row.
struct training_settings {
    /// In place of a bucket size: all gradients of a type in one bucket; what the reducer chooses.
    static constexpr std::int64_t all = -2, automatic = -1;

    std::string model;  ///< a built-in one's name, or a file
    std::filesystem::path plan_file, json_file, svg_file;
    std::vector<std::string> algorithms{"hierarchical"};  ///< names of backends that are plans
    std::vector<std::int64_t> buckets;                    ///< bytes of buckets, before they are scaled
    std::vector<bool> overlaps{true};                     ///< gradients travel while the backward pass runs
    std::vector<int> every{1};                            ///< iterations of which the last synchronises
    std::vector<int> communicators{1};
    double scale = 1;   ///< of bytes, times and sizes of buckets
    double slower = 1;  ///< compute takes so many times as long
    int iterations = 15, warmup = 6;
    bool check = true;
    bool error_feedback = false;  ///< where gradients are rounded on the wire
    options::placement place = options::placement::by_node;
    bool ucx = false;
    bool force = false, progress = false;
};

std::variant<training_settings, answer> parse_training_settings(int argc, const char* const* argv);
/// The same command line as a mode of another one's page.
std::shared_ptr<CLI::App> training_page();

}  // namespace terrace::detail::bench
