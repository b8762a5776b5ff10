#include "tools/terrace/run_command.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "api/environment.hpp"
#include "tools/common/output.hpp"
#include "transport/module.hpp"

namespace terrace::detail {

namespace fs = std::filesystem;

namespace {

// How an MPI is started.
struct launcher_kind {
    std::string_view mpi;
    std::vector<std::string> names;  // of launchers; the first that is there
    std::string_view library;        // the drop-in, where it is installed
    std::string_view built_in;       // its folder in a build
};

const launcher_kind launchers[] = {
    {"openmpi", {"mpirun.openmpi", "mpirun"}, "openmpi/libterrace-pmpi.so", "pmpi/openmpi"},
    {"mpich", {"mpiexec.mpich", "mpiexec.hydra", "mpiexec"}, "mpich/libterrace-pmpi.so", "pmpi/mpich"},
};

// As a shell finds a program; empty if it does not.
fs::path found_on_path(const std::string& name) {
    std::error_code none;
    if (name.find('/') != name.npos) return fs::exists(name, none) ? fs::path(name) : fs::path();
    const std::vector<std::string> environment = process_environment();
    const char* path = value_in(environment, "PATH");
    std::istringstream folders(path != nullptr ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');)
        if (fs::path file = fs::path(folder) / name; access(file.c_str(), X_OK) == 0) return file;
    return {};
}

std::string contents(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

const launcher_kind& launcher_of(const std::string& mpi, const std::string& program) {
    std::string name = mpi;
    if (name.empty()) {
        const fs::path file = found_on_path(program);
        if (file.empty()) throw usage_error(fmt::format("run: {} is no program that can be found", program));
        name = mpi_named_in(contents(file));
    }
    for (const launcher_kind& l : launchers)
        if (l.mpi == name) return l;
    throw usage_error(
        fmt::format("run: {} does not say which MPI it is linked to; add --mpi openmpi or --mpi mpich", program));
}

fs::path library_of(const launcher_kind& l) {
    const module_kind built{"libterrace-pmpi.so", std::string(l.built_in), "", "", ""};
    const module_kind installed{std::string(l.library), "", "", "", ""};
    for (const module_kind& kind : {built, installed})
        if (const fs::path file = find_module(kind); fs::exists(file)) return fs::canonical(file);
    throw usage_error(fmt::format("run: this Terrace has no drop-in for {}: {} is missing", name_of_mpi(l.mpi),
                                  find_module(installed).string()));
}

// What ranks are told: what this process was told, and what the command says.
std::map<std::string, std::string> variables_of(const run_command& c, const fs::path& library) {
    std::map<std::string, std::string> all;
    const std::vector<std::string> environment = process_environment();
    for (const variable& v : environment_variables())
        if (const char* value = value_in(environment, v.name)) all[std::string(v.name)] = value;
    if (!c.plan.empty()) all["TERRACE_PLAN"] = fs::absolute(c.plan).string();
    if (!c.report.empty())
        all["TERRACE_PMPI_REPORT"] = c.report == "-" ? "/dev/stdout" : fs::absolute(c.report).string();
    if (!c.mode.empty()) all["TERRACE_PMPI"] = c.mode;
    all["LD_PRELOAD"] = library.string();
    return all;
}

std::vector<std::string> words_of(const run_command& c) {
    const launcher_kind& l = launcher_of(c.mpi, c.program.front());
    const auto there = std::find_if(l.names.begin(), l.names.end(),
                                    [](const std::string& name) { return !found_on_path(name).empty(); });
    if (there == l.names.end())
        throw usage_error(fmt::format("run: none of {} is on the path", fmt::join(l.names, ", ")));
    std::vector<std::string> words{*there};
    if (c.ranks > 0) words.insert(words.end(), {"-np", std::to_string(c.ranks)});
    std::istringstream more(c.launcher);
    for (std::string word; more >> word;) words.push_back(word);
    for (const auto& [name, value] : variables_of(c, library_of(l))) {
        if (l.mpi == "openmpi") words.insert(words.end(), {"-x", fmt::format("{}={}", name, value)});
        else words.insert(words.end(), {"-genv", name, value});
    }
    words.insert(words.end(), c.program.begin(), c.program.end());
    return words;
}

}  // namespace

std::string mpi_named_in(std::string_view file) {
    const auto names = [&](std::string_view library) { return file.find(library) != file.npos; };
    const bool open = names("libmpi.so.40") || names("libmpi_mpifh.so.40");
    const bool mpich = names("libmpich.so.12") || names("libmpichfort.so.12") || names("libmpi.so.12");
    if (open == mpich) return {};
    return open ? "openmpi" : "mpich";
}

std::string shell_line(std::span<const std::string> words) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    std::string line;
    for (const std::string& word : words) {
        if (!line.empty()) line += ' ';
        if (!word.empty() && word.find_first_not_of(plain) == word.npos) {
            line += word;
            continue;
        }
        line += '\'';
        for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
        line += '\'';
    }
    return line;
}

int run_command::run() const {
    std::vector<std::string> words = words_of(*this);
    const std::string line = shell_line(words);
    if (prints) {
        say("{}\n", line);
        return 0;
    }
    complain("{}\n", line);  // apart from what the program prints
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execvp(arguments.front(), arguments.data());
    throw usage_error(fmt::format("run: {} cannot be started: {}", words.front(), std::strerror(errno)));
}

}  // namespace terrace::detail
