#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <terrace/options.hpp>

#include "bench/measure/links.hpp"
#include "bench/measure/world.hpp"
#include "tools/common/answer.hpp"

namespace CLI {
class App;
}

// The modes of terrace-bench beside the comparison of algorithms: the settings from its command line, and a function
// that all ranks call, which runs the mode and returns the exit code.

namespace terrace::detail::bench {

inline constexpr int success = 0, something_wrong = 1;  // exit codes

/// Returns the current time: ISO 8601, UTC.
std::string now_text();
/// Prints on the first rank. @throws refusal on all ranks if standard output is full or closed
void say(const world& w, const std::string& text);

/// Settings of `terrace-bench --detect`.
struct detect_settings {
    std::filesystem::path output_file;  ///< empty: the file goes to stdout
    std::string name;
    bool measure = false;
    bool force = false;  ///< replaces a file that Terrace did not write
    bool progress = false;
};
std::variant<detect_settings, answer> parse_detect_settings(int argc, const char* const* argv);

/// Settings of `terrace-bench --chaos`.
struct chaos_settings {
    int failures = 1;
    std::filesystem::path plan_file;
    std::uint64_t seed = 1;  ///< determines which ranks fail, and when
    options::placement place = options::placement::by_node;
    bool ucx = false;
};

std::variant<chaos_settings, answer> parse_chaos_settings(int argc, const char* const* argv);
/// Runs `terrace-bench --chaos`. Without MPI it ends the process itself, since the bench's own communicator may wait
/// for failed ranks.
int make_chaos(const world& w, const chaos_settings& s);

/// Settings of `terrace-bench --discover`.
struct discover_settings {
    std::filesystem::path output_file;   ///< empty: the file goes to stdout
    std::filesystem::path compare_file;  ///< cluster file to compare with; empty: none
    std::string name;
    std::uint64_t seed = 1;  ///< determines which pairs are measured
    int time_limit = 0;      ///< [s]; 0: the default
    bool trust_hosts = false;
    bool ucx = false;
    bool force = false;
    bool progress = false;
};

std::variant<discover_settings, answer> parse_discover_settings(int argc, const char* const* argv);
int discover_machine(const world& w, const discover_settings& s);

/// Settings of `terrace-bench --training`. Each combination of the lists is a row.
struct training_settings {
    /// Special bucket sizes: all gradients of a type in one bucket; the size that the reducer chooses.
    static constexpr std::int64_t all = -2, automatic = -1;

    std::string model;  ///< name of a built-in model, or a file
    std::filesystem::path plan_file, json_file;
    std::vector<std::string> algorithms{"hierarchical"};  ///< names of back ends that run a plan
    std::vector<std::int64_t> buckets;                    ///< sizes of buckets before scaling [bytes]
    std::vector<bool> overlaps{true};                     ///< true: gradients travel during the backward pass
    std::vector<int> every{1};                            ///< iterations from one synchronisation to the next
    std::vector<int> communicators{1};
    double scale = 1;   ///< factor of bytes, times and sizes of buckets
    double slower = 1;  ///< factor of compute times
    int iterations = 15, warmup = 6;
    bool check = true;
    bool error_feedback = false;  ///< if gradients are rounded on the wire
    options::placement place = options::placement::by_node;
    bool ucx = false;
    bool force = false, progress = false;
};

std::variant<training_settings, answer> parse_training_settings(int argc, const char* const* argv);
std::shared_ptr<CLI::App> training_page();
int measure_training(const world& w, const training_settings& s);

// --links and --detect, which require MPI.
int measure_links(const world& w, const links_settings& s);
int describe_cluster(const world& w, const detect_settings& s);

/// Returns the command lines of all modes, as parts of the program's help page.
std::vector<std::shared_ptr<CLI::App>> mode_pages();

}  // namespace terrace::detail::bench
