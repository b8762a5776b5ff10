// Solves the Poisson equation on a square by conjugate gradients, with MPI alone: a program for the drop-in.
//
//     terrace run -n 4 --report report.json -- ./conjugate_gradient 256
//
// Rows of the grid are spread over ranks. An iteration has two allreduces of a number, and exchanges rows with the two
// neighbours. In the end every rank gathers the whole solution.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <mpi.h>

namespace {

using vector = std::vector<double>;

struct grid {
    int n, rank, ranks;
    std::vector<int> rows, begins;  // by rank: elements, and where they begin
    std::size_t own() const { return static_cast<std::size_t>(rows[static_cast<std::size_t>(rank)]); }
};

grid make_grid(int n) {
    grid g{n, 0, 0, {}, {}};
    MPI_Comm_rank(MPI_COMM_WORLD, &g.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &g.ranks);
    for (int r = 0, at = 0; r < g.ranks; ++r) {
        g.rows.push_back((n / g.ranks + (r < n % g.ranks ? 1 : 0)) * n);
        g.begins.push_back(at);
        at += g.rows.back();
    }
    return g;
}

double dot(const vector& a, const vector& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

// out = A x, where A is the five-point stencil.
void multiply(const grid& g, const vector& x, vector& out) {
    const auto n = static_cast<std::size_t>(g.n);
    vector above(n, 0), below(n, 0);
    const int up = g.rank > 0 ? g.rank - 1 : MPI_PROC_NULL, down = g.rank + 1 < g.ranks ? g.rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(x.data(), g.n, MPI_DOUBLE, up, 0, below.data(), g.n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(x.data() + x.size() - n, g.n, MPI_DOUBLE, down, 1, above.data(), g.n, MPI_DOUBLE, up, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t column = i % n;
        const double left = column > 0 ? x[i - 1] : 0, right = column + 1 < n ? x[i + 1] : 0;
        const double over = i >= n ? x[i - n] : above[column], under = i + n < x.size() ? x[i + n] : below[column];
        out[i] = 4 * x[i] - left - right - over - under;
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const grid g = make_grid(argc > 1 ? std::atoi(argv[1]) : 64);
    if (g.n < g.ranks) MPI_Abort(MPI_COMM_WORLD, 2);
    vector x(g.own(), 0), r(g.own(), 1), p = r, ap(g.own());
    double error = dot(r, r);
    const double begin = MPI_Wtime(), goal = 1e-12 * error;
    int iterations = 0;
    for (; error > goal && iterations < 10 * g.n; ++iterations) {
        multiply(g, p, ap);
        const double step = error / dot(p, ap);
        for (std::size_t i = 0; i < x.size(); ++i) {
            x[i] += step * p[i];
            r[i] -= step * ap[i];
        }
        const double next = dot(r, r);
        for (std::size_t i = 0; i < p.size(); ++i) p[i] = r[i] + next / error * p[i];
        error = next;
    }
    vector all(static_cast<std::size_t>(g.n) * static_cast<std::size_t>(g.n));
    MPI_Allgatherv(x.data(), static_cast<int>(x.size()), MPI_DOUBLE, all.data(), g.rows.data(), g.begins.data(),
                   MPI_DOUBLE, MPI_COMM_WORLD);
    if (g.rank == 0)
        std::printf("%d iterations, the middle is %.6f, %.3f s\n", iterations, all[all.size() / 2 + all.size() % 2],
                    MPI_Wtime() - begin);
    MPI_Finalize();
}
