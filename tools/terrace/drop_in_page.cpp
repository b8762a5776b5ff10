#include "tools/terrace/commands.hpp"

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "pmpi/variables.hpp"
#include "tools/common/pages.hpp"

namespace terrace::detail {

namespace {

constexpr const char* name_to_description = R"(.SH NAME
libterrace\-pmpi \- collectives of MPI programs by Terrace, without changing them
.SH SYNOPSIS
.B terrace run \-n
RANKS [OPTIONS]
.B \-\-
PROGRAM ...
.PP
.B mpirun \-np
RANKS
.B \-x LD_PRELOAD=\fILIBDIR\fP/terrace/openmpi/libterrace\-pmpi.so
PROGRAM ...
.PP
.B mpiexec \-np
RANKS
.B \-env LD_PRELOAD \fILIBDIR\fP/terrace/mpich/libterrace\-pmpi.so
PROGRAM ...
.SH DESCRIPTION
The library is loaded before MPI, and runs the collectives of a program that knows nothing of Terrace where a trial
finds Terrace faster. Calls that it does not run pass to MPI unchanged. There is one library for Open MPI, and one for
MPICH and MPIs with its binary interface; programs may be in C, C++ and Fortran.
.PP
.B terrace run
prints and runs the whole line, for the MPI that the program is linked to. In place of being loaded by a variable the
library may be linked before MPI:
.B \-L\fILIBDIR\fP/terrace/openmpi \-lterrace\-pmpi
.PP
With TERRACE_PMPI_REPORT rank 0 writes in the end who ran what, how long it took, and why calls passed to MPI:
.B terrace report
FILE shows it.
.SH ENVIRONMENT
)";

constexpr const char* files_to_end = R"(.PP
The plan, the deadline of calls, the log and what else the library reads are set as for programs that use it:
.B terrace info
lists all variables.
.SH FILES
.TP
.I LIBDIR/terrace/openmpi/libterrace\-pmpi.so
for Open MPI
.TP
.I LIBDIR/terrace/mpich/libterrace\-pmpi.so
for MPICH
.SH SEE ALSO
.BR terrace (1),
.BR terrace\-bench (1)
)";

}  // namespace

std::string drop_in_page() {
    std::string text =
        fmt::format(".TH LIBTERRACE\\-PMPI 7 \"\" \"Terrace {}\" \"Terrace\"\n{}", version(), name_to_description);
    for (const variable& v : pmpi::drop_in_variables()) {
        const std::string usual = v.fallback.empty() ? "" : fmt::format("; default: {}", v.fallback);
        text += fmt::format(".TP\n.B {}\n{}\n", roff(std::string(v.name)),
                            roff(fmt::format("{} ({}{})", v.meaning, v.allowed, usual)));
    }
    return text + files_to_end;
}

}  // namespace terrace::detail
