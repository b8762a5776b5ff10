#include "tools/terrace/commands.hpp"

#include "tools/common/output.hpp"
#include "topology/describe.hpp"
#include "topology/formats/cluster.hpp"

namespace terrace::detail {

int topo_command::run() const {
    const topology t = load_machine(machine);
    say_text(json ? describe_json(t) : yaml ? write_cluster(t) : describe_text(t));
    return 0;
}

}  // namespace terrace::detail
