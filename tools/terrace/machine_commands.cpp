#include <vector>

#include "tools/common/output_file.hpp"
#include "tools/terrace/command_list.hpp"
#include "transport/known_mpis.hpp"

// Options of the commands about machines and jobs.

namespace terrace::detail {

namespace {

void add_topo(command_list& commands) {
    auto [command, a] =
        commands.add<topo_command>("topo", "Print a machine: levels and rates, what ranks run on, their NICs");
    add_machine_options(command, a.machine);
    CLI::Option* json = command.add_flag("--json", a.json, "print it as JSON");
    command.add_flag("--yaml", a.yaml, "print a cluster file with the same levels, to be edited")->excludes(json);
    command.footer(
        "Examples:\n"
        "  terrace topo cluster.yaml\n"
        "  terrace topo node.xml --json\n"
        "  terrace topo node.xml --network topology.conf --hosts 'tux[0-3,7]'\n"
        "  terrace topo \"package:2 core:4\"");
}

void add_detect(command_list& commands) {
    auto [command, a] = commands.add<detect_command>("detect", "Describe this machine as a cluster file");
    add_output(command, "-o,--output", a.output, "cluster file to write (default: print it)");
    command.add_option("--node-file", a.node_file,
                       "write the machine as hwloc XML to this file, which the cluster file then names");
    add_force(command, a.force);
    add_ranks_option(command, a.ranks, "");
    command.footer(
        "Examples:\n"
        "  terrace detect\n"
        "  terrace detect -o here.yaml --node-file here.xml");
}

void add_doctor(command_list& commands) {
    auto [command, a] =
        commands.add<doctor_command>("doctor", "Say what would trip a run on this machine, and how to mend it");
    command.add_option(
        "--plan", a.plan_file,
        "whether /dev/shm has room for this plan, and, while a job runs here, whether ranks use its NICs");
    command
        .add_option("--dumps", a.dumps,
                    "read the dumps of a stuck job in this directory (TERRACE_DUMP), and say who waits for whom")
        ->check(CLI::ExistingDirectory);
    add_output(command, "--bundle", a.bundle,
               "archive (tar) to write for a report of a problem: this and what `terrace info` and `terrace detect` "
               "print, the plan, variables, the last dumps");
    add_force(command, a.force);
    command.footer(
        "Lines begin with ok, note (may matter) or FIX (will). Exit code 1 if there is a FIX.\n\n"
        "Examples:\n"
        "  terrace doctor\n"
        "  terrace doctor --plan PLAN                        (while a job of that plan runs)\n"
        "  terrace doctor --bundle report.tar                (what to send with a report)\n"
        "  terrace doctor --dumps /tmp/stuck                 (after TERRACE_DUMP=/tmp/stuck/job)\n"
        "  mpirun --hostfile hosts.txt -N 1 terrace doctor   (on every node, with Open MPI)");
}

void add_run(command_list& commands) {
    auto [command, a] =
        commands.add<run_command>("run", "Run an MPI program that knows nothing of Terrace with its collectives");
    command.add_option("-n,--np", a.ranks, "ranks (default: as the launcher counts)")->check(CLI::PositiveNumber);
    command.add_option("--plan", a.plan, "the plan of all ranks (TERRACE_PLAN; default: one is made)")
        ->check(CLI::ExistingFile);
    command.add_option("--report", a.report,
                       "file that says in the end who ran what (TERRACE_PMPI_REPORT); - prints it");
    command.add_option("--mode", a.mode, "auto, on or off, each for some sizes: off:-64K,auto (TERRACE_PMPI)");
    std::vector<std::string> mpis;
    for (const known_mpi& mpi : known_mpis) mpis.emplace_back(mpi.library);
    command.add_option("--mpi", a.mpi, "the program's MPI, where its file does not say: a script, for example")
        ->check(CLI::IsMember(mpis));
    command.add_option("--launcher", a.launcher, "more arguments of mpirun, as in '--hostfile hosts.txt'");
    command.add_flag("--print", a.prints, "print the line, and run nothing");
    command.add_option("PROGRAM", a.program, "the program and its arguments, after --")->required();
    command.footer(
        "Prints the line of mpirun that loads the drop-in, and runs it.\n\n"
        "Examples:\n"
        "  terrace run -n 12 -- ./solver input.txt\n"
        "  terrace run -n 12 --plan cluster.plan.yaml --report report.json -- ./solver input.txt\n"
        "  terrace run -n 12 --mpi openmpi -- python3 script.py\n"
        "  terrace run --launcher '--hostfile hosts.txt' --print -- ./solver");
}

void add_info(command_list& commands) {
    auto [command, a] =
        commands.add<info_command>("info", "Say what this Terrace is, was built with, and reads from the environment");
    command.add_flag("--json", a.json, "Print JSON");
    command.footer(
        "Exit code 1 if the environment has a TERRACE_* variable that is unknown or has a bad value.\n\n"
        "Examples:\n"
        "  terrace info\n"
        "  terrace info --help");
}

}  // namespace

void add_machine_commands(command_list& commands) {
    add_topo(commands);
    add_detect(commands);
    add_doctor(commands);
    add_run(commands);
    add_info(commands);
}

}  // namespace terrace::detail
