#include "base/element_types.hpp"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace terrace::detail {

std::string undefined_text(reduce_op op, element_type type) {
    std::vector<std::string_view> ops;
    for (const reduce_op o : all_reduce_ops)
        if (is_defined(o, type)) ops.push_back(to_string(o));
    return fmt::format("{} is not defined for {}, which has {}", to_string(op), to_string(type), fmt::join(ops, ", "));
}

}  // namespace terrace::detail
