#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string_view>

#include <terrace/export.hpp>

namespace terrace {

enum class log_level { warn, info, debug };

/// How a communicator behaves. The defaults suit production. All ranks pass the same, but for `log` and `plan_file`.
struct TERRACE_API options {
    /// Receives one line without a newline: at level info one per communicator, on its rank 0. Null: silent. Called
    /// from the thread that uses the communicator, or its progress thread.
    std::function<void(log_level, std::string_view)> log;

    /// The plan of communicators that are created without one. Each rank may have a copy of its own. Empty: over MPI a
    /// plan is made for the job as it is.
    std::filesystem::path plan_file;

    /// How long creating a communicator, and each call, may wait for other ranks [s]; 0: for ever.
    std::chrono::duration<double> timeout = std::chrono::minutes(10);

    /// Whether calls are compared between ranks before they run, so that ranks that differ in count, type, op, root or
    /// order get an error rather than wrong data: never, where a call is the first of its shape, or always
    /// (docs/bad-calls.md says what each level finds, and what it costs).
    enum class checking { off, first, every };
    checking check = checking::first;

    /// Where ranks must be: the plan's nodes are the machine's nodes, or (for tests, and to try a plan on one machine)
    /// wherever they happen to run.
    enum class placement { by_node, anywhere };
    placement place = placement::by_node;

    /// Whether ranks of one machine node reduce in shared memory; the same on all ranks.
    bool shared_memory = true;

    /// Whether a thread of the communicator's moves its calls along, so that they proceed while the caller computes. It
    /// takes most of a core while calls are in flight, and sleeps else; it is bound to one of the last cores that the
    /// process may run on. Needs MPI_THREAD_MULTIPLE. Pays where computing leaves a core free.
    bool progress_thread = false;

    /// Where each communicator appends what its ranks did when it is destroyed: a Chrome trace, for chrome://tracing or
    /// ui.perfetto.dev. Empty: nowhere. The same on all ranks. Its rank 0 begins the file when it is created, and all
    /// ranks throw usage_error where it cannot.
    std::filesystem::path trace_file;

    /// Where a rank writes the last things it did, and what it waits for, as JSON (the name with .RANK.json behind it),
    /// when a call times out, and while it waits when the process gets SIGUSR1. Empty: nowhere, and SIGUSR1 is left
    /// alone.
    std::filesystem::path dump_file;

    /// The module for device buffers; empty: terrace-nccl.so beside the library or the program, or where it is
    /// installed.
    std::filesystem::path gpu_module;

    /// The options that the TERRACE_* variables of the environment say (docs/environment.md); `log` writes to standard
    /// error. Warns there of TERRACE_* variables that mean nothing. Terrace reads the environment nowhere else.
    /// @throws input_error naming the variable, its value, and what is allowed
    static options from_environment();
};

}  // namespace terrace
