#pragma once

#include <span>

#include <terrace/gradients.hpp>

#include "gradients/same_lines.hpp"

namespace terrace::detail {

/// What ranks must agree on to make a reducer, and what is wrong with it.
described describe(std::span<const gradient_parameter> parameters, const gradient_options& o);

/// What ranks must agree on to broadcast state, and what is wrong with it.
described describe(std::span<const state_tensor> tensors, int root, int ranks);

}  // namespace terrace::detail
