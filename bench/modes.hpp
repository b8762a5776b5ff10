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

// The modes of terrace-bench beside comparing algorithms: what the command line asks of each, and the mode itself,
// which all ranks run and which returns the exit code.

namespace terrace::detail::bench {

inline constexpr int success = 0, something_wrong = 1;  // exit codes

/// ISO 8601, UTC.
std::string now_text();
/// The first rank prints. Where standard output takes no more, all ranks end.
void say(const world& w, const std::string& text);

/// What `terrace-bench --detect` is asked for.
struct detect_settings {
    std::filesystem::path output_file;  ///< empty: the file goes to stdout
    std::string name;
    bool measure = false;
    bool force = false;  ///< replaces a file that Terrace did not write
    bool progress = false;
};
std::variant<detect_settings, answer> parse_detect_settings(int argc, const char* const* argv);

/// What the command line of --chaos asks for.
struct chaos_settings {
    int failures = 1;
    std::filesystem::path plan_file;
    std::uint64_t seed = 1;  ///< which ranks fail, and when
    options::placement place = options::placement::by_node;
    bool ucx = false;
};

std::variant<chaos_settings, answer> parse_chaos_settings(int argc, const char* const* argv);
/// terrace-bench --chaos. Without MPI it ends the process by itself, since the bench's own communicator may wait for
/// ranks that are gone.
int make_chaos(const world& w, const chaos_settings& s);

/// What the command line of --discover asks for.
struct discover_settings {
    std::filesystem::path output_file;   ///< empty: the file goes to stdout
    std::filesystem::path compare_file;  ///< cluster file that says how it should be; empty: none
    std::string name;
    std::uint64_t seed = 1;  ///< which pairs are measured
    int time_limit = 0;      ///< [s]; 0: the usual one
    bool trust_hosts = false;
    bool ucx = false;
    bool force = false;
    bool progress = false;
};

std::variant<discover_settings, answer> parse_discover_settings(int argc, const char* const* argv);
int discover_machine(const world& w, const discover_settings& s);

/// What the command line of --training asks for. Each combination of the lists is a row.
struct training_settings {
    /// In place of a bucket size: all gradients of a type in one bucket; what the reducer chooses.
    static constexpr std::int64_t all = -2, automatic = -1;

    std::string model;  ///< a built-in one's name, or a file
    std::filesystem::path plan_file, json_file;
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
std::shared_ptr<CLI::App> training_page();
int measure_training(const world& w, const training_settings& s);

// --links and --detect: they take MPI.
int measure_links(const world& w, const links_settings& s);
int describe_cluster(const world& w, const detect_settings& s);

/// The command lines of all modes, as parts of the program's page.
std::vector<std::shared_ptr<CLI::App>> mode_pages();

}  // namespace terrace::detail::bench
