#include "tools/terrace/export_command.hpp"

#include <filesystem>
#include <string>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "plan/plan_yaml.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"
#include "tools/terrace/exports.hpp"

namespace terrace::detail {

int export_command::run() const {
    if (rankfile + hostfile + simgrid + json != 1)
        throw usage_error("terrace export: give one of --rankfile, --hostfile, --simgrid and --json");
    expect_replaceable(output, {plan_file}, force);
    const plan_data plan = read_plan(plan_file);
    const std::string text = rankfile   ? terrace::detail::rankfile(plan.machine)
                             : hostfile ? terrace::detail::hostfile(plan.machine)
                             : simgrid  ? simgrid_platform(plan.machine, plan.name)
                                        : plan_json(plan);
    if (output.empty()) say_text(text);
    else write_atomically(output, text);
    return 0;
}

}  // namespace terrace::detail
