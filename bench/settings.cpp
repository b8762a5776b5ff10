#include "bench/settings.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <terrace/version.hpp>

#include "base/element_types.hpp"
#include "bench/measure/backend.hpp"
#include "bench/modes.hpp"
#include "bench/option_words.hpp"
#include "bench/report/figures.hpp"
#include "tools/common/output_file.hpp"
#include "tools/common/pages.hpp"

// The command line of a run. CLI11 takes seconds to compile, so only files of settings include it.

namespace terrace::detail::bench {

namespace {

constexpr int max_sizes = 10'000;

std::string footer() {
    std::string text = "Algorithms:\n";
    for (const backend_kind& kind : backend_kinds()) text += fmt::format("  {:<16}{}\n", kind.name, kind.description);
    return text + R"(
BYTES may end in K, M or G, which are binary: 64K is 65536 bytes. Sizes are counted as nccl-tests do: those of the
larger buffer, of all its blocks together where there are blocks, each a multiple of 16 bytes.

Examples:
  mpirun -np 8 terrace-bench --plan plan.yaml
      everything, 8 B to 32 MiB
  mpirun -np 8 terrace-bench --plan plan.yaml --algorithms hierarchical,mpi -b 1K -e 64M -f 8 --json out.json
      the plan against MPI, kept as JSON
  mpirun -np 8 terrace-bench --plan plan.yaml --collective all -b 8M -n 15
      all collectives, each against its own limit
  mpirun -np 8 terrace-bench --plan plan.yaml --collective allreduce,reduce -d bfloat16 -o avg --root 3
      other types and operations; what has no such thing is left out, and the table says why
  mpirun -np 8 terrace-bench --plan plan.yaml --async 8 -b 4K -e 1M
      eight calls in flight at once; MPI makes its own one after the other
  mpirun -np 8 terrace-bench --plan plan.yaml --placement anywhere -e 1M
      tries a plan for several nodes on one; what it measures is not the machine of the plan
  tools/vcluster run -- terrace-bench --plan plan.yaml -e 4M
      on a virtual cluster
  mpirun -np 8 terrace-bench --plan plan.yaml --device cuda -b 1K -e 256M
      buffers on GPUs, one for each rank: the plan, flat ring, two-level and NCCL's own
  mpirun -np 8 terrace-bench --plan plan.yaml --device cuda --graph
      the same calls as CUDA graphs, replayed
  mpirun -np 8 terrace-bench --plan plan.yaml --device cuda --staging -b 1M -e 256M
      buffers on GPUs through pinned memory of the host, shared memory and MPI, beside the bus's own rate and NCCL

Exit status: 0 success, 1 wrong results or a failure, 2 bad usage or input.)";
}

CLI::Validator known_algorithm() {
    return silent([](std::string& text) {
        std::vector<std::string_view> names;
        for (const backend_kind& kind : backend_kinds()) names.push_back(kind.name);
        return unless_named(text, names, "is no algorithm; choose from");
    });
}

// Returns types by name, including the names of nccl-tests.
std::map<std::string, element_type> element_types() {
    std::map<std::string, element_type> types{{"half", element_type::float16},
                                              {"bool", element_type::boolean},
                                              {"float", element_type::float32},
                                              {"double", element_type::float64}};
    for (const element_type t : all_element_types) types.emplace(to_string(t), t);
    return types;
}

std::map<std::string, reduce_op> reduce_ops() {
    std::map<std::string, reduce_op> ops;
    for (const reduce_op o : all_reduce_ops) ops.emplace(to_string(o), o);
    return ops;
}

void add_collectives(CLI::App& app, std::vector<collective>& target) {
    std::map<std::string, std::vector<collective>> choices{{"all", {all_collectives.begin(), all_collectives.end()}}};
    for (const collective what : all_collectives) choices[std::string(to_string(what))] = {what};
    app.add_option_function<std::vector<std::string>>(
           "--collective",
           [&target, choices](const std::vector<std::string>& words) {
               target.clear();
               for (const std::string& word : words)
                   for (const collective what : choices.at(word))
                       if (std::find(target.begin(), target.end(), what) == target.end()) target.push_back(what);
           },
           "comma-separated list of: " + words_of(choices))
        ->delimiter(',')
        ->transform(one_of(choices))
        ->type_name("NAMES")
        ->default_str("allreduce");
}

bool takes_part(const settings& s, std::string_view algorithm) {
    return std::find(s.algorithms.begin(), s.algorithms.end(), algorithm) != s.algorithms.end();
}

bool suits(const settings& s, const backend_kind& kind) { return s.device ? kind.of_device : kind.of_host; }

// Checks conditions that involve several options.
void check_together(const settings& s) {
    const auto element = static_cast<std::int64_t>(size_of(s.type));
    const auto bad = [](const std::string& what) { throw CLI::ValidationError(what); };
    if (s.begin < element) bad(fmt::format("-b {}: less than one {} ({} bytes)", s.begin, to_string(s.type), element));
    if (s.end < s.begin) bad(fmt::format("-e {} is less than -b {}", s.end, s.begin));
    if (!is_defined(s.op, s.type) && std::ranges::any_of(s.collectives, [](collective c) { return row_of(c).up; }))
        bad(fmt::format("-o {}: {}", to_string(s.op), undefined_text(s.op, s.type)));
    if (s.end / element > std::numeric_limits<int>::max())
        bad(fmt::format("-e {}: MPI counts at most {} elements in a call", s.end, std::numeric_limits<int>::max()));
    if (s.step > 0 && (s.end - s.begin) / s.step >= max_sizes)
        bad(fmt::format("-i {}: makes more than {} sizes from -b {} to -e {}", s.step, max_sizes, s.begin, s.end));
    if (s.end > std::numeric_limits<std::int64_t>::max() / s.async)
        bad(fmt::format("--async {0}: {0} buffers of {1} bytes exceed any memory", s.async, s.end));
    if (s.warmup == 0 && !s.iterations)
        bad("-w 0 needs -n: without it the number of iterations follows from the time that warming up takes");
    if (std::set<std::string>(s.algorithms.begin(), s.algorithms.end()).size() != s.algorithms.size())
        bad(fmt::format("--algorithms {}: names one twice", fmt::join(s.algorithms, ",")));
    std::set<std::string> names;
    for (const backend_kind& kind : backend_kinds()) names.emplace(kind.name);
    for (const std::filesystem::path& plan : s.beside)
        if (!names.insert(settings::name_of(plan)).second)
            bad(fmt::format("--beside {}: another algorithm is called {}; rename the file", plan.string(),
                            settings::name_of(plan)));
    for (const backend_kind& kind : backend_kinds())
        if (takes_part(s, kind.name) && !suits(s, kind))
            bad(s.device
                    ? fmt::format("--algorithms {}: takes buffers of the host; leave it out, or --device", kind.name)
                    : fmt::format("--algorithms {}: takes buffers on GPUs: --device cuda", kind.name));
    for (const auto& [given, option] : {std::pair(s.staging, "--staging"), std::pair(s.graph, "--graph")})
        if (given && !s.device) bad(fmt::format("{} is for buffers on GPUs: --device cuda", option));
    if (s.staging && s.graph) bad("--graph: the host takes part in each call of --staging, which no graph can replay");
    if (s.graph && s.warmup == 0) bad("--graph needs -w: what a graph replays is captured while warming up");
    if (s.device && s.ucx) bad("--transport ucx: carries buffers of the host; leave it out, or --device");
    if (s.own_lengths && !std::ranges::all_of(s.collectives, [](collective c) { return row_of(c).exchange; }))
        bad("--lengths own: is for alltoall, gather and scatter: --collective alltoall");
    if (s.own_lengths && s.device) bad("--lengths own: takes buffers of the host; leave it out, or --device");
    if (s.own_lengths && s.async > 1) bad("--lengths own: makes one call at a time; leave it out, or --async");
    if (s.in_turn && s.device) bad("--in-turn: takes buffers of the host; leave it out, or --device");
    if (s.device && s.windows) bad("--buffers window: is memory of the host; leave it out, or --device");
    if (!s.reference.empty() && !takes_part(s, s.reference))
        bad(fmt::format("--reference {}: is not among --algorithms {}", s.reference, fmt::join(s.algorithms, ",")));
}

}  // namespace

std::vector<std::int64_t> settings::counts(collective what, int ranks) const {
    std::vector<std::int64_t> all;
    for (std::int64_t bytes = begin;;) {
        if (const std::int64_t count = count_of(what, bytes, size_of(type), ranks);
            count > 0 && (all.empty() || count > all.back()))
            all.push_back(count);
        // Ends if no next size is within reach, without computing one that is not representable.
        if (step > 0 ? bytes > end - step : bytes > end / factor) return all;
        bytes = step > 0 ? bytes + step : bytes * factor;
    }
}

std::variant<settings, answer> parse_settings(int argc, const char* const* argv) {
    settings s;
    CLI::App app(
        "Measures the collectives of a plan beside the baselines it claims to beat.\n"
        "Iterations of all algorithms alternate, results are checked exactly.",
        "terrace-bench");
    app.footer(footer());
    app.set_version_flag("--version", fmt::format("terrace-bench {}", version()));
    add_generate_option(app);
    app.add_option("--plan", s.plan_file, "plan file, made by: terrace plan")->required()->type_name("FILE");
    const CLI::Option* listed = app.add_option("--algorithms", s.algorithms,
                                               "comma-separated list, see below; default: all that suit the buffers")
                                    ->delimiter(',')
                                    ->check(known_algorithm())
                                    ->type_name("NAMES");
    app.add_option("--beside", s.beside,
                   "comma-separated plan files that run beside it, called by their names up to the first dot")
        ->delimiter(',')
        ->type_name("FILES");
    add_collectives(app, s.collectives);
    add_number(app, "-r,--root", s.root, 0, "rank that broadcasts, or gets what is reduced")->type_name("RANK");
    app.add_option("--reference", s.reference,
                   "algorithm whose time the column ratio divides by; default: hierarchical, or the first one")
        ->check(known_algorithm())
        ->type_name("NAME");
    const auto add_bytes = [&](const char* names, std::int64_t& target, const char* help) {
        return app.add_option(names, target, help)->transform(bytes_of(1))->type_name("BYTES");
    };
    add_bytes("-b,--minbytes", s.begin, "smallest size")->capture_default_str();
    add_bytes("-e,--maxbytes", s.end, "largest size")->default_str("32M");
    CLI::Option* step = add_bytes("-i,--stepbytes", s.step, "add this from size to size");
    add_number(app, "-f,--stepfactor", s.factor, 2, "multiply by this from size to size")->excludes(step);
    CLI::Option* iterations = app.add_option("-n,--iters", s.iterations,
                                             fmt::format("iterations of a row; default: {} to {}, as fit into a second",
                                                         fewest_iterations, most_iterations))
                                  ->check(number_of(1))
                                  ->type_name("N");
    add_number(app, "--min-iters", s.fewest, 1, "the fewest iterations of a row where -n is not given")
        ->excludes(iterations);
    add_number(app, "-w,--warmup_iters", s.warmup, 0, "iterations before, not timed");
    add_check(app, s.check, "check the first and the last iteration of each row");
    add_choice<element_type>(app, "-d,--datatype", s.type, "float", element_types());
    add_choice<reduce_op>(app, "-o,--op", s.op, "sum", reduce_ops());
    add_placement(app, s.place);
    add_transport(app, s.ucx, "ucx: Terrace's messages go over UCX; the algorithm mpi takes part only if it is named");
    add_choice<bool>(app, "--buffers", s.windows, "user", {{"user", false}, {"window", true}})
        ->description("window: memory that ranks of a node share, where an algorithm has it (communicator::allocate)");
    add_choice<bool>(app, "--device", s.device, "host", {{"host", false}, {"cuda", true}})
        ->description("cuda: buffers are on GPUs, one for each rank, and times are of CUDA's events");
    app.add_flag("--staging", s.staging, "buffers on GPUs go through pinned memory of the host (terrace::staging)");
    app.add_flag("--graph", s.graph, "calls of buffers on GPUs are captured as CUDA graphs, and replayed");
    add_choice<bool>(app, "--lengths", s.own_lengths, "agreed", {{"agreed", false}, {"own", true}})
        ->description("own: alltoallv, gatherv and scatterv: each rank tells the lengths of its own blocks");
    add_number(app, "--async", s.async, 1,
               "make so many calls at once, each with buffers of its own; times are of all, divided by as many");
    app.add_flag("--in-turn", s.in_turn, "the calls of --async are made one after the other");
    add_output(app, "--json", s.json_file, "also write the results to this file, as JSON; terrace report draws them")
        ->type_name("FILE");
    add_force(app, s.force);
    add_progress(app, s.progress);

    app.callback([&] {
        s.all_that_suit = listed->empty();
        for (const backend_kind& kind : backend_kinds())
            if (s.all_that_suit && suits(s, kind) && !(s.ucx && kind.name == "mpi"))
                s.algorithms.emplace_back(kind.name);
        check_together(s);
    });
    // The help page and the completion list the other modes as commands. They are options instead: other options may
    // come before them.
    app.get_formatter()->label("SUBCOMMAND", "MODE");
    for (const std::shared_ptr<CLI::App>& page : mode_pages())
        app.add_subcommand(page)->group("Also, each with a --help of its own");

    if (const auto said = answer_to(app, argc, argv)) return *said;
    if (s.reference.empty()) s.reference = takes_part(s, "hierarchical") ? "hierarchical" : s.algorithms.front();
    return s;
}

}  // namespace terrace::detail::bench
