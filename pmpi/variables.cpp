#include "pmpi/variables.hpp"

#include <algorithm>
#include <array>

#include "pmpi/sized_modes.hpp"

namespace terrace::detail::pmpi {

namespace {

constexpr std::string_view of_all_calls = "TERRACE_PMPI", of_one_call = "TERRACE_PMPI_";
constexpr std::string_view modes = "auto, on or off, each for some sizes: off:-64K,auto";

// Names of the variables, each with a null character at its end.
constexpr auto names = [] {
    std::array<std::array<char, 48>, call_kinds> made{};
    for (std::size_t k = 0; k < call_kinds; ++k) {
        char* to = std::ranges::copy(of_one_call, made[k].data()).out;
        for (const char letter : call_names[k]) *to++ = letter == '_' ? letter : static_cast<char>(letter - 'a' + 'A');
    }
    return made;
}();

constexpr auto calls_to_run = static_cast<std::size_t>(
    std::ranges::count_if(traits::of_call, [](unsigned of) { return (of & traits::passes) == 0; }));

bool is_mode(options&, std::string_view value) { return parse_modes(value).has_value(); }
bool is_anything(options&, std::string_view) { return true; }

constexpr auto variables = [] {
    std::array<variable, calls_to_run + 2> all{
        variable{of_all_calls, "auto", modes,
                 "under the drop-in for MPI, who runs collectives: whoever is faster, Terrace, or MPI", is_mode},
        variable{"TERRACE_PMPI_REPORT", "", "a file name",
                 "where the drop-in writes who ran what, and how long it took: when MPI ends, and on SIGUSR2",
                 is_anything}};
    std::size_t next = 2;
    for (std::size_t k = 0; k < call_kinds; ++k)
        if (!passes(static_cast<call_kind>(k)))
            all[next++] = {names[k].data(), "", modes, "the same for this call", is_mode};
    std::ranges::sort(all, {}, &variable::name);
    return all;
}();

}  // namespace

std::span<const variable> drop_in_variables() noexcept { return variables; }

std::string_view variable_of(call_kind what) noexcept { return names[static_cast<std::size_t>(what)].data(); }

std::vector<std::string> check_drop_in_variables(std::span<const std::string> environment) {
    options none;
    apply_variables(variables, environment, none);
    return unknown_variables(environment, of_all_calls, variables);
}

}  // namespace terrace::detail::pmpi
