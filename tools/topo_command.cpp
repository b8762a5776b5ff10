#include "tools/topo_command.hpp"

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "tools/import_child.hpp"
#include "topology/cluster_yaml.hpp"
#include "topology/describe.hpp"
#include "topology/hwloc_xml.hpp"

namespace terrace {

namespace {

hierarchy import_node(const std::filesystem::path& file, rank_unit ranks) {
    return import_in_child(import_hwloc, file, ranks);
}

bool looks_like_xml(const std::filesystem::path& file) {
    expect_regular(file);
    std::ifstream in(file);
    char first = 0;
    in >> first;
    return first == '<';
}

}  // namespace

topology load_topology(const std::filesystem::path& file, std::optional<rank_unit> ranks) {
    if (looks_like_xml(file)) return {file.stem().string(), import_node(file, ranks.value_or(rank_unit::gpus))};
    if (ranks)
        throw usage_error(
            fmt::format("{}: --ranks is for hwloc XML; a cluster file says `ranks:` itself", file.string()));
    return read_cluster(file, import_node);
}

void add_topo_command(CLI::App& app) {
    struct arguments {
        std::string file;
        std::string ranks;
        bool json = false;
    };
    const auto given = std::make_shared<arguments>();
    CLI::App* topo = app.add_subcommand("topo", "Print a machine: a cluster YAML, or one node's hwloc XML");
    topo->add_option("FILE", given->file, "The description")->required();
    topo->add_flag("--json", given->json, "Print JSON");
    topo->add_option("--ranks", given->ranks, "What the ranks of an hwloc XML are: " + rank_unit_names())
        ->check([](const std::string& text) {
            return parse_rank_unit(text) ? "" : fmt::format("\"{}\" is none of {}", text, rank_unit_names());
        });
    topo->callback([given] {
        const topology t = load_topology(given->file, parse_rank_unit(given->ranks));
        const std::string text = given->json ? describe_json(t) : describe_text(t);
        std::fwrite(text.data(), 1, text.size(), stdout);
    });
}

}  // namespace terrace
