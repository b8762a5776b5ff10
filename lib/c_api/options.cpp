#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include "api/environment.hpp"
#include "c_api/handles.hpp"

using namespace terrace::detail;

namespace {

// Options that no environment variable sets, since the program knows their values.
bool set_threads(terrace::options& o, std::string_view value) {
    o.threads = value == "any" ? terrace::options::threading::any : terrace::options::threading::serialized;
    return value == "any" || value == "serialized";
}
bool set_world_ranks(terrace::options& o, std::string_view value) {
    std::istringstream in{std::string(value)};
    o.world_ranks.clear();
    char comma = ',';
    for (int rank = 0; comma == ',' && in >> rank; in >> comma) o.world_ranks.push_back(rank);
    return in.eof();
}
constexpr std::array of_programs{
    variable{"TERRACE_THREADS", "serialized", "serialized, any", "which threads may call", set_threads},
    variable{"TERRACE_WORLD_RANKS", "", "numbers, with commas between them", "the ranks of a group in the whole job",
             set_world_ranks}};

const variable* find_option(std::string_view name) {
    std::string wanted = "TERRACE_";
    for (const char c : name) wanted += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    for (const std::span<const variable> all : {std::span<const variable>(of_programs), environment_variables()})
        if (const auto found = std::ranges::find(all, wanted, &variable::name); found != all.end()) return &*found;
    return nullptr;
}

void set_option(terrace::options& o, std::string_view name, const char* value) {
    const variable* found = find_option(name);
    if (found == nullptr)
        throw terrace::usage_error(fmt::format(
            "there is no option \"{}\"; options are named as the variables that `terrace info` lists, in small letters "
            "without TERRACE_",
            name));
    if (!found->apply(o, value))
        throw terrace::input_error("options", 0, 0,
                                   fmt::format("{} is \"{}\"; allowed: {}", name, value, found->allowed));
}

}  // namespace

terrace_status terrace_options_create(terrace_options** made) {
    return guarded([&] { existing(made, "made") = new terrace_options{}; });
}

terrace_status terrace_options_from_environment(terrace_options** made) {
    return guarded([&] {
        terrace_options*& out = existing(made, "made");
        out = new terrace_options{terrace::options::from_environment()};
    });
}

terrace_status terrace_options_set(terrace_options* options, const char* name, const char* value) {
    return guarded(
        [&] { set_option(existing(options, "options").of, &existing(name, "name"), &existing(value, "value")); });
}

terrace_status terrace_options_set_log(terrace_options* options,
                                       void (*log)(void* user, int level, const char* line, size_t length),
                                       void* user) {
    return guarded([&] {
        terrace::options& o = existing(options, "options").of;
        if (log == nullptr) o.log = nullptr;
        else
            o.log = [=](terrace::log_level level, std::string_view line) {
                log(user, static_cast<int>(level), line.data(), line.size());
            };
    });
}

void terrace_options_destroy(terrace_options* options) { delete options; }
