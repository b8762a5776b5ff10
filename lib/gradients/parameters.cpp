#include "gradients/parameters.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include <terrace/communicator.hpp>

#include "base/element_types.hpp"
#include "base/hash.hpp"
#include "base/index.hpp"
#include "base/text_parts.hpp"

namespace terrace::detail {

namespace {

std::string text_of(communicator& comm, std::string text, int root) {
    std::uint64_t size = text.size();
    comm.broadcast(std::span(&size, 1), root);
    text.resize(size);
    comm.broadcast(std::span(text.data(), text.size()), root);
    return text;
}

// Returns the first difference, in words; empty if there is none.
std::string difference(const std::string& first_rank, const described& mine, int rank) {
    std::vector<std::string_view> theirs = split_at('\0', first_rank);
    theirs.pop_back();  // the empty text behind the last line
    const auto [there, here] = std::ranges::mismatch(theirs, mine.lines);
    if (there == theirs.end() && here == mine.lines.end()) return {};
    if (there == theirs.end()) return fmt::format("rank 0 has nothing where rank {} has {}", rank, *here);
    if (here == mine.lines.end()) return fmt::format("rank 0 has {}, and rank {} has nothing there", *there, rank);
    return fmt::format("rank 0 has {}, and rank {} has {}", *there, rank, *here);
}

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

void expect_same_lines(communicator& comm, const char* call, const described& mine) {
    std::string text;
    for (const std::string& line : mine.lines) text.append(line).push_back('\0');  // which no line contains
    const bool refused = !mine.objection.empty();
    const std::uint64_t hash = refused ? 0 : hash_of(text.data(), text.size()) | 1;
    std::vector<std::uint64_t> all(at(comm.size()));
    comm.allgather(std::span(&hash, 1), all);
    const bool any_refused = std::count(all.begin(), all.end(), 0u) > 0;
    if (!any_refused && std::equal(all.begin() + 1, all.end(), all.begin())) return;
    const auto odd = any_refused ? std::find(all.begin(), all.end(), 0u)
                                 : std::find_if(all.begin(), all.end(), [&](auto h) { return h != all.front(); });
    const int source = static_cast<int>(odd - all.begin());
    std::string words = refused ? fmt::format("rank {}: {}", comm.rank(), mine.objection) : std::string();
    if (!any_refused) words = difference(text_of(comm, text, 0), mine, comm.rank());
    words = text_of(comm, words, source);
    throw usage_error(any_refused ? fmt::format("{}: {}", call, words)
                                  : fmt::format("{}: ranks differ: {}; pass the same on all ranks", call, words));
}

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
