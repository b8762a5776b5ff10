#include "control/router.hpp"

#include <cerrno>

#include <fmt/format.h>

namespace terrace::detail {

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
