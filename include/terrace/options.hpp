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

/// The importance of a line for options::log: warnings, one line per communicator, one line per shape of call.
enum class log_level { warn, info, debug };

/// Ports of TCP, both ends included. 0: the kernel chooses.
struct port_range {
    int first = 0, last = 0;
};

/// The settings of a communicator. The defaults suit production. All ranks pass the same, except for `log`,
/// `plan_file`, `plan_cache`, `topology_address`, `threads`, `memory`, `dump_file`, `rank`, `ports`, the modules
/// and `launched_processes`.
struct TERRACE_API options {
    /// Receives lines without a newline. At level info a communicator writes one line, on its rank 0. Null: nothing is
    /// written. Called by a thread that uses the communicator, or by the communicator's own. It must not call the
    /// communicator, whose lock may be held.
    std::function<void(log_level, std::string_view)> log;

    /// The plan file of communicators that are created without a plan. Each rank may read a copy of its own. Empty:
    /// a plan is made for the job.
    std::filesystem::path plan_file;

    /// The directory in which rank 0 keeps the plans that are made for jobs, by the shape and rates of the machine, and
    /// finds them again; made if it is missing. At most 64 are kept: the least recently used are removed. Empty: each
    /// job plans anew.
    std::filesystem::path plan_cache;

    /// The place of this rank's node in the network, from which plans that are made for jobs have their levels above
    /// nodes: names of switches (or racks, blocks) and at last of the node, outermost first, as in
    /// "spine0.leaf3.node7"; after a blank, what each is: "zone.rack.node". Without the latter, levels are called leaf,
    /// spine, core. Ranks of one node pass the same, and no other node has it. from_environment() takes Slurm's
    /// SLURM_TOPOLOGY_ADDR where TERRACE_TOPOLOGY_ADDR is not set. Empty: one level joins all nodes.
    std::string topology_address;

    /// The longest wait for other ranks of a call, and of NCCL at creation (MPI has no limit there) [s]; 0: no limit.
    std::chrono::duration<double> timeout = std::chrono::minutes(10);

    /// How long a rank that waits may take to find that another one has failed [s]: its process has ended (which is
    /// found at once), it is stopped, or its node cannot be reached. A rank that computes is never given up, however
    /// long it takes. 0: nobody looks, and `timeout` alone counts. docs/reference/failures.md says what is noticed by
    /// what.
    std::chrono::duration<double> failure_timeout = std::chrono::seconds(10);

    /// When calls are compared between ranks before they run: never, the first time that a shape is used, or always.
    /// Ranks whose calls differ in count, type, op, root or order then get an error and not wrong data.
    /// docs/reference/call-checking.md says what each level finds, and what it costs.
    enum class checking { off, first, every };
    checking check = checking::first;

    /// Where ranks must run: on the plan's nodes, or anywhere. `anywhere` is for tests, and for trying the plan of a
    /// cluster on one machine.
    enum class placement { by_node, anywhere };
    placement place = placement::by_node;

    /// True if ranks of one machine node reduce in shared memory.
    bool shared_memory = true;

    /// True if results have the same bits whatever the plan, the transport, and how vectors are joined: each element is
    /// reduced by one tree over the ranks (docs/explanation/reproducible.md). For buffers of the host. That page
    /// says what it costs.
    bool reproducible = false;

    /// True if sums and averages of floats are rounded to the wire types that the plan names for links
    /// (docs/explanation/wire-types.md). Other reductions then throw usage_error where the plan names one, unless they
    /// are exact(...). Not together with `reproducible`. For buffers of the host.
    bool rounds_on_wire = false;

    /// The most that an element of such a sum may be away from the exact one, as a part of the sum over ranks of the
    /// largest magnitude that each passes in: worked out from the wire types of the plan's rule. Where int8 would
    /// exceed it, bfloat16 is used, and where that would, nothing is rounded. 0: no limit, which a plan with wire: auto
    /// refuses.
    double wire_error = 0;

    /// What becomes of a link that carries less than before: nothing; a line of the log names it, where there is one;
    /// or all ranks also change to a plan that rank 0 makes for the machine as it is, and back. The same on all ranks.
    /// `on` is not together with `rounds_on_wire`. docs/guides/slow-links.md says what is noticed.
    enum class adapting { off, name, on };
    adapting adapt = adapting::name;

    /// True if the communicator has a thread that moves its calls along while the caller computes. The thread uses most
    /// of a core while calls are in flight, and sleeps otherwise. It is bound to one of the last cores that the process
    /// may run on. Requires MPI_THREAD_MULTIPLE. Pays where computing leaves a core free.
    bool progress_thread = false;

    /// Which threads may call: one at a time, or any number at any time. With `any`, requests may be waited for by
    /// other threads than the one that made the call, and a thread of the communicator moves calls along while several
    /// wait. Calls are ordered by their arrival, or by numbers (communicator::group_start). docs/guides/threads.md.
    /// Requires MPI_THREAD_MULTIPLE.
    enum class threading { serialized, any };
    threading threads = threading::serialized;

    /// The most memory that this rank keeps for calls to come [bytes]: programs of shapes that it has called, and
    /// scratch memory, which calls borrow while they run. What has not been used for longest goes first. Calls in
    /// flight have what they need in any case. Programs for device buffers have the same limit by themselves.
    /// docs/reference/memory.md says how much calls need.
    std::size_t memory = std::size_t{128} << 20;

    /// The file to which ranks append a trace of their calls when a communicator is destroyed: a Chrome trace, for
    /// chrome://tracing or ui.perfetto.dev. Rank 0 begins the file when the communicator is created; if it cannot, all
    /// ranks throw usage_error. Empty: no trace.
    std::filesystem::path trace_file;

    /// The directory to which the plan's rank 0 writes the times of calls when a communicator is destroyed, for
    /// `terrace plan --profile`: of calls that are waited for at once, without rounding on the wire or reproducible
    /// bits. Only that rank uses it. Empty: none.
    std::filesystem::path profile_directory;

    /// The directory to which each rank writes communicator::statistics when a communicator is destroyed, and beside a
    /// dump, for `terrace report`. A directory for each job. Empty: none.
    std::filesystem::path statistics_directory;

    /// The file that each rank keeps in Prometheus' text format while it waits and every five seconds, for the textfile
    /// collector of node_exporter: a file of the node, which its ranks share. It goes with their communicators. Empty:
    /// none.
    std::filesystem::path metrics_file;

    /// The file to which a rank writes its last operations and what it waits for, as JSON (.RANK.json is added to the
    /// name): when a call times out, and while it waits if the process receives SIGUSR1. Empty: no dumps, and the
    /// process's handler of SIGUSR1 stays as it is.
    std::filesystem::path dump_file;

    /// Without MPI, where ranks find one another (docs/guides/without-mpi.md): "pmix", whose launcher numbers the
    /// ranks, or "file:DIRECTORY", which all ranks see. Empty: pmix.
    std::string bootstrap;
    /// With a directory: this rank, 0 ... size - 1, and how many there are.
    int rank = -1, size = 0;
    /// With a directory or a store: the numbers of these ranks in the whole job, by rank, where they are a group of it.
    /// Messages that name a rank say both. Empty: the same numbers. Parts that split() makes need nothing.
    std::vector<int> world_ranks;

    /// The ports at which this rank listens, of lifelines and of UCX: docs/reference/ports.md.
    port_range ports{};

    /// The module for the program's MPI. Empty: terrace-openmpi.so or its like beside the library or the
    /// program, or where it is installed.
    std::filesystem::path mpi_module;

    /// How many processes the launcher has started; 0: unknown. mpi::create warns if MPI has fewer: the launcher is
    /// then another MPI's than the program's, and each process is a job of its own. from_environment() reads it from
    /// what mpirun and srun set, in the first process of the job alone, so that one process warns.
    int launched_processes = 0;

    /// Whether the launcher lets ranks go on where others have died: mpirun --enable-recovery of Open MPI 4.1 or
    /// --with-ft ulfm of Open MPI 5, as from_environment() finds out. mpi::create then makes eight MPI communicators in
    /// reserve, each for one shrink(), and MPI looks at its connections before each message.
    bool outlives_deaths = false;

    /// The module for device buffers. Empty: terrace-nccl.so beside the library or the program, or where it is
    /// installed.
    std::filesystem::path gpu_module;

    /// Returns the options that the TERRACE_* variables of the environment say (docs/reference/environment.md); `log`
    /// writes to standard error. Warns there of TERRACE_* variables that are unknown. Terrace reads the environment
    /// nowhere else.
    /// @throws input_error naming the variable, its value, and the allowed values
    static options from_environment();
};

}  // namespace terrace
