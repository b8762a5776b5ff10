#include "tools/terrace/commands.hpp"

#include <string>

#include <fmt/format.h>

#include "tools/common/machine.hpp"
#include "tools/common/output.hpp"
#include "tools/terrace/picture.hpp"
#include "topology/describe.hpp"
#include "topology/formats/cluster.hpp"

namespace terrace::detail {

namespace {

std::vector<picture::inside> insides_of(const topology& t) {
    if (t.node) return {{"inside a node", t.node.get()}};
    std::vector<picture::inside> all;
    for (const topology::node_type& type : t.types)
        if (type.node) all.push_back({fmt::format("inside a node of type {}", type.name), type.node.get()});
    return all;
}

picture picture_of(const topology& t) {
    const std::size_t nodes = t.machine.node_sizes().size();
    return {.machine = t.machine,
            .title = t.name,
            .subtitle = fmt::format("{} ranks in {} node{} ({}); links: per direction", t.machine.ranks(), nodes,
                                    nodes == 1 ? "" : "s", shape_text(t.machine.shape)),
            .nodes = insides_of(t)};
}

}  // namespace

int topo_command::run() const {
    const topology t = load_machine(machine);
    const std::string text = json   ? describe_json(t)
                             : yaml ? write_cluster(t)
                             : svg  ? draw_svg(picture_of(t))
                                    : describe_text(t);
    say_text(text);
    return 0;
}

}  // namespace terrace::detail
