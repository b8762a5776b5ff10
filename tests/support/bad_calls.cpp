#include "support/bad_calls.hpp"

#include <numeric>

#include <fmt/format.h>

#include "plan/plan_access.hpp"
#include "planner/planner.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

namespace {

constexpr std::int64_t count = 1000;

using any_call = std::function<void(communicator&, std::vector<float>& data)>;

any_call allreduce(std::int64_t n, element_type type, reduce_op op) {
    return [=](communicator& comm, std::vector<float>& data) { comm.allreduce(data.data(), data.data(), n, type, op); };
}

any_call broadcast(int root) {
    return [=](communicator& comm, std::vector<float>& data) {
        comm.broadcast(data.data(), count, element_type::float32, root);
    };
}

any_call reduce(int root) {
    return [=](communicator& comm, std::vector<float>& data) {
        comm.reduce(data.data(), data.data(), count, element_type::float32, root, reduce_op::sum);
    };
}

any_call allgather(const std::vector<std::int64_t>& counts) {
    return [=](communicator& comm, std::vector<float>& data) {
        const auto begin = std::reduce(counts.begin(), counts.begin() + comm.rank());
        comm.allgather(data.data() + begin, data.data(), counts, element_type::float32);
    };
}

any_call both(const any_call& first, const any_call& second) {
    return [=](communicator& comm, std::vector<float>& data) {
        first(comm, data);
        second(comm, data);
    };
}

// Makes a call that completes on a rank only if the other ranks make it, too.
void meet(communicator& comm) {
    std::vector<double> data(7);
    comm.allreduce(std::span(data));
}

}  // namespace

plan plan_for(int ranks) {
    const hierarchy machine =
        machine_of(ranks % 4 == 0 ? tree::uniform(std::vector{4, ranks / 4}) : tree::uniform(std::vector{ranks}));
    return to_plan(make_plan("test", machine));
}

std::vector<bad_call> bad_calls(int ranks) {
    const element_type f32 = element_type::float32;
    const any_call sum = allreduce(count, f32, reduce_op::sum);
    const std::string sum_text = "allreduce of 1000 float32, sum (call";
    std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), 3), others = counts;
    ++others.front(), --others.back();
    return {
        {"count", sum, allreduce(count + 1, f32, reduce_op::sum), sum_text, "allreduce of 1001 float32, sum (call"},
        {"type", sum, allreduce(count, element_type::int32, reduce_op::sum), sum_text, "of 1000 int32, sum (call"},
        {"op", sum, allreduce(count, f32, reduce_op::max), sum_text, "allreduce of 1000 float32, max (call"},
        {"collective", sum, reduce(0), sum_text, "reduce of 1000 float32, sum, to rank 0 (call"},
        {"root", broadcast(0), broadcast(ranks - 1), "broadcast of 1000 float32, from rank 0 (call",
         fmt::format("broadcast of 1000 float32, from rank {} (call", ranks - 1)},
        {"counts", allgather(counts), allgather(others), "allgather of blocks of 3 3", "allgather of blocks of 4 "},
        {"order", both(sum, broadcast(0)), both(broadcast(0), sum), sum_text,
         "broadcast of 1000 float32, from rank 0 ("},
    };
}

std::string trouble_with(communicator& comm, const bad_call& what, int culprit, agreed_before before,
                         options::checking level) {
    std::vector<float> data(static_cast<std::size_t>(count + 1), 1.0f);
    meet(comm);
    if (before != agreed_before::nothing) what.right(comm, data);
    if (before == agreed_before::all) what.wrong(comm, data);
    const std::vector<float> untouched = data;
    try {
        (comm.rank() == culprit ? what.wrong : what.right)(comm, data);
        meet(comm);
        return "nobody noticed";
    } catch (const usage_error& e) {
        const std::string text = e.what();
        const bool two = comm.size() == 2;  // then there is no majority
        for (const std::string& part : {"ranks make different calls: " + std::string(two ? "rank " : ""),
                                        fmt::format("rank {} has ", culprit), what.right_text, what.wrong_text})
            if (text.find(part) == std::string::npos) return fmt::format("no \"{}\" in: {}", part, text);
    } catch (const error& e) {
        return fmt::format("another error: {}", e.what());
    }
    // A rank whose call has an agreed shape may have begun to write; otherwise nothing may be written.
    const bool may_begin = level == options::checking::first && before != agreed_before::nothing;
    if (!may_begin && data != untouched) return "data have been written";
    try {
        meet(comm);
        return "it is not broken";
    } catch (const usage_error&) {}
    return {};
}

}  // namespace terrace::detail::test
