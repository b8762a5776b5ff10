#include "plan/profile.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "base/text_file.hpp"
#include "plan/plan_yaml.hpp"

namespace terrace::detail {

namespace fs = std::filesystem;

namespace {

constexpr int profile_format = 1;
constexpr std::string_view profile_suffix = ".profile.yaml";

profiled_call read_call(const document& from) {
    from.allow_only({"collective", "bytes", "calls", "time"});
    const std::optional<collective> what = parse_collective(from.at("collective").text());
    if (!what) from.at("collective").fail(fmt::format("there is no collective {}", from.at("collective").text()));
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    profiled_call c{.what = *what,
                    .bytes = from.at("bytes").integer(1, most),
                    .calls = from.at("calls").integer(1, most),
                    .time = from.at("time").duration()};
    if (c.time <= 0) from.at("time").fail("a call takes more than 0");
    return c;
}

profile read_profile(const fs::path& file) {
    const document from = document::read_file(file);
    expect_format(from.at("terrace_profile"), profile_format, "profile with this version again");
    from.allow_only({"terrace_profile", "plan", "calls"});
    const document plan = from.at("plan");
    if (fs::path(plan.text()).filename() != plan.text()) plan.fail("the plan is in the same directory");
    profile p{.plan = read_plan(file.parent_path() / plan.text()), .calls = {}};
    for (const document& call : from.at("calls").items()) {
        p.calls.push_back(read_call(call));
        if (!p.plan.rules.contains(p.calls.back().what))
            call.fail(fmt::format("the plan has no rules for {}", to_string(p.calls.back().what)));
    }
    return p;
}

fs::path free_name(const fs::path& directory, const std::string& digits) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    for (auto number = now.count();; ++number) {
        fs::path file = directory / fmt::format("{}.{:x}{}", digits, number, profile_suffix);
        if (!fs::exists(file)) return file;
    }
}

}  // namespace

fs::path write_profile(const fs::path& directory, const plan_data& plan, const std::vector<profiled_call>& calls) {
    std::error_code problem;
    fs::create_directories(directory, problem);
    if (problem) throw input_error(directory.string(), 0, 0, problem.message());
    const std::string digits = plan.id.substr(plan.id.find(':') + 1);  // digits of the fingerprint, without "xxh3:"
    const std::string plan_name = digits + ".plan.yaml";
    if (!fs::exists(directory / plan_name)) write_atomically(directory / plan_name, plan.text);
    std::string text = fmt::format("terrace_profile: {}\nplan: {}\ncalls:\n", profile_format, plan_name);
    for (const profiled_call& c : calls)
        text += fmt::format("  - {{collective: {}, bytes: {}, calls: {}, time: {:.3f} us}}\n", to_string(c.what),
                            c.bytes, c.calls, c.time * 1e6);
    fs::path file = free_name(directory, digits);
    write_atomically(file, text);
    return file;
}

std::vector<profile> read_profiles(const fs::path& directory) {
    std::error_code problem;
    std::vector<fs::path> files;
    for (const fs::directory_entry& e : fs::directory_iterator(directory, problem))
        if (e.path().filename().string().ends_with(profile_suffix)) files.push_back(e.path());
    if (problem) throw input_error(directory.string(), 0, 0, problem.message());
    if (files.empty())
        throw input_error(directory.string(), 0, 0,
                          fmt::format("there is no profile (*{}); run a program with TERRACE_PROFILE={}",
                                      profile_suffix, directory.string()));
    std::ranges::sort(files);
    std::vector<profile> all;
    std::ranges::transform(files, std::back_inserter(all), read_profile);
    return all;
}

}  // namespace terrace::detail
