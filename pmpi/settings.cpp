#include "pmpi/settings.hpp"

#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "base/keep_for_ever.hpp"

namespace terrace::detail::pmpi {

namespace {

std::string value_of(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value != nullptr ? value : "";
}

// Of a value that options::from_environment() has accepted.
std::vector<sized_mode> modes_of(const std::string& name) {
    const std::string value = value_of(name);
    return value.empty() ? std::vector<sized_mode>() : parse_modes(value).value();
}

settings read() {
    settings s;
    s.of_communicators = options::from_environment();
    if (value_of("TERRACE_TIMEOUT").empty()) s.of_communicators.timeout = {};  // as MPI waits
    const std::vector<sized_mode> all = modes_of("TERRACE_PMPI");
    for (std::size_t k = 0; k < call_kinds; ++k) {
        std::string name = "TERRACE_PMPI_";
        for (const char letter : call_names[k])
            name += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
        s.modes[k] = modes_of(name);
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
        int rank = 0;
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (rank == 0) std::fprintf(stderr, "terrace: warn: the drop-in is off: %s\n", e.what());
        return none;
    }
}

}  // namespace

mode settings::mode_of(call_kind what, std::int64_t bytes) const noexcept {
    return detail::mode_of(modes[static_cast<std::size_t>(what)], bytes);
}

std::string named_report_file() { return value_of("TERRACE_PMPI_REPORT"); }

const settings& current_settings() {
    static const auto& read_once = kept_for_ever(read_or_switch_off());
    return read_once;
}

}  // namespace terrace::detail::pmpi
