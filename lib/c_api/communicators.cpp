#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

#include <terrace/device.hpp>
#include <terrace/loopback.hpp>
#include <terrace/mpi_world.hpp>
#include <terrace/store.hpp>
#include <terrace/ucx.hpp>

#include "api/core.hpp"
#include "base/keep_for_ever.hpp"
#include "c_api/handles.hpp"

using namespace terrace::detail;

namespace {

const terrace::options& or_defaults(const terrace_options* options) {
    static const auto& defaults = kept_for_ever(terrace::options());
    return options != nullptr ? options->of : defaults;
}

// Stores the communicator that make() returns, or null. @param name of the argument `made`, for errors
template <class Make>
void store_result(terrace_communicator** made, const char* name, Make make) {
    terrace_communicator*& out = existing(made, name);
    std::optional<terrace::communicator> comm = make();
    out = comm ? new terrace_communicator{std::move(*comm)} : nullptr;
}

// Calls create(options) or create(plan, options).
template <class Create>
terrace_status create_by(const terrace_options* options, const terrace_plan* plan, terrace_communicator** made,
                         Create create) {
    return guarded([&] {
        const terrace::options& o = or_defaults(options);
        store_result(made, "made", [&] { return plan != nullptr ? create(plan->of, o) : create(o); });
    });
}

void expect_done(int result, const char* function, const std::string& key) {
    if (result < 0) throw std::runtime_error(fmt::format("the store's function {} has failed for {}", function, key));
}

terrace::store store_of(const terrace_store& in) {
    if (in.put == nullptr || in.get == nullptr) throw terrace::usage_error("a store must have put and get");
    terrace::store made;
    made.rank = in.rank;
    made.size = in.size;
    made.put = [in](const std::string& key, const std::string& value) {
        expect_done(in.put(in.user, key.c_str(), value.data(), value.size()), "put", key);
    };
    made.get = [in](const std::string& key) -> std::optional<std::string> {
        const void* value = nullptr;
        size_t bytes = 0;
        const int found = in.get(in.user, key.c_str(), &value, &bytes);
        expect_done(found, "get", key);
        if (found == 0) return {};
        return std::string(static_cast<const char*>(value), bytes);
    };
    if (in.remove != nullptr)
        made.remove = [in](const std::string& key) { expect_done(in.remove(in.user, key.c_str()), "remove", key); };
    return made;
}

mpi_world world_of(const terrace_mpi_world& w) {
    return {.library = w.library,
            .comm = w.comm,
            .version = [text = w.version] { return std::string(text); },
            .processes = w.processes,
            .on_all = [f = w.on_all](const void* comm, bool mine) { return f(comm, mine ? 1 : 0) != 0; },
            .function = w.function};
}

}  // namespace

terrace_status terrace_plan_load(const char* file, terrace_plan** made) {
    return guarded([&] {
        terrace_plan*& out = existing(made, "made");
        out = new terrace_plan{terrace::plan::load(&existing(file, "file"))};
    });
}

const char* terrace_plan_name(const terrace_plan* plan) { return plan->of.name().c_str(); }
int terrace_plan_ranks(const terrace_plan* plan) { return plan->of.ranks(); }
const char* terrace_plan_id(const terrace_plan* plan) { return plan->of.id().c_str(); }
void terrace_plan_destroy(terrace_plan* plan) { delete plan; }

terrace_status terrace_ucx_create(const terrace_options* options, const terrace_plan* plan,
                                  terrace_communicator** made) {
    return create_by(options, plan, made, [](const auto&... with) { return terrace::ucx::create(with...); });
}

terrace_status terrace_ucx_create_in_store(const terrace_store* store, const terrace_options* options,
                                           const terrace_plan* plan, terrace_communicator** made) {
    return create_by(options, plan, made, [&](const auto&... with) {
        return terrace::ucx::create(store_of(existing(store, "store")), with...);
    });
}

terrace_status terrace_mpi_create_in(const terrace_mpi_world* world, int device, const terrace_options* options,
                                     const terrace_plan* plan, terrace_communicator** made) {
    return guarded([&] {
        const terrace::options& o = or_defaults(options);
        const terrace::plan* p = plan != nullptr ? &plan->of : nullptr;
        store_result(made, "made", [&] {
            const mpi_world all = world_of(existing(world, "world"));
            return device == terrace_no_device ? create_over_mpi(all, p, o) : create_over_mpi(all, p, device, o);
        });
    });
}

terrace_status terrace_loopback_run(const terrace_plan* plan, const terrace_options* options,
                                    int (*body)(void* user, terrace_communicator* communicator), void* user) {
    return guarded([&] {
        const auto run_rank = [&](terrace::communicator& comm) {
            const int rank = comm.rank();
            terrace_communicator handle{std::move(comm)};
            if (body(user, &handle) != 0) rethrow_error(fmt::format("the body of rank {}", rank));
        };
        existing(body, "body");
        terrace::loopback::run(existing(plan, "plan").of, run_rank, or_defaults(options));
    });
}

terrace_status terrace_use_device(terrace_communicator* communicator, int device) {
    return with(communicator, [&](auto& c) { terrace::nccl::use_device(c, device); });
}

terrace_status terrace_device_stream(terrace_communicator* communicator, void** stream) {
    return with(communicator, [&](auto& c) { existing(stream, "stream") = terrace::nccl::stream_of(c); });
}

int terrace_rank(const terrace_communicator* communicator) { return communicator->of.rank(); }
int terrace_size(const terrace_communicator* communicator) { return communicator->of.size(); }

terrace_status terrace_split(terrace_communicator* communicator, int color, int key, terrace_communicator** part) {
    return with(communicator, [&](auto& c) { store_result(part, "part", [&] { return c.split(color, key); }); });
}

terrace_status terrace_split_by_node(terrace_communicator* communicator, int key, terrace_communicator** part) {
    return with(communicator, [&](auto& c) { store_result(part, "part", [&] { return c.split_by_node(key); }); });
}

terrace_status terrace_shrink(terrace_communicator* communicator, terrace_communicator** survivors) {
    return with(communicator, [&](auto& c) { store_result(survivors, "survivors", [&] { return c.shrink(); }); });
}

terrace_status terrace_set_timeout(terrace_communicator* communicator, double seconds) {
    return with(communicator, [&](auto& c) { c.set_timeout(std::chrono::duration<double>(seconds)); });
}

terrace_status terrace_abort(terrace_communicator* communicator) {
    return with(communicator, [](auto& c) { c.abort(); });
}

terrace_status terrace_shape(terrace_communicator* communicator, int64_t bytes, const char** text) {
    return guarded([&] {
        terrace_communicator& c = existing(communicator, "communicator");
        c.shape = c.of.shape(bytes);
        existing(text, "text") = c.shape.c_str();
    });
}

terrace_status terrace_statistics(terrace_communicator* communicator, const char** text) {
    return guarded([&] {
        terrace_communicator& c = existing(communicator, "communicator");
        communicator_core& core = core_of(c.of);
        const auto held = core.hold();
        c.statistics = text_of(core.reports().counted_in_job(core.running()));
        existing(text, "text") = c.statistics.c_str();
    });
}

terrace_status terrace_predicted(terrace_communicator* communicator, int64_t bytes, double* seconds) {
    return with(communicator, [&](auto& c) { existing(seconds, "seconds") = c.predicted(bytes); });
}

void terrace_communicator_destroy(terrace_communicator* communicator) { delete communicator; }
