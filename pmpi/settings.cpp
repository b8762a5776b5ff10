#include "pmpi/settings.hpp"

#include <cstdio>
#include <exception>
#include <string_view>

#include "base/keep_for_ever.hpp"
#include "pmpi/variables.hpp"

namespace terrace::detail::pmpi {

namespace {

bool is_first_rank() {
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == 0;
}

settings read() {
    settings s;
    options& o = s.of_communicators;
    o = options::from_environment();
    const std::vector<std::string> environment = process_environment();
    const std::vector<std::string> unknown = check_drop_in_variables(environment);
    if (o.log && is_first_rank())
        for (const std::string& line : unknown) o.log(log_level::warn, line);
    if (value_in(environment, "TERRACE_TIMEOUT").empty()) o.timeout = {};  // no limit, as in MPI
    const auto modes_of = [&](std::string_view name) {
        return parse_modes(value_in(environment, name)).value_or(std::vector<sized_mode>());
    };
    const std::vector<sized_mode> all = modes_of("TERRACE_PMPI");
    for (std::size_t k = 0; k < call_kinds; ++k) {
        s.modes[k] = modes_of(variable_of(static_cast<call_kind>(k)));
        s.modes[k].insert(s.modes[k].end(), all.begin(), all.end());
    }
    s.report_file = named_report_file();
    return s;
}

settings read_or_switch_off() {
    try {
        return read();
    } catch (const std::exception& e) {
        settings none;
        for (auto& modes : none.modes) modes = {{.is = mode::off}};
        if (is_first_rank()) std::fprintf(stderr, "terrace: warn: the drop-in is off: %s\n", e.what());
        return none;
    }
}

}  // namespace

std::string named_report_file() { return std::string(value_in(process_environment(), "TERRACE_PMPI_REPORT")); }

const settings& current_settings() {
    static const auto& read_once = kept_for_ever(read_or_switch_off());
    return read_once;
}

}  // namespace terrace::detail::pmpi
