#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include <terrace/gradients.hpp>

#include "c_api/handles.hpp"

using namespace terrace::detail;

struct terrace_gradients {
    terrace::gradient_reducer of;
    std::vector<terrace::element_type> types;       // by parameter
    std::vector<terrace::local_iterations> guards;  // of open terrace_gradients_no_sync
};

namespace {

template <class T>
std::span<T> list(T* first, std::int64_t count, const char* name) {
    if (count < 0) throw terrace::usage_error(fmt::format("{} has {} entries", name, count));
    return {count == 0 ? first : &existing(first, name), static_cast<std::size_t>(count)};
}

terrace::unused_parameters known_unused(int of) {
    if (of < terrace_unused_error || of > terrace_unused_fixed)
        throw terrace::usage_error(fmt::format("there is no terrace_unused_parameters {}", of));
    return static_cast<terrace::unused_parameters>(of);
}

terrace::gradient_options options_of(const terrace_gradient_options& in) {
    return {.bucket_bytes = in.bucket_bytes,
            .first_bucket_bytes = in.first_bucket_bytes,
            .op = known(terrace_reduction{in.op, 1, 0}).op(),
            .unused = known_unused(in.unused),
            .weighted = in.weighted != 0,
            .dense_above = in.dense_above,
            .rounds_on_wire = in.rounds_on_wire != 0,
            .error_feedback = in.error_feedback != 0};
}

std::vector<terrace::gradient_parameter> parameters_of(std::span<const terrace_gradient_parameter> in) {
    std::vector<terrace::gradient_parameter> made;
    for (const auto& [name, count, type, gradient, row] : in)
        made.push_back({&existing(name, "name"), count, known(type), gradient, row});
    return made;
}

// Calls action(reducer).
template <class Action>
terrace_status with(terrace_gradients* gradients, Action action) {
    return guarded([&] { action(existing(gradients, "gradients").of); });
}

}  // namespace

terrace_gradient_options terrace_gradient_defaults(void) {
    const terrace::gradient_options o;
    return {.bucket_bytes = o.bucket_bytes,
            .first_bucket_bytes = o.first_bucket_bytes,
            .op = static_cast<terrace_reduce_op>(o.op),
            .unused = static_cast<terrace_unused_parameters>(o.unused),
            .weighted = o.weighted ? 1 : 0,
            .dense_above = o.dense_above,
            .rounds_on_wire = o.rounds_on_wire ? 1 : 0,
            .error_feedback = o.error_feedback ? 1 : 0};
}

terrace_status terrace_gradients_create(terrace_communicator* communicator,
                                        const terrace_gradient_parameter* parameters, int count,
                                        const terrace_gradient_options* options, terrace_gradients** made) {
    return guarded([&] {
        terrace_gradients*& out = existing(made, "made");
        std::vector<terrace::gradient_parameter> all = parameters_of(list(parameters, count, "parameters"));
        std::vector<terrace::element_type> types;
        for (const terrace::gradient_parameter& p : all) types.push_back(p.type);
        const terrace::gradient_options o = options != nullptr ? options_of(*options) : terrace::gradient_options{};
        out =
            new terrace_gradients{{existing(communicator, "communicator").of, std::move(all), o}, std::move(types), {}};
    });
}

void terrace_gradients_destroy(terrace_gradients* gradients) { delete gradients; }

terrace_status terrace_gradients_at(terrace_gradients* gradients, int parameter, void** at) {
    return guarded([&] {
        terrace_gradients& g = existing(gradients, "gradients");
        g.of.count(parameter);  // throws if there is no such parameter
        existing(at, "at") = g.of.gradient(parameter, g.types[static_cast<std::size_t>(parameter)]);
    });
}

terrace_status terrace_gradients_set(terrace_gradients* gradients, int parameter, void* gradient) {
    return with(gradients, [&](auto& reducer) { reducer.set_gradient(parameter, gradient); });
}

terrace_status terrace_gradients_set_weight(terrace_gradients* gradients, double weight) {
    return with(gradients, [&](auto& reducer) { reducer.set_weight(weight); });
}

terrace_status terrace_gradients_drop(terrace_gradients* gradients, const int* parameters, int count, int root) {
    return with(gradients, [&](auto& reducer) {
        if (root < 0) reducer.drop(list(parameters, count, "parameters"));
        else reducer.drop(list(parameters, count, "parameters"), root);
    });
}

terrace_status terrace_gradients_forward_done(terrace_gradients* gradients, const int* used, int count) {
    return with(gradients, [&](auto& reducer) { reducer.forward_done(list(used, count, "used")); });
}

terrace_status terrace_gradients_ready(terrace_gradients* gradients, int parameter) {
    return with(gradients, [&](auto& reducer) { reducer.ready(parameter); });
}

terrace_status terrace_gradients_ready_rows(terrace_gradients* gradients, int parameter, const int64_t* rows,
                                            int64_t count, const void* values, terrace_element_type type) {
    return with(gradients, [&](auto& reducer) {
        if (count < 0) throw terrace::usage_error(fmt::format("{} rows", count));
        const auto numbers = list(rows, count, "rows");
        reducer.ready(parameter, numbers, values, static_cast<std::size_t>(count * reducer.row(parameter)),
                      known(type));
    });
}

terrace_status terrace_gradients_rows(terrace_gradients* gradients, int parameter, terrace_element_type type,
                                      const int64_t** rows, int64_t* count, const void** values, int* was_dense) {
    return with(gradients, [&](auto& reducer) {
        const auto [numbers, at] = reducer.rows(parameter, known(type));
        existing(rows, "rows") = numbers.data();
        existing(count, "count") = static_cast<std::int64_t>(numbers.size());
        existing(values, "values") = at;
        if (was_dense != nullptr) *was_dense = reducer.was_dense(parameter) ? 1 : 0;
    });
}

terrace_status terrace_gradients_poll(terrace_gradients* gradients, int* complete) {
    return with(gradients, [&](auto& reducer) { existing(complete, "complete") = reducer.poll() ? 1 : 0; });
}

terrace_status terrace_gradients_finish(terrace_gradients* gradients) {
    return with(gradients, [](auto& reducer) { reducer.finish(); });
}

terrace_status terrace_gradients_join(terrace_gradients* gradients, int (*after_each)(void* user), void* user) {
    return with(gradients, [&](auto& reducer) {
        if (after_each == nullptr) return reducer.join();
        reducer.join([&] {
            if (after_each(user) != 0) throw std::runtime_error("join: after_each has failed");
        });
    });
}

terrace_status terrace_gradients_no_sync(terrace_gradients* gradients, int local) {
    return guarded([&] {
        terrace_gradients& g = existing(gradients, "gradients");
        if (local != 0) g.guards.push_back(g.of.no_sync());
        else if (g.guards.empty()) throw terrace::usage_error("no_sync: iterations are not local");
        else g.guards.pop_back();
    });
}

terrace_status terrace_gradients_broadcast(terrace_gradients* gradients, const terrace_state_tensor* tensors, int count,
                                           int root) {
    return with(gradients, [&](auto& reducer) {
        std::vector<terrace::state_tensor> all;
        for (const terrace_state_tensor& t : list(tensors, count, "tensors"))
            all.push_back({&existing(t.name, "name"), t.data, t.count, known(t.type)});
        reducer.broadcast(all, root);
    });
}

terrace_status terrace_gradients_statistics(terrace_gradients* gradients, terrace_gradient_times* times) {
    return with(gradients, [&](auto& reducer) {
        const terrace::gradient_times t = reducer.statistics();
        existing(times, "times") = {t.compute, t.communication, t.hidden, t.exposed, t.waiting};
    });
}

int terrace_gradients_buckets(const terrace_gradients* gradients) { return gradients->of.buckets(); }
int terrace_gradients_rebuilds(const terrace_gradients* gradients) { return gradients->of.rebuilds(); }

terrace_status terrace_gradients_bucket_of(terrace_gradients* gradients, int parameter, int* bucket) {
    return with(gradients, [&](auto& reducer) { existing(bucket, "bucket") = reducer.bucket_of(parameter); });
}

terrace_status terrace_allreduce_keeping_errors(terrace_communicator* communicator, const void* send, void* recv,
                                                int64_t count, terrace_element_type type, void* rounding_errors,
                                                terrace_request** request) {
    return make(communicator, request, [&](auto& c) {
        return c.allreduce_async(send, recv, count, known(type),
                                 &existing(static_cast<char*>(rounding_errors), "rounding_errors"));
    });
}
