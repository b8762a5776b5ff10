#include "tools/terrace/export_command.hpp"

#include <filesystem>
#include <string>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "plan/plan_yaml.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"
#include "tools/terrace/exports.hpp"
#include "tools/terrace/nic_script.hpp"

namespace terrace::detail {

std::vector<std::string> export_command::interfaces_of(const hierarchy& machine) const {
    if (!interfaces.empty()) return interfaces;
    std::vector<std::string> names;
    for (int i = 0; i < machine.nics.rail_count(); ++i) names.push_back(fmt::format("eth{}", i));
    return names;
}

int export_command::run() const {
    if (rankfile + hostfile + nics + simgrid + json != 1)
        throw usage_error("terrace export: give one of --rankfile, --hostfile, --nics, --simgrid and --json");
    expect_replaceable(output, {plan_file}, force);
    const plan_data plan = read_plan(plan_file);
    const std::string text = rankfile   ? terrace::detail::rankfile(plan.machine)
                             : hostfile ? terrace::detail::hostfile(plan.machine)
                             : nics     ? nic_script(plan, interfaces_of(plan.machine))
                             : simgrid  ? simgrid_platform(plan.machine, plan.name)
                                        : plan_json(plan);
    write_output(output, text);
    if (nics && !is_printed(output)) {
        using std::filesystem::perms;
        std::filesystem::permissions(output, perms::owner_exec | perms::group_exec | perms::others_exec,
                                     std::filesystem::perm_options::add);
    }
    return 0;
}

}  // namespace terrace::detail
