#pragma once

#include "topology/network.hpp"

namespace terrace::detail {

/// A fat tree has several switches above the same ones. Makes one of them, since what is below has a link to each:
/// its links are as fast as theirs together. A note names them.
switch_network with_spines_joined(switch_network n);

}  // namespace terrace::detail
