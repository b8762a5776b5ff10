#include "support/gpu_stand_in.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "support/gpu_stand_in_state.hpp"

namespace terrace::detail::test {

gpu_stand_in::gpu_stand_in(const setting& s) : state_(std::make_unique<state>(s)) { machine = state_.get(); }
gpu_stand_in::~gpu_stand_in() {
    state_->over = true;
    while (state_->blocked > 0) std::this_thread::yield();
    state_->worker = {};
    machine = nullptr;
}

const gpu_runtime& gpu_stand_in::runtime() const noexcept {
    static const gpu_runtime table = [] {
        gpu_runtime made{};
        made.version = header_version;
        made.bytes = sizeof made;
        add_cuda_calls(made);
        add_nccl_calls(made);
        return made;
    }();
    return table;
}

std::vector<std::string> gpu_stand_in::violations() const {
    const auto held = lock_machine();
    return state_->broken;
}

std::map<std::string, int> gpu_stand_in::calls() const {
    const auto held = lock_machine();
    return state_->called;
}

std::string gpu_stand_in::left() const {
    const auto held = lock_machine();
    const auto here = [](const auto& all, auto there) { return std::count_if(all.begin(), all.end(), there); };
    const auto streams = here(state_->streams, [&](const auto& s) {
        return !s->dropped && !state_->own.contains(reinterpret_cast<gpu_stream>(s.get()));
    });
    const auto events = here(state_->events, [](const auto& e) { return !e->dropped; });
    const auto comms = here(state_->comms, [](const auto& c) { return !c->dropped && !c->aborted; });
    if (streams + events + comms == 0 && state_->memory.empty()) return {};
    return fmt::format("{} streams, {} events, {} communicators, {} pieces of memory", streams, events, comms,
                       state_->memory.size());
}

void gpu_stand_in::fail(const std::string& function, int n, int code) {
    const auto held = lock_machine();
    state_->injections.push_back({function, n, code});
}

void gpu_stand_in::begin_capture(gpu_stream origin) {
    const auto held = lock_machine();
    auto* g = new graph;  // end_capture takes the ownership
    g->origin = state_->stream_of(origin);
    g->origin->capturing = g;
    state_->captures.insert(g);
}

std::shared_ptr<gpu_stand_in::graph> gpu_stand_in::end_capture(gpu_stream origin) {
    const auto held = lock_machine();
    std::shared_ptr<graph> g(state_->stream_of(origin)->capturing);
    for (const auto& [stream, length] : g->lengths)
        state_->rule(g->clocks[g->origin][stream] == length, "a stream that does not join the capture again");
    for (const auto& s : state_->streams)
        if (s->capturing == g.get()) s->capturing = nullptr;
    state_->captures.erase(g.get());
    return g;
}

gpu_stand_in::graph::~graph() {
    const auto held = lock_machine();
    for (const entry& e : entries)
        if (e.op.network) --e.op.network->comm->graphs;
}

// Each launch gets new events, so that launches do not disturb each other.
void gpu_stand_in::launch(const std::shared_ptr<graph>& g, gpu_stream stream) {
    const auto held = lock_machine();
    std::map<stream_state*, stream_state*> runs_in{{g->origin, state_->stream_of(stream)}};
    std::map<std::pair<event_state*, std::uint64_t>, std::shared_ptr<event_state>> fresh;
    for (const graph::entry& e : g->entries) {
        stream_state*& in = runs_in[e.stream];
        if (in == nullptr) {
            state_->streams.push_back(std::make_unique<stream_state>());
            in = state_->streams.back().get();
            in->device = e.stream->device;
            state_->own.insert(reinterpret_cast<gpu_stream>(in));
        }
        stream_op op = e.op;
        if (op.event) {
            auto& made = fresh[{op.event.get(), op.generation}];
            if (!made) made = std::make_shared<event_state>();
            op.event = made;
            op.generation = 1;
        }
        if (op.network) op.network = std::make_shared<network_op>(*op.network);
        state_->enter(in, std::move(op));
    }
}

gpu_stream gpu_stand_in::make_stream(int device) {
    current_device = device;
    gpu_stream made = nullptr;
    runtime().make_stream(&made);
    const auto held = lock_machine();
    state_->own.insert(made);
    return made;
}

void gpu_stand_in::wait_for(gpu_stream stream) {
    for (bool done = false; !done;) {
        runtime().stream_done(stream, &done);
        std::this_thread::yield();
    }
}

}  // namespace terrace::detail::test
