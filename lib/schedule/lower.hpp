#pragma once

#include "schedule/schedule.hpp"

namespace terrace {

/// What a transport can do by itself.
struct capabilities {
    std::uint32_t native = 0;  ///< bit per stage action that it runs itself

    bool runs(action a) const noexcept { return native >> static_cast<unsigned>(a) & 1u; }
};

/// Expands the stages that the transport does not run itself into point-to-point instructions.
schedule lower(const schedule& s, const capabilities& can);

}  // namespace terrace
