#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/nccl/gpu_runtime.hpp"

namespace terrace::detail::test {

/// Stand-in for GPUs, CUDA and NCCL: host memory and one thread. A test that passes with it shows nothing about a GPU.
/// It runs the work of streams in any order that streams and events allow, and records every broken rule:
///
/// * A device launches NCCL operations in the order in which they were issued. It runs one at a time, or operations of
///   different communicators at once (`concurrent`), as real devices may. One at a time, orders that differ between
///   ranks end in a deadlock, which the watchdog's timeout detects.
/// * Aborting a communicator waits for the work in front of its operations in their streams (in a group, at its end).
///   Aborting or finalizing a communicator waits for the graphs that use it.
/// * A split writes the new communicator's handle when it is created, even if the caller gave up long before.
/// * Collectives of a communicator agree in kind, count, type, operation and root; messages in length.
/// * A communicator is used when it is settled, by one stream after another, and never after its abort or end.
/// * All memory that a device uses belongs to it. A captured graph does not depend on work outside, and all streams
///   that it forks join again.
///
/// Only one may exist at a time, since the functions of its table have no object.
class gpu_stand_in {
public:
    struct setting {
        int devices = 16;
        bool any_memory = false;    ///< any host memory counts as memory of the caller's device
        bool remote_errors = true;  ///< an abort shows as an error on the other ranks' communicators
        bool concurrent = false;    ///< operations of different communicators run at once
        std::uint64_t seed = 1;     ///< decides the order in which streams run
    };

    explicit gpu_stand_in(const setting& s);
    ~gpu_stand_in();

    const gpu_runtime& runtime() const noexcept;

    /// Returns the rules that were broken so far, as texts.
    std::vector<std::string> violations() const;
    /// Returns the number of calls of each function of the table, by the name of the real function.
    std::map<std::string, int> calls() const;
    /// Returns the resources that have not been released, as "2 streams, 1 events ..."; empty if there are none.
    std::string left() const;

    /// Lets the n-th call of the function from now on, counted from 1 over all ranks, do nothing and return `code`.
    void fail(const std::string& function, int n, int code);

    /// Begins a capture: work of the stream, and of streams that it forks, becomes part of a graph.
    void begin_capture(gpu_stream origin);
    struct graph;
    std::shared_ptr<graph> end_capture(gpu_stream origin);
    void launch(const std::shared_ptr<graph>& g, gpu_stream stream);

    /// Returns a stream of the device for the test, which is released with this object.
    gpu_stream make_stream(int device);
    void wait_for(gpu_stream stream);

    struct state;

private:
    std::unique_ptr<state> state_;
};

}  // namespace terrace::detail::test
