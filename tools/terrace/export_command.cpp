#include "tools/terrace/export_command.hpp"

#include <filesystem>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "plan/plan_yaml.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"

namespace terrace::detail {

int export_command::run() const {
    const export_format& to = export_format_of(format);
    if (!options.interfaces.empty() && !to.has_interfaces)
        throw usage_error(fmt::format("terrace export: --interfaces is for --to nics, and not for --to {}", format));
    expect_replaceable(output, {plan_file}, force);
    write_output(output, to.write(read_plan(plan_file), options));
    if (to.executable && !is_printed(output)) {
        using std::filesystem::perms;
        std::filesystem::permissions(output, perms::owner_exec | perms::group_exec | perms::others_exec,
                                     std::filesystem::perm_options::add);
    }
    return 0;
}

}  // namespace terrace::detail
