#include "api/creation/plan_cache.hpp"

#include <algorithm>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>
#include <terrace/version.hpp>

#include "base/hash.hpp"
#include "base/text_file.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "plan/plan_yaml.hpp"

namespace terrace::detail {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view cached_suffix = ".cached.plan.yaml";

// Returns all inputs of a plan except names, as text.
std::string key_text(hierarchy machine) {
    machine.hosts.clear();
    for (level& l : machine.levels) l.names.clear();
    return fmt::format("terrace {}\n{}", version(), write_hierarchy(machine, 0));
}

// Returns nothing if the file is missing, broken, or of another machine with an equal hash.
std::optional<plan_data> read_kept(const fs::path& file, const std::string& key) {
    try {
        plan_data plan = read_plan(file);
        if (key_text(plan.machine) == key) return plan;
    } catch (const error&) {}
    return {};
}

// Returns the plan with the names of `machine`, which otherwise equals the plan's machine.
plan_data renamed(plan_data kept, const std::string& name, const hierarchy& machine) {
    kept.file.clear();
    kept.name = name;
    kept.machine = machine;
    return finished(std::move(kept));
}

}  // namespace

plan_data plan_cache::find_or_make(const std::string& name, const hierarchy& machine,
                                   const std::function<plan_data()>& make,
                                   const std::function<void(std::string_view)>& warn) const {
    const std::string key = key_text(machine);
    const fs::path file = directory_ / fmt::format("{:016x}{}", hash_of(key.data(), key.size()), cached_suffix);
    if (std::optional<plan_data> kept = read_kept(file, key)) {
        std::error_code ignored;
        fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);
        return renamed(std::move(*kept), name, machine);
    }
    plan_data made = make();
    try {
        fs::create_directories(directory_);
        write_atomically(file, made.text);
        remove_unused();
    } catch (const std::exception& e) {
        warn(fmt::format("the plan is not kept in TERRACE_PLAN_CACHE: {}", e.what()));
    }
    return made;
}

std::optional<plan_data> kept_plans::find(const std::string& name, const hierarchy& machine) const {
    const auto found = plans_.find(key_text(machine));
    if (found == plans_.end()) return {};
    return renamed(found->second, name, machine);
}

void kept_plans::keep(const plan_data& plan) { plans_.try_emplace(key_text(plan.machine), plan); }

// Other jobs may remove files at the same time, so missing files are no error.
void plan_cache::remove_unused() const {
    std::vector<std::pair<fs::file_time_type, fs::path>> kept;
    for (const fs::directory_entry& e : fs::directory_iterator(directory_)) {
        std::error_code gone;
        const fs::file_time_type used = e.last_write_time(gone);
        if (!gone && e.path().filename().string().ends_with(cached_suffix)) kept.emplace_back(used, e.path());
    }
    if (kept.size() <= most_) return;
    std::ranges::sort(kept);
    for (std::size_t i = 0; i < kept.size() - most_; ++i) {
        std::error_code gone;
        fs::remove(kept[i].second, gone);
    }
}

}  // namespace terrace::detail
