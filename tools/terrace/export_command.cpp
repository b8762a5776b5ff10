#include "tools/terrace/commands.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "plan/plan_yaml.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"
#include "tools/terrace/proof.hpp"

namespace terrace::detail {

int export_command::write_call(const export_format& to) const {
    if (is_printed(output) && !to.ending.empty())
        throw usage_error(
            fmt::format("terrace export: --to {} writes a file for each rank: name them with -o OUT", format));
    if (std::ranges::find(to.holds, call.what()) == to.holds.end())
        throw usage_error(fmt::format("terrace export: --to {} holds no {}", format, call.collective));
    const auto [texts, note] = to.write_call(read_runnable_plan(plan_file), call.what(), call.size());
    std::size_t files = texts.size();  // includes files of higher ranks from an earlier export
    while (!to.ending.empty() && std::filesystem::exists(call_file(to, output, files))) ++files;
    for (std::size_t n = 0; n < files; ++n) expect_replaceable(call_file(to, output, n), {plan_file}, force);
    if (is_printed(output)) report_to_standard_error();
    if (!note.empty()) say("{}: {}\n", plan_file.string(), note);
    for (std::size_t n = 0; n < texts.size(); ++n) write_output(call_file(to, output, n), texts[n]);
    for (std::size_t n = texts.size(); n < files; ++n) std::filesystem::remove(call_file(to, output, n));
    return 0;
}

int export_command::run() const {
    const export_format& to = export_format_of(format);
    if (!options.interfaces.empty() && !to.has_interfaces)
        throw usage_error(fmt::format("terrace export: --interfaces is for --to nics, and not for --to {}", format));
    if (to.write_call != nullptr) return write_call(to);
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
