#include "tools/terrace/commands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "plan/plan_yaml.hpp"
#include "tools/common/output.hpp"
#include "tools/common/progress.hpp"
#include "tools/terrace/proof.hpp"

namespace terrace::detail {

int verify_command::prove_export(const export_format& format) const {
    if (count || whole)
        throw usage_error(fmt::format("terrace verify: --count and --whole are for plans, and {} is a file of {}",
                                      plan_file.string(), format.name));
    const std::vector<named_text> files = read_files(format, plan_file);
    if (format.read != nullptr) return prove_facts(format, format.read(files[0]));
    if (!made_of.empty())
        throw usage_error(
            fmt::format("terrace verify: --plan is for files of plans, and {} is one of a call", plan_file.string()));
    const call_program call = format.read_call(files);
    if (const auto fault = call.fault()) {
        print_error("{}: {}\n", plan_file.string(), *fault);
        return 1;
    }
    std::int64_t messages = 0, sent = 0;
    for (const schedule& s : call.ranks)
        for (const instr& i : s.instrs)
            if (i.what == action::send) ++messages, sent += i.src.part.count();
    say("{}: proved {} of {} {} on {} ranks: {} messages of {} together\nnot in {}: {}\n", plan_file.string(),
        to_string(call.what), call.elements, format.elements, call.ranks.size(), messages, sent, format.name,
        format.not_held);
    if (format.alignment > 0)
        say("{} runs it for messages of a multiple of {} bytes\n", format.name, format.alignment * call.elements);
    return 0;
}

int verify_command::prove_facts(const export_format& format, const plan_facts& found) const {
    std::string against;
    if (!made_of.empty()) {
        const plan_facts due = format.read({made_of.string(), format.write(read_plan(made_of), {})});
        if (const auto difference = find_difference(found, due)) {
            print_error("{}: {}\n", plan_file.string(), *difference);
            return 1;
        }
        against = fmt::format("{}as {} has it", found.plan ? "" : ", ", made_of.string());
    }
    if (!found.says.empty() || !against.empty()) say("{}: {}{}\n", plan_file.string(), found.says, against);
    const int wrong = found.plan ? prove_rules(*found.plan) : 0;
    if (wrong == 0 && !format.not_held.empty()) say("not in {}: {}\n", format.name, format.not_held);
    return wrong;
}

int verify_command::run() const {
    if (const export_format* format = find_format(plan_file)) return prove_export(*format);
    if (!made_of.empty())
        throw usage_error(fmt::format("terrace verify: {} is no file of terrace export, and --plan is for those",
                                      plan_file.string()));
    return prove_rules(read_runnable_plan(plan_file));
}

int verify_command::prove_rules(const plan_data& plan) const {
    // Limit for proofs of whole programs without --whole [instructions]: well under a minute.
    constexpr std::int64_t whole_budget = 4'000'000;
    const std::vector<claim> claims = claims_of(plan, count);
    progress line;
    std::int64_t spent = 0;
    std::size_t proved_whole = 0;
    group_proof groups;
    for (std::size_t i = 0; i < claims.size(); ++i) {
        line.show([&] { return fmt::format("{}/{} {}", i + 1, claims.size(), describe(plan, claims[i])); });
        const std::int64_t work = whole ? 0 : work_of(plan, claims[i]);
        const bool fits = spent + work <= whole_budget;
        if (fits) spent += work, ++proved_whole;
        const auto fault = fits ? prove(plan, claims[i]) : prove_by_groups(plan, claims[i], groups);
        if (!fault) continue;
        line.clear();
        print_error("{}: {}: {}\n", plan_file.string(), describe(plan, claims[i]), *fault);
        return 1;
    }
    line.clear();
    const std::string counts = count ? fmt::format("messages of {} elements", *count)
                                     : "messages of 0, 1, P-1, P and 2P+3 elements and both sides of every bound";
    std::vector<std::string> rules;
    for (const auto& [what, list] : plan.rules) rules.push_back(fmt::format("{} of {}", list.size(), to_string(what)));
    say("{}: proved all rules ({}) for all {} ranks: {} programs, {}\n", plan_file.string(), fmt::join(rules, ", "),
        plan.machine.ranks(), claims.size(), counts);
    if (proved_whole < claims.size())
        say("{} of them whole, {} by groups: {} kinds of groups, each proved whole, and how they fit together; "
            "--whole proves all of them whole\n",
            proved_whole, claims.size() - proved_whole, groups.kinds());
    return 0;
}

}  // namespace terrace::detail
