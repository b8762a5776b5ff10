#include <terrace/reproducible.hpp>

#include <cstring>

#include <terrace/error.hpp>

#include "base/element_types.hpp"
#include "kernels/reduce.hpp"

namespace terrace {

using namespace detail;

void reduce_serially(std::span<const void* const> inputs, void* result, std::int64_t count, element_type type,
                     reduce_op op) {
    if (!is_defined(op, type)) throw usage_error("reduce_serially: " + undefined_text(op, type));
    if (inputs.empty() || count <= 0) return;
    const int ranks = static_cast<int>(inputs.size());
    if (ranks == 1) {  // one rank's elements keep their bits
        std::memmove(result, inputs.front(), static_cast<std::size_t>(count) * size_of(type));
        return;
    }
    find_reduce(type, op, widest_vectors(), grouping::by_tree)(result, inputs.data(), ranks, count,
                                                               op == reduce_op::avg ? ranks : 1);
}

}  // namespace terrace
