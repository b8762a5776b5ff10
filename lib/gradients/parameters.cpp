#include "gradients/parameters.hpp"

#include <fmt/format.h>

#include "base/element_types.hpp"

namespace terrace::detail {

namespace {

std::string line_of(const std::string& name, std::int64_t count, element_type type) {
    return fmt::format("\"{}\" ({} {})", name, count, to_string(type));
}

std::string objection_to(const gradient_options& o) {
    if (o.bucket_bytes < 0 && o.bucket_bytes != gradient_options::automatic)
        return fmt::format("bucket_bytes is {}; pass 0 or more, or gradient_options::automatic", o.bucket_bytes);
    if (o.first_bucket_bytes < 0) return fmt::format("first_bucket_bytes is {}; pass 0 or more", o.first_bucket_bytes);
    if (!(o.dense_above >= 0 && o.dense_above <= 1))
        return fmt::format("dense_above is {}; pass 0 to 1", o.dense_above);
    if (o.op != reduce_op::avg && o.op != reduce_op::sum)
        return fmt::format("op is {}; gradients are reduced by avg or sum", to_string(o.op));
    if (o.error_feedback && !o.rounds_on_wire)
        return "error_feedback is set, and rounds_on_wire is not; nothing is rounded then";
    if (o.weighted && o.op != reduce_op::avg) return "op is sum, and weighted is set; weights are for avg";
    return {};
}

std::string objection_to(const gradient_parameter& p) {
    if (p.count < 0) return fmt::format("parameter \"{}\" has count {}; pass 0 or more", p.name, p.count);
    if (!is_float(p.type))
        return fmt::format("parameter \"{}\" is of type {}; gradients have a floating-point type", p.name,
                           to_string(p.type));
    if (p.row < 0 || (p.row > 0 && p.count % p.row != 0))
        return fmt::format("parameter \"{}\" has count {} and row {}; the count must be a multiple of the row", p.name,
                           p.count, p.row);
    if (p.row > 0 && p.gradient != nullptr)
        return fmt::format("parameter \"{}\" is sparse and has an address; pass rows to ready()", p.name);
    return {};
}

std::string objection_to(const state_tensor& t) {
    if (t.count < 0) return fmt::format("tensor \"{}\" has count {}; pass 0 or more", t.name, t.count);
    if (t.count > 0 && t.data == nullptr)
        return fmt::format("the data of tensor \"{}\" is null; pass memory of {} elements", t.name, t.count);
    return {};
}

}  // namespace

described describe(std::span<const gradient_parameter> parameters, const gradient_options& o) {
    constexpr const char* unused[] = {"error", "find", "fixed"};
    described all{
        {fmt::format("bucket_bytes {}, first_bucket_bytes {}, op {}, unused {}, weighted {}, dense_above {}, "
                     "rounds_on_wire {}, error_feedback {}",
                     o.bucket_bytes, o.first_bucket_bytes, to_string(o.op), unused[static_cast<int>(o.unused)],
                     o.weighted, o.dense_above, o.rounds_on_wire, o.error_feedback)},
        objection_to(o)};
    for (const gradient_parameter& p : parameters) {
        all.lines.push_back(line_of(p.name, p.count, p.type) + (p.row > 0 ? fmt::format(" in rows of {}", p.row) : ""));
        if (all.objection.empty()) all.objection = objection_to(p);
    }
    return all;
}

described describe(std::span<const state_tensor> tensors, int root, int ranks) {
    described all{{fmt::format("root {}", root)}, {}};
    if (root < 0 || root >= ranks)
        all.objection = fmt::format("root is {}, and there are {} ranks; pass 0 to {}", root, ranks, ranks - 1);
    for (const state_tensor& t : tensors) {
        all.lines.push_back(line_of(t.name, t.count, t.type));
        if (all.objection.empty()) all.objection = objection_to(t);
    }
    return all;
}

}  // namespace terrace::detail
