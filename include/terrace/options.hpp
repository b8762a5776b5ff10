#pragma once

#include <terrace/export.hpp>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace terrace {

/// The level of a line for options::log: warnings; one line per communicator; one line per shape of call.
enum class log_level { warn, info, debug };

/// A range of TCP ports, both ends included. 0: the kernel chooses.
struct port_range {
    int first = 0, last = 0;
};

/// The settings of a communicator. The defaults suit production. All ranks pass the same values, except for `log`,
/// `plan_file`, `plan_cache`, `topology_address`, `threads`, `memory`, `dump_file`, `rank`, `ports`, the modules and
/// `launched_processes`.
struct TERRACE_API options {
    /// Receives log lines, without a newline. At level info a communicator writes one line, on its rank 0. Null:
    /// nothing is written. Called by a thread that uses the communicator, or by the communicator's own thread. Must not
    /// call the communicator, whose lock may be held.
    std::function<void(log_level, std::string_view)> log;

    /// The plan file of communicators that are created without a plan. Each rank may read a copy of its own. Empty:
    /// a plan is made for the job.
    std::filesystem::path plan_file;

    /// The directory in which rank 0 keeps plans made for jobs, and finds them again by the shape and rates of the
    /// machine. Created if it is missing. Keeps at most 64 plans: the least recently used are removed. Empty: each job
    /// plans anew.
    std::filesystem::path plan_cache;

    /// The place of this rank's node in the network: the names of switches (or racks, blocks) and last of the node,
    /// outermost first, as in "spine0.leaf3.node7". The kind of each may follow after a blank: "zone.rack.node"; else
    /// levels are called leaf, spine, core. Plans made for jobs get their levels above nodes from it. Ranks of one node
    /// pass the same address, and each node has another. from_environment() uses Slurm's SLURM_TOPOLOGY_ADDR if
    /// TERRACE_TOPOLOGY_ADDR is not set. Empty: one level joins all nodes.
    std::string topology_address;

    /// The longest wait of a call for other ranks, and of creation (over MPI only of NCCL's part) [s]; 0: no limit.
    std::chrono::duration<double> timeout = std::chrono::minutes(10);

    /// The longest time until a waiting rank detects that another rank has failed [s]: its process has ended (detected
    /// at once), it is stopped, or its node cannot be reached. A rank that computes never counts as failed, however
    /// long it computes. 0: no detection, only `timeout`. docs/reference/failures.md lists how each failure is
    /// detected.
    std::chrono::duration<double> failure_timeout = std::chrono::seconds(10);

    /// When calls are compared between ranks before they run: never, at the first use of a shape, or always. Ranks
    /// whose calls differ in count, type, op, root or order then get an error instead of wrong data.
    /// docs/reference/call-checking.md describes what each level detects, and its cost.
    enum class checking { off, first, every };
    checking check = checking::first;

    /// Where ranks must run: on the plan's nodes, or anywhere. `anywhere` is for tests, and for trying the plan of a
    /// cluster on one machine.
    enum class placement { by_node, anywhere };
    placement place = placement::by_node;

    /// True: ranks of one machine node reduce in shared memory. False: they exchange messages.
    bool shared_memory = true;

    /// True: results have the same bits for any plan and transport, and with or without groups of calls. Each element
    /// is reduced by one tree over the ranks. For host buffers. docs/explanation/reproducible.md describes the tree and
    /// its cost.
    bool reproducible = false;

    /// True: sums and averages of floats are rounded to the wire types that the plan names for links
    /// (docs/explanation/wire-types.md). Other reductions then throw usage_error if their rule names one, unless they
    /// are exact(...). Excludes `reproducible`. For host buffers.
    bool rounds_on_wire = false;

    /// The largest allowed error of an element of such a sum, relative to the sum over ranks of the largest magnitude
    /// that each passes in. The bound follows from the wire types of the plan's rule. If int8 would exceed it, bfloat16
    /// is used; if bfloat16 would, nothing is rounded. 0: no limit; plans with wire: auto are then refused.
    double wire_error = 0;

    /// The reaction to a link that becomes slower: none; a warning in the log names it, if there is a log; or all ranks
    /// also change to a plan that rank 0 makes for the machine as it is, and back. The same on all ranks. `on` excludes
    /// `rounds_on_wire`. docs/guides/slow-links.md describes which links are detected.
    enum class adapting { off, name, on };
    adapting adapt = adapting::name;

    /// True: a thread of the communicator makes progress on its calls while the caller computes. The thread uses most
    /// of a core while calls are in flight, and sleeps otherwise. It is bound to one of the last cores that the process
    /// may run on. Requires MPI_THREAD_MULTIPLE over MPI. Useful if computing leaves a core free.
    bool progress_thread = false;

    /// The threads that may call: one at a time, or any number at any time. With `any`, other threads than the one that
    /// made a call may wait for its request, and a thread of the communicator makes progress while several wait. Calls
    /// are ordered by their arrival, or by numbers (communicator::group_start). docs/guides/threads.md. Requires
    /// MPI_THREAD_MULTIPLE over MPI.
    enum class threading { serialized, any };
    threading threads = threading::serialized;

    /// The most memory that this rank keeps for later calls [bytes]: programs of shapes that it has called, and scratch
    /// memory, which calls borrow while they run. The least recently used is freed first. Calls in flight always get
    /// the memory that they need. Programs for device buffers have a limit of the same size of their own.
    /// docs/reference/memory.md describes how much calls need.
    std::size_t memory = std::size_t{128} << 20;

    /// The file to which ranks append a trace of their calls when a communicator is destroyed: a Chrome trace, for
    /// chrome://tracing or ui.perfetto.dev. Rank 0 empties the file when the communicator is created; if it cannot, all
    /// ranks throw usage_error. Empty: no trace.
    std::filesystem::path trace_file;

    /// The directory to which the plan's rank 0 writes times of calls when a communicator is destroyed, for `terrace
    /// plan --profile`. Only calls that are waited for at once count, without `rounds_on_wire` and `reproducible`.
    /// Other ranks do not use the directory. Empty: no profile.
    std::filesystem::path profile_directory;

    /// The directory to which each rank writes communicator::statistics when a communicator is destroyed, and beside a
    /// dump, for `terrace report`. Use a directory for each job. Empty: none.
    std::filesystem::path statistics_directory;

    /// The file in Prometheus' text format that the ranks of a node share, for the textfile collector of node_exporter.
    /// A rank renews its lines every five seconds while it waits in calls, and removes them when its last communicator
    /// ends. Empty: none.
    std::filesystem::path metrics_file;

    /// The file to which a rank writes its last operations and what it waits for, as JSON (.RANK.json is added to the
    /// name). Written when a call times out or ranks have failed, and at SIGUSR1 while the rank waits. Empty: no dumps,
    /// and the process's handler of SIGUSR1 is unchanged.
    std::filesystem::path dump_file;

    /// How ranks find one another without MPI (docs/guides/without-mpi.md): "pmix", whose launcher numbers the ranks,
    /// or "file:DIRECTORY", a directory that all ranks see. Empty: pmix.
    std::string bootstrap;
    /// With a directory: the number of this rank, 0 ... size - 1, and the number of ranks.
    int rank = -1, size = 0;
    /// With a directory or a store, if these ranks are part of a larger job: the number of each rank in the whole job.
    /// Error messages then have both numbers of a rank. Empty: the numbers are equal. Not needed for parts made by
    /// split().
    std::vector<int> world_ranks;

    /// The ports at which this rank listens, for lifelines, the bootstrap and UCX: docs/reference/ports.md.
    port_range ports{};

    /// The module for the program's MPI. Empty: terrace-openmpi.so, or that of another MPI, beside the library or the
    /// program, or in its installed place.
    std::filesystem::path mpi_module;

    /// The number of processes that the launcher has started; 0: unknown. mpi::create warns if MPI has fewer: the
    /// launcher then belongs to another MPI than the program, and each process is a job of its own. from_environment()
    /// reads the number from variables of mpirun and srun, only in the first process of the job, so one process warns.
    int launched_processes = 0;

    /// True if the launcher lets ranks go on after others have died: mpirun --enable-recovery of Open MPI 4.1 or
    /// --with-ft ulfm of Open MPI 5. from_environment() detects both. mpi::create then makes eight MPI communicators in
    /// reserve, one for each shrink(), and MPI checks its connections before each message.
    bool outlives_deaths = false;

    /// The module for device buffers. Empty: terrace-nccl.so beside the library or the program, or in its installed
    /// place.
    std::filesystem::path gpu_module;

    /// Returns options with the values of the environment's TERRACE_* variables (docs/reference/environment.md). `log`
    /// writes to standard error, and gets a warning for each unknown TERRACE_* variable. The library reads these
    /// variables nowhere else.
    /// @throws input_error naming the variable, its value, and the allowed values
    static options from_environment();
};

}  // namespace terrace
