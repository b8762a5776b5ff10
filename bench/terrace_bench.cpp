// terrace-bench: compares a plan with the baselines it claims to beat, on the machine on which it runs.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>
#include <terrace/plan.hpp>

#include "api/environment.hpp"
#include "bench/device/gpu.hpp"
#include "bench/measure/backend.hpp"
#include "bench/measure/goodput.hpp"
#include "bench/measure/runner.hpp"
#include "bench/measure/world.hpp"
#include "bench/modes.hpp"
#include "bench/report/report.hpp"
#include "bench/settings.hpp"
#include "plan/plan_access.hpp"
#include "plan/plan_data.hpp"
#include "schedule/compose.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"

namespace terrace::detail::bench {

namespace {

constexpr int bad_input = 2;

// Loads the plan and checks all input: throws on all ranks or on none.
plan load(const world& w, const settings& s) {
    return w.together([&] {
        if (w.first()) expect_replaceable(s.json_file, {s.plan_file}, s.force);
        plan p = plan::load(s.plan_file);
        check_runnable(data_of(p));
        for (const collective what : s.collectives) {
            if (!data_of(p).rules.contains(what))
                throw input_error(
                    s.plan_file.string(), 0, 0,
                    fmt::format("the plan has no rules for {0}; plan again, or leave {0} out", to_string(what)));
            if (row_of(what).has_root() && s.root >= w.size())
                throw usage_error(fmt::format("--root {}: there are {} ranks, from 0 on", s.root, w.size()));
        }
        return p;
    });
}

// Returns true if a back end that the user has not named is worth a row. With one NIC per node, rings for each NIC are
// slower twins of other baselines. An exchange has one baseline, direct, which no other collective has.
bool suits(std::string_view name, const hierarchy& machine, collective what) {
    const bool by_nics = name == "flat-rings" || name == "two-level-nics";
    if (by_nics && machine.nics.rail_count() <= 1) return false;
    const bool reduces = by_nics || name == "flat-ring" || name == "two-level" || name == "central";
    return row_of(what).exchange ? !reduces : name != "direct";
}

// Makes the back end of a plan of --beside.
std::unique_ptr<backend> make_beside(const setting& in, const plan& other, const std::filesystem::path& file) {
    check_runnable(data_of(other));
    if (!data_of(other).rules.contains(in.of.what))
        throw usage_error(fmt::format("{} has no rules for {}", file.string(), to_string(in.of.what)));
    const setting with_other{in.ranks, other, in.how, in.of, in.ucx, in.windows, in.device, in.staging, in.graph};
    return make_backend(with_other, "hierarchical");
}

std::vector<runner::named_backend> make_backends(const conditions& under, collective what,
                                                 std::vector<absence>& absent) {
    const world& w = under.ranks;
    const settings& s = under.asked;
    options how = options::from_environment();
    how.place = s.place;
    const setting in{w,      under.chosen, how,          {what, s.type, s.op, s.root, s.own_lengths},
                     s.ucx,  s.windows,    under.device, s.staging,
                     s.graph};
    std::vector<runner::named_backend> all;
    const auto add = [&](const std::string& name, auto&& make_one) {
        const auto make = [&]() -> std::unique_ptr<backend> {
            try {
                return make_one();
            } catch (const usage_error& e) {
                absent.push_back({what, name, e.what()});
                return nullptr;
            }
        };
        if (auto made = w.together(make)) all.push_back({name, std::move(made)});
    };
    for (const std::string& name : s.algorithms)
        if (!s.all_that_suit || suits(name, data_of(under.chosen).machine, what))
            add(name, [&] { return make_backend(in, name); });
    for (const std::filesystem::path& file : s.beside)
        add(settings::name_of(file), [&] { return make_beside(in, plan::load(file), file); });
    return all;
}

struct outcome {
    std::vector<row> rows;
    std::vector<absence> absent;
};

void measure(const world& w, const conditions& under, memory& where, collective what,
             std::vector<runner::named_backend> backends, progress& shown, outcome& all) {
    const settings& s = under.asked;
    runner run(w, s, where, what, std::move(backends));
    shown.clear();
    say(w, heading_text(under, what, all.absent));
    const std::size_t before = all.rows.size();
    for (const std::int64_t count : s.counts(what, w.size())) {
        const std::vector<row> rows = run.measure(count, shown);
        shown.clear();
        say(w, rows_text(under, rows));
        all.rows.insert(all.rows.end(), rows.begin(), rows.end());
    }
    say(w, verdict_text(under, what, std::span(all.rows).subspan(before)));
}

int compare(const world& w, const settings& s) {
    if (!w.has_mpi() && !s.ucx) throw refusal("ranks without MPI take --transport ucx");
    const plan p = load(w, s);
    const auto device =
        w.together([&] { return s.device ? std::make_unique<gpu>(w, options::from_environment()) : nullptr; });
    const std::unique_ptr<memory> where = device ? device_memory(*device) : host_memory();
    std::optional<bus_rates> bus;
    if (s.staging) bus = measure_bus(w, *device);
    const link_limits against(data_of(p).machine, measure_goodput(w, data_of(p).machine, s.place), bus);
    const conditions under{w, s, p, against, now_text(), device.get()};

    outcome all;
    // A plan that does not fit these ranks is refused before anything is printed.
    std::vector<runner::named_backend> backends = make_backends(under, s.collectives.front(), all.absent);
    say(w, header_text(under));
    progress shown(w.first(), s.progress);
    for (const collective what : s.collectives) {
        if (what != s.collectives.front()) backends = make_backends(under, what, all.absent);
        measure(w, under, *where, what, std::exchange(backends, {}), shown, all);
    }
    w.on_first([&] {
        if (!s.json_file.empty()) write_output(s.json_file, to_json(under, all.rows, all.absent));
    });
    const auto exact = [](const row& r) { return r.wrong.value_or(0) == 0; };
    return std::all_of(all.rows.begin(), all.rows.end(), exact) ? success : something_wrong;
}

// Runs `work` with the parsed settings, or prints the answer. Returns the exit code.
template <class Settings, class Work>
int answer_or(const world& w, const std::variant<Settings, answer>& parsed, Work work) {
    const answer* a = std::get_if<answer>(&parsed);
    if (a == nullptr) return work(w, std::get<Settings>(parsed));
    if (a->exit_code == 0) say(w, a->text);
    else if (w.first()) complain_text(a->text);
    return a->exit_code;
}

int run(const world& w, int argc, char** argv) {
    const auto asks_for = [&](std::string_view what) { return std::find(argv, argv + argc, what) != argv + argc; };
    if (!w.has_mpi() && (asks_for("--detect") || asks_for("--links")))
        throw refusal("--detect and --links take MPI: start them by mpirun, without TERRACE_BOOTSTRAP");
    if (asks_for("--discover")) return answer_or(w, parse_discover_settings(argc, argv), discover_machine);
    if (asks_for("--detect")) return answer_or(w, parse_detect_settings(argc, argv), describe_cluster);
    if (asks_for("--links")) return answer_or(w, parse_links_settings(argc, argv), measure_links);
    const auto has_mode = [&](std::string_view mode) {
        return std::any_of(argv, argv + argc, [&](std::string_view word) { return word.starts_with(mode); });
    };
    if (has_mode("--chaos")) return answer_or(w, parse_chaos_settings(argc, argv), make_chaos);
    if (has_mode("--training")) return answer_or(w, parse_training_settings(argc, argv), measure_training);
    return answer_or(w, parse_settings(argc, argv), compare);
}

// Returns true if the processes are no common job: each would measure alone, and print a table of its own.
bool are_lone_processes(const world& w) {
    const std::vector<std::string> environment = process_environment();
    const std::string trouble = w.trouble_of_launch(launch_of(environment).processes);
    if (!trouble.empty() && is_first_rank(environment)) print_error("terrace-bench: {}\n", trouble);
    return !trouble.empty();
}

// If TERRACE_BOOTSTRAP is set, ranks meet without MPI.
std::unique_ptr<world> open_world(int& argc, char**& argv) {
    if (value_in(process_environment(), "TERRACE_BOOTSTRAP").empty())
        if (auto by_mpi = world_over_mpi(argc, argv)) return by_mpi;
    return world_over_ucx();
}

int print_page(int argc, char** argv) {
    const answer page = std::get<answer>(parse_settings(argc, argv));
    say_text(page.text);
    return page.exit_code;
}

namespace fs = std::filesystem;

int refuse_suite(const std::string& why) {
    fmt::print(stderr, "terrace-bench: --suite: {}\n", why);
    return bad_input;
}

// Returns the first of these places that exists, relative to this program's folder: a build folder inside the project,
// or the installed place.
fs::path beside(const fs::path& here, std::initializer_list<const char*> places) {
    for (const char* place : places)
        if (fs::path p = (here / place).lexically_normal(); fs::exists(p)) return p;
    return {};
}

// `terrace-bench --suite`: replaces this process by tools/bench-suite, which starts its own runs. Before MPI_Init.
// @returns the exit status, after a message, only if that fails
int become_suite(int argc, char** argv) {
    if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr)
        return refuse_suite("it starts its runs by itself: start it without mpirun");
    std::error_code failed;
    const fs::path self = fs::read_symlink("/proc/self/exe", failed), here = self.parent_path();
    const fs::path script = beside(here, {"../../tools/bench-suite", "../libexec/terrace/tools/bench-suite"});
    const fs::path terrace = beside(here, {"../tools/terrace", "terrace"});
    if (script.empty() || terrace.empty())
        return refuse_suite(fmt::format("{} is not there, seen from {}",
                                        script.empty() ? "tools/bench-suite" : "terrace", here.string()));
    setenv("TERRACE", terrace.c_str(), 0);
    setenv("TERRACE_BENCH", self.c_str(), 0);
    setenv("TERRACE_SUITE_NAME", "terrace-bench --suite", 1);
    std::vector<char*> words{const_cast<char*>(script.c_str())};
    for (int i = 1; i <= argc; ++i)
        if (i == argc || std::strcmp(argv[i], "--suite") != 0) words.push_back(argv[i]);
    execv(script.c_str(), words.data());
    return refuse_suite(fmt::format("{}: {}", script.string(), std::strerror(errno)));
}

}  // namespace

}  // namespace terrace::detail::bench

int main(int argc, char** argv) {
    using namespace terrace::detail;
    using namespace bench;
    try {
        if (std::find(argv, argv + argc, std::string_view("--suite")) != argv + argc) return become_suite(argc, argv);
        // The help page is made during the build, where MPI may not run.
        if (argc > 1 && std::string_view(argv[1]) == "--generate") return print_page(argc, argv);
        const std::unique_ptr<world> all = open_world(argc, argv);
        const world& w = *all;
        if (are_lone_processes(w)) return bad_input;
        try {
            return run(w, argc, argv);
        } catch (const refusal& e) {
            // Functions that write to standard output already name the program.
            const std::string_view what = e.what();
            const char* const name = what.starts_with("terrace-bench: ") ? "" : "terrace-bench: ";
            if (w.first()) print_error("{}{}\n", name, what);
            return bad_input;
        } catch (const std::exception& e) {
            complain_text(w.error_lines(e.what()));
            w.abort(something_wrong);
        }
    } catch (const std::exception& e) {
        print_error("terrace-bench: {}\n", e.what());
        return something_wrong;
    }
}
