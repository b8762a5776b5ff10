#include "tools/terrace/commands.hpp"

#include <array>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <terrace/version.hpp>

#include "api/environment.hpp"
#include "tools/build_config.hpp"
#include "tools/common/gpu_info.hpp"
#include "tools/common/output.hpp"
#include "tools/common/table.hpp"
#include "tools/terrace/variables.hpp"
#include "transport/known_mpis.hpp"
#include "transport/module.hpp"

namespace terrace::detail {

namespace {

struct backend {
    std::string_view name;
    bool available;
    std::string detail;  // version and build, or the reason why not
};

backend mpi_backend() {
    std::vector<std::string_view> found;
    for (const known_mpi& mpi : known_mpis)
        if (std::filesystem::exists(find_module(module_for_mpi(mpi.library)))) found.push_back(mpi.name);
    if (found.empty()) return {"mpi", false, module_for_mpi("openmpi").absent};
    return {"mpi", true,
            fmt::format("modules for {}; built against " TERRACE_MPI_NAME " " TERRACE_MPI_VERSION
                        ", which " TERRACE_MPI_OF_GPUS,
                        fmt::join(found, ", "))};
}

// Describes a module by its file. The module is not loaded.
backend module_backend(std::string_view name, const module_kind& kind, std::string_view detail) {
    const std::filesystem::path file = find_module(kind);
    const bool is_there = std::filesystem::exists(file);
    return {name, is_there, is_there ? std::string(detail) : kind.absent};
}

std::vector<backend> backends_by(std::span<const std::string> environment) {
    const gpu_info gpus = look_for_gpus(value_in(environment, "TERRACE_GPU_MODULE"));
    return {
        mpi_backend(),
        module_backend("ucx", module_for_ucx(),
                       "messages without MPI, over TCP, InfiniBand or RoCE; built against UCX " TERRACE_UCX_VERSION),
        module_backend(
            "pmix", module_for_pmix(),
            "ranks without MPI find one another by their launcher; built against PMIx " TERRACE_PMIX_VERSION),
        {"shm", true, "ranks of one node reduce in POSIX shared memory"},
        {"loopback", true, "ranks are threads of one process"},
        {"cuda", gpus.cuda.usable, gpus.cuda.detail},
        {"nccl", gpus.nccl.usable, gpus.nccl.detail}};
}

struct library {
    std::string_view name, version;
};
constexpr std::array libraries{
    library{"hwloc", TERRACE_HWLOC_VERSION},
    library{"yaml-cpp", TERRACE_YAML_VERSION},
    library{"pugixml", TERRACE_PUGIXML_VERSION},
    library{"compiler", TERRACE_COMPILER},
};

struct setting {
    variable what;
    std::string value;
    std::string_view source;
};

struct findings {
    std::vector<backend> backends;
    std::vector<setting> settings;
    std::vector<std::string> problems;
};

findings look_around() {
    findings found;
    const std::vector<std::string> environment = process_environment();
    found.backends = backends_by(environment);
    for (const variable& v : all_variables()) {
        const std::string_view set = value_in(environment, v.name);
        found.settings.push_back(
            {v, std::string(set.empty() ? v.fallback : set), set.empty() ? "default" : "environment"});
        const std::string slurm = slurm_address_in(environment);
        if (v.name == "TERRACE_TOPOLOGY_ADDR" && set.empty() && !slurm.empty())
            found.settings.back() = {v, slurm, "SLURM_TOPOLOGY_ADDR"};
    }
    found.problems = problems_of_variables(environment);
    return found;
}

std::string as_text(const findings& found) {
    table ends("<<<"), parts("<<"), settings("<<<<");
    for (const backend& b : found.backends) ends.add({std::string(b.name), b.available ? "yes" : "no", b.detail});
    for (const library& l : libraries) parts.add({std::string(l.name), std::string(l.version)});
    for (const setting& s : found.settings)
        settings.add({std::string(s.what.name), s.value.empty() ? "-" : s.value, std::string(s.source),
                      fmt::format("{} ({})", s.what.meaning, s.what.allowed)});
    std::string text = fmt::format("terrace {}\n\nback ends\n{}\nbuilt with\n{}\nvariables\n{}", version(), ends.text(),
                                   parts.text(), settings.text());
    for (const std::string& problem : found.problems) text += fmt::format("\n{}\n", problem);
    return text;
}

std::string as_json(const findings& found) {
    using nlohmann::ordered_json;
    ordered_json info{{"version", version()}};
    for (const backend& b : found.backends)
        info["backends"].push_back({{"name", b.name}, {"available", b.available}, {"detail", b.detail}});
    for (const library& l : libraries) info["built_with"][std::string(l.name)] = l.version;
    for (const setting& s : found.settings)
        info["variables"].push_back({{"name", s.what.name},
                                     {"value", s.value.empty() ? ordered_json() : ordered_json(s.value)},
                                     {"source", s.source},
                                     {"allowed", s.what.allowed},
                                     {"meaning", s.what.meaning}});
    info["problems"] = found.problems;
    return info.dump(2) + '\n';
}

}  // namespace

std::string info_text() { return as_text(look_around()); }

int info_command::run() const {
    const findings found = look_around();
    say_text(json ? as_json(found) : as_text(found));
    return found.problems.empty() ? 0 : 1;
}

}  // namespace terrace::detail
