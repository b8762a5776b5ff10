#include "tools/verify_command.hpp"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "tools/proof.hpp"

namespace terrace {

namespace {

struct arguments {
    std::filesystem::path plan;
    std::optional<std::int64_t> count;
    bool whole = false;
};

// Instructions that are proved whole where nothing else is asked for: well under a minute.
constexpr std::int64_t whole_budget = 4'000'000;


// One line that is written over, for a person who waits.
class progress {
public:
    void show(std::size_t done, std::size_t all, const std::string& what) const {
        if (terminal_) fmt::print(stderr, "\r\033[K{}/{} {}", done + 1, all, what), std::fflush(stderr);
    }
    void clear() const {
        if (terminal_) fmt::print(stderr, "\r\033[K"), std::fflush(stderr);
    }

private:
    bool terminal_ = ::isatty(STDERR_FILENO) == 1;
};

int run(const arguments& a) {
    const recipe plan = read_runnable_plan(a.plan);
    const std::vector<claim> claims = claims_of(plan, a.count);
    const progress line;
    std::int64_t spent = 0;
    std::size_t whole = 0;
    group_proof groups;
    for (std::size_t i = 0; i < claims.size(); ++i) {
        line.show(i, claims.size(), describe(plan, claims[i]));
        const std::int64_t work = a.whole ? 0 : work_of(plan, claims[i]);
        const bool fits = spent + work <= whole_budget;
        if (fits) spent += work, ++whole;
        const auto fault = fits ? prove(plan, claims[i]) : prove_by_groups(plan, claims[i], groups);
        if (!fault) continue;
        line.clear();
        fmt::print(stderr, "{}: {}: {}\n", a.plan.string(), describe(plan, claims[i]), *fault);
        return 1;
    }
    line.clear();
    const std::string counts = a.count ? fmt::format("messages of {} elements", *a.count)
                                       : "messages of 0, 1, P-1, P and 2P+3 elements and both sides of every bound";
    std::vector<std::string> rules;
    for (const auto& [what, list] : plan.rules) rules.push_back(fmt::format("{} of {}", list.size(), to_string(what)));
    fmt::print("{}: proved all rules ({}) for all {} ranks: {} programs, {}\n", a.plan.string(),
               fmt::join(rules, ", "), plan.machine.ranks(), claims.size(), counts);
    if (whole < claims.size())
        fmt::print("{} of them whole, {} by groups: {} kinds of groups, each proved whole, and how they fit together; "
                   "--whole proves all of them whole\n",
                   whole, claims.size() - whole, groups.kinds());
    return 0;
}

}  // namespace

void add_verify_command(CLI::App& app, int& status) {
    auto* command = app.add_subcommand("verify", "Prove that a plan computes the right result on every rank");
    const auto a = std::make_shared<arguments>();
    command->add_option("PLAN", a->plan, "plan file")->required();
    command
        ->add_option(
            "--count", a->count,
            "elements (float32) of the message, or of each rank's block; default: 0, 1, P-1, P, 2P+3 and both sides of "
            "every rule's bound")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 48));
    command->add_flag("--whole", a->whole, "prove every program as a whole, however long that takes");
    command->footer(
        "Proves: sends and receives match, nothing races, nothing waits for ever, every contribution counts\n"
        "exactly once, for every collective. Exit code 1 and the first fault if not.\n\n"
        "Examples:\n"
        "  terrace verify cluster.plan.yaml\n"
        "  terrace verify cluster.plan.yaml --count 1000003");
    command->callback([a, &status] { status = run(*a); });
}

}  // namespace terrace
