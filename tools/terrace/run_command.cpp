#include "tools/terrace/commands.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "tools/common/output.hpp"
#include "tools/terrace/variables.hpp"
#include "transport/known_mpis.hpp"
#include "transport/module.hpp"

namespace terrace::detail {

namespace fs = std::filesystem;

namespace {

// Finds a program as a shell does; returns an empty path if there is none.
fs::path found_on_path(const std::string& name) {
    std::error_code none;
    if (name.find('/') != name.npos) return fs::exists(name, none) ? fs::path(name) : fs::path();
    const std::vector<std::string> environment = process_environment();
    std::istringstream folders(std::string(value_in(environment, "PATH")));
    for (std::string folder; std::getline(folders, folder, ':');)
        if (fs::path file = fs::path(folder) / name; access(file.c_str(), X_OK) == 0) return file;
    return {};
}

// Returns the MPI whose libraries a program's file contains; empty if there are none or several.
std::string mpi_named_in(std::string_view file) {
    std::string found;
    for (const known_mpi& mpi : known_mpis) {
        const bool is_named = std::any_of(std::begin(mpi.needed), std::end(mpi.needed), [&](std::string_view library) {
            return !library.empty() && file.find(library) != file.npos;
        });
        if (!is_named) continue;
        if (!found.empty()) return {};
        found = mpi.library;
    }
    return found;
}

const known_mpi& mpi_of(const std::string& mpi, const std::string& program) {
    std::string name = mpi;
    if (name.empty()) {
        const fs::path file = found_on_path(program);
        if (file.empty()) throw usage_error(fmt::format("run: {} is no program that can be found", program));
        std::ifstream in(file, std::ios::binary);
        name = mpi_named_in(std::string(std::istreambuf_iterator<char>(in), {}));
    }
    if (!name.empty()) return mpi_called(name);
    throw usage_error(fmt::format(
        "run: {} does not say which MPI it is linked to; add --mpi openmpi, --mpi mpich or --mpi mpiabi", program));
}

fs::path library_of(const known_mpi& mpi) {
    const std::string folder(mpi.library);
    const module_kind built{"libterrace-pmpi.so", "pmpi/" + folder, "", "", ""};
    const module_kind installed{folder + "/libterrace-pmpi.so", "", "", "", ""};
    for (const module_kind& kind : {built, installed})
        if (const fs::path file = find_module(kind); fs::exists(file)) return fs::canonical(file);
    throw usage_error(fmt::format("run: this Terrace has no drop-in for {}: {} is missing", mpi.name,
                                  find_module(installed).string()));
}

// Returns the variables of the ranks: those of this process, and those from the command's options.
std::map<std::string, std::string> variables_of(const run_command& c, const fs::path& library) {
    std::map<std::string, std::string> all;
    const std::vector<std::string> environment = process_environment();
    for (const variable& v : all_variables())
        if (const auto value = value_in(environment, v.name); !value.empty()) all[std::string(v.name)] = value;
    if (!c.plan.empty()) all["TERRACE_PLAN"] = fs::absolute(c.plan).string();
    if (!c.report.empty())
        all["TERRACE_PMPI_REPORT"] = c.report == "-" ? "/dev/stdout" : fs::absolute(c.report).string();
    if (!c.mode.empty()) all["TERRACE_PMPI"] = c.mode;
    all["LD_PRELOAD"] = library.string();
    return all;
}

std::vector<std::string> words_of(const run_command& c) {
    const known_mpi& mpi = mpi_of(c.mpi, c.program.front());
    const auto there = std::find_if(std::begin(mpi.launchers), std::end(mpi.launchers), [](std::string_view name) {
        return !name.empty() && !found_on_path(std::string(name)).empty();
    });
    if (there == std::end(mpi.launchers))
        throw usage_error(fmt::format("run: no launcher of {} is on the path: {}", mpi.name, mpi.launchers[0]));
    std::vector<std::string> words{std::string(*there)};
    if (c.ranks > 0) words.insert(words.end(), {"-np", std::to_string(c.ranks)});
    std::istringstream more(c.launcher);
    for (std::string word; more >> word;) words.push_back(word);
    for (const auto& [name, value] : variables_of(c, library_of(mpi))) {
        if (mpi.library == "openmpi") words.insert(words.end(), {"-x", fmt::format("{}={}", name, value)});
        else words.insert(words.end(), {"-genv", name, value});
    }
    words.insert(words.end(), c.program.begin(), c.program.end());
    return words;
}

// Returns a line that a POSIX shell reads as these words.
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

}  // namespace

int run_command::run() const {
    std::vector<std::string> words = words_of(*this);
    const std::string line = shell_line(words);
    if (prints) {
        say("{}\n", line);
        return 0;
    }
    print_error("{}\n", line);  // standard output is for the program
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execvp(arguments.front(), arguments.data());
    throw usage_error(fmt::format("run: {} cannot be started: {}", words.front(), std::strerror(errno)));
}

}  // namespace terrace::detail
