#include "control/router.hpp"

#include <cerrno>
#include <optional>

#include <fmt/format.h>

namespace terrace::detail {

control_router::control_router(endpoint& net, std::span<const service_row> table)
    : net_(net), table_(table), services_(table.size()) {}

void control_router::receive() {
    messages& wire = net_.wire();
    while (const std::optional<control_message> m = wire.take_control()) wire.or_fail([&] { dispatch(*m); });
}

void control_router::dispatch(const control_message& m) {
    const control_frame f = control_frame::from(m);
    if (f.service < table_.size() && f.kind < table_[f.service].kinds && services_[f.service] != nullptr)
        return services_[f.service]->receive(m.from, f);
    net_.wire().fail({"terrace", "control message", EPROTO,
                      fmt::format("rank {} of the plan has sent a control message of kind {} of {}, which this rank "
                                  "does not know; do all ranks run the same version of Terrace?",
                                  m.from, f.kind,
                                  f.service < table_.size() ? fmt::format("service {}", table_[f.service].name)
                                                            : fmt::format("service {}", f.service))});
}

}  // namespace terrace::detail
