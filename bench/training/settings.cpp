#include "bench/modes.hpp"

#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "bench/option_words.hpp"
#include "bench/training/model.hpp"
#include "tools/common/output_file.hpp"

namespace terrace::detail::bench {

namespace {

constexpr std::array<std::string_view, 8> reducers{"hierarchical", "sequential", "staged",         "flat-ring",
                                                   "flat-rings",   "two-level",  "two-level-nics", "central"};

// Parses "1/4", "0.25" or "8".
std::optional<double> ratio_in(const std::string& text) {
    try {
        std::size_t end = 0;
        double value = std::stod(text, &end);
        if (end < text.size() && text[end] == '/') {
            const std::string below = text.substr(end + 1);
            value /= std::stod(below, &end);
            end = below.size() - end;
        } else {
            end = text.size() - end;
        }
        if (end == 0 && value > 0 && value <= 1e6) return value;
    } catch (const std::exception&) {  // no number
    }
    return {};
}

CLI::Validator ratio() {
    return silent([](std::string& text) -> std::string {
        const auto value = ratio_in(text);
        if (!value) return fmt::format("{} is no ratio above 0; write 1/4, 0.25 or 8", text);
        text = fmt::format("{}", *value);
        return {};
    });
}

CLI::Validator bucket_size() {
    return silent([](std::string& text) -> std::string {
        if (text == "all" || text == "automatic") {
            text = std::to_string(text == "all" ? training_settings::all : training_settings::automatic);
            return {};
        }
        const auto bytes = parse_bytes(text, true);
        if (!bytes || *bytes < 0) return fmt::format("{} is no size of a bucket; write 0, 25M, all or automatic", text);
        text = std::to_string(*bytes);
        return {};
    });
}

CLI::Validator known_model() {
    return silent([](std::string& text) -> std::string {
        if (std::filesystem::exists(text)) return {};
        return unless_named(text, built_in_models(), "is no file, and no model; give a file of layers, or one of");
    });
}

CLI::Validator known_reducer() {
    return silent([](std::string& text) { return unless_named(text, reducers, "reduces no gradients; choose from"); });
}

struct training_line {
    training_settings s;
    CLI::App app{
        "Measures iterations of data-parallel training: gradients of a model become ready one after the other, and\n"
        "are reduced in buckets. Computing is emulated: ranks wait, and take no core meanwhile.",
        "--training"};

    training_line() {
        app.add_option("--training", s.model, "model to train: a name, or a file of layers")
            ->required()
            ->check(known_model())
            ->type_name("MODEL");
        app.add_option("--plan", s.plan_file, "plan file, made by: terrace plan")->required()->type_name("FILE");
        add_list(app, "--algorithms", s.algorithms, "hierarchical", " of those that reduce by a plan")
            ->check(known_reducer())
            ->type_name("NAMES");
        add_list(app, "--buckets", s.buckets, "0,1M,5M,10M,25M,50M,100M,all,automatic",
                 " of sizes, all (in one) and automatic")
            ->transform(bucket_size())
            ->type_name("SIZES");
        const std::map<std::string, bool> choices{{"on", true}, {"off", false}};
        app.add_option_function<std::vector<std::string>>(
               "--overlap",
               [this, choices](const std::vector<std::string>& words) {
                   s.overlaps.clear();
                   for (const std::string& word : words) s.overlaps.push_back(choices.at(word));
               },
               "on: gradients travel while the backward pass runs; off: after it; or both")
            ->delimiter(',')
            ->transform(one_of(choices))
            ->type_name("on|off")
            ->default_str("on");
        add_list(app, "--every", s.every, "1", ": synchronise every so many iterations")
            ->check(number_of(1))
            ->type_name("NUMBERS");
        add_list(app, "--communicators", s.communicators, "1", ": buckets take turns on so many")
            ->check(number_of(1))
            ->type_name("NUMBERS");
        const auto add_ratio = [&](const char* name, double& target, const char* help) {
            app.add_option(name, target, help)->transform(ratio())->type_name("RATIO")->default_str("1");
        };
        add_ratio("--scale", s.scale, "so much of the model's bytes and times, and of --buckets");
        add_ratio("--slower", s.slower, "computing takes so many times as long");
        add_number(app, "-n,--iters", s.iterations, 1, "synchronisations of a row");
        add_number(app, "-w,--warmup_iters", s.warmup, 0,
                   "synchronisations before, not timed; automatic chooses in the 4th");
        add_check(app, s.check, "check the gradients of each row, before it is timed and after");
        app.add_flag("--error-feedback", s.error_feedback,
                     "what TERRACE_WIRE rounds away is added to the gradients of the next iteration");
        add_placement(app, s.place);
        add_transport(app, s.ucx);
        add_output(app, "--json", s.json_file, "also write the results to this file, as JSON")->type_name("FILE");
        add_force(app, s.force);
        add_progress(app, s.progress);
        app.callback([this] {
            if (!s.buckets.empty()) return;
            for (const int megabytes : {0, 1, 5, 10, 25, 50, 100}) s.buckets.push_back(std::int64_t{megabytes} << 20);
            s.buckets.insert(s.buckets.end(), {training_settings::all, training_settings::automatic});
        });
        app.footer(fmt::format(R"(
Models: {}; or a file, in which a line is a layer:
name, parameters, forward ms, backward ms.

Each combination of --algorithms, --buckets, --overlap, --every and --communicators is a row, and iterations of all rows
alternate.

Examples:
  mpirun -np 8 terrace-bench --training resnet50 --plan plan.yaml
      sizes of buckets
  mpirun -np 8 terrace-bench --training bert-large --plan plan.yaml --buckets 25M --overlap on,off
      what is gained by reducing gradients while the backward pass runs
  mpirun -np 8 terrace-bench --training resnet50 --plan plan.yaml --buckets 0,25M --overlap on,off \
      --algorithms hierarchical,two-level,flat-ring,central
      with and without buckets and overlap, by several algorithms
  tools/vcluster run -- terrace-bench --training resnet50 --plan plan.yaml --scale 1/4 --slower 8
      on a virtual cluster: a quarter of all bytes, of all times and of the buckets, and a slow accelerator

Exit status: 0 success, 1 wrong results or a failure, 2 bad usage or input.)",
                               fmt::join(built_in_models(), ", ")));
    }
};

}  // namespace

std::variant<training_settings, answer> parse_training_settings(int argc, const char* const* argv) {
    return parse_mode<training_settings, training_line>("terrace-bench --training", argc, argv);
}

std::shared_ptr<CLI::App> training_page() { return page_of<training_line>(); }

}  // namespace terrace::detail::bench
