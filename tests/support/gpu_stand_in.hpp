#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/nccl/gpu_runtime.hpp"

namespace terrace::detail::test {

/// Host memory and one thread in the place of GPUs, CUDA and NCCL. It is no GPU, and what passes on it has run on none:
/// it runs what streams get, in any order that streams and events allow, and keeps count of every rule that is broken:
///
/// * a device launches NCCL operations in the order in which they were issued. By the setting it runs one at a time, so
///   that orders that differ between ranks end in a deadlock, which the watcher's timeout finds, or those of different
///   communicators at once: both are what a real one may do;
/// * aborting a communicator waits for what is in front of its operations in their streams, in a group at its end; and
///   aborting or finalizing one waits for the graphs that use it;
/// * a communicator that is split off is written to its place once it is made, though its maker gave up long before;
/// * collectives of one communicator agree in kind, count, type, operation and root; messages in length;
/// * a communicator is used when it is settled, by one stream after the other, and never after its abort or end;
/// * memory belongs to the device that uses it, all of it; a graph that is captured depends on nothing outside, and all
///   streams that it forks join again.
///
/// One at a time: the functions of its table are for whichever is alive.
class gpu_stand_in {
public:
    struct setting {
        int devices = 16;
        bool any_memory = false;    ///< any host memory counts as the caller's device's
        bool remote_errors = true;  ///< an abort shows as an error on the other ranks' communicators
        bool concurrent = false;    ///< operations of different communicators run at once
        std::uint64_t seed = 1;     ///< of the order in which streams run
    };

    explicit gpu_stand_in(const setting& s);
    ~gpu_stand_in();

    const gpu_runtime& runtime() const noexcept;

    /// What rules were broken so far, in words.
    std::vector<std::string> violations() const;
    /// How often a function of the table has been called, by the name of the real one.
    std::map<std::string, int> calls() const;
    /// What has been made and not been given back: "2 streams, 1 events"; empty if nothing.
    std::string left() const;

    /// The n-th call of the function from now on, counted from 1 over all ranks, returns `code` and does nothing.
    void fail(const std::string& function, int n, int code);

    /// What streams get from now on becomes part of a graph, rather than run.
    void begin_capture(gpu_stream origin);
    struct graph;
    std::shared_ptr<graph> end_capture(gpu_stream origin);
    void launch(const std::shared_ptr<graph>& g, gpu_stream stream);

    /// Streams and memory for the test itself; of the device, released with this.
    gpu_stream make_stream(int device);
    void wait_for(gpu_stream stream);

    struct state;

private:
    std::unique_ptr<state> state_;
};

}  // namespace terrace::detail::test
