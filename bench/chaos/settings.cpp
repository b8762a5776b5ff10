#include "bench/chaos/settings.hpp"

#include <CLI/CLI.hpp>

#include "bench/option_words.hpp"

namespace terrace::detail::bench {

namespace {

struct chaos_line {
    chaos_settings s;
    CLI::App app{
        "Kills ranks, one after the other, at random points of random calls, and says whether the others name the "
        "right "
        "one,\nhow soon, and how soon they go on without it. As many ranks as are killed do not come back.",
        "--chaos"};

    chaos_line() {
        app.add_option("--chaos", s.failures, "how many ranks to kill; one at least is left")
            ->required()
            ->check(number_of(1))
            ->type_name("N");
        app.add_option("--plan", s.plan_file, "plan file, made by: terrace plan")->required()->type_name("FILE");
        app.add_option("--seed", s.seed, "which ranks are killed, and when")->type_name("N")->capture_default_str();
        add_placement(app, s.place);
        add_transport(app, s.ucx);
        app.footer(R"(
Over Open MPI 4.1 ranks survive under mpirun --enable-recovery alone, over Open MPI 5 under mpirun --with-ft ulfm
--runtime-options error-nonzero-status=0. mpirun itself may not end: interrupt it. Over MPICH ranks do not survive.

Examples:
  mpirun --enable-recovery -np 8 terrace-bench --chaos 3 --plan plan.yaml
  tools/vcluster run --mpi-arg=--enable-recovery -- terrace-bench --chaos 3 --plan plan.yaml

Exit status: 0 fine, 1 a wrong rank was named, a wrong result or another failure, 2 bad usage or input.)");
    }
    chaos_line(const chaos_line&) = delete;
    chaos_line& operator=(const chaos_line&) = delete;
};

}  // namespace

std::variant<chaos_settings, answer> parse_chaos_settings(int argc, const char* const* argv) {
    return parse_mode<chaos_settings, chaos_line>("terrace-bench --chaos", argc, argv);
}

std::shared_ptr<CLI::App> chaos_page() { return page_of<chaos_line>(); }

}  // namespace terrace::detail::bench
