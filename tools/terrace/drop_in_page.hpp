#pragma once

#include <string>

namespace terrace::detail {

/// The manual page (roff) of the drop-in for MPI, libterrace-pmpi(7), with its variables.
std::string drop_in_page();

}  // namespace terrace::detail
