! Collectives by the module mpi, or mpi_f08, in place among them; every rank checks what it gets.
program by_module
#ifdef WITH_F08
    use mpi_f08
    implicit none
    type(MPI_Request) :: request
#else
    use mpi
    implicit none
    integer :: request
#endif
    integer :: ranks, rank, i, problem, wrong, total
    integer :: whole(1000), gathered(0:3999)
    double precision :: mine(1000), all(1000), kept(1000)
    complex(kind(1d0)) :: waves(8)

    call MPI_Init(problem)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, problem)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, problem)
    mine = [(rank + i, i = 1, 1000)]
    kept = mine
    whole = rank + 1
    call MPI_Allreduce(mine, all, 1000, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, problem)
    wrong = count(all /= [(ranks * i + ranks * (ranks - 1) / 2, i = 1, 1000)])
    call MPI_Allreduce(MPI_IN_PLACE, whole, 1000, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, problem)
    call MPI_Allgather(rank, 1, MPI_INTEGER, gathered, 1, MPI_INTEGER, MPI_COMM_WORLD, problem)
    wrong = wrong + count(whole /= ranks) + count(gathered(0:ranks - 1) /= [(i, i = 0, ranks - 1)])
    waves = (1d0, -2d0)
    call MPI_Allreduce(MPI_IN_PLACE, waves, 8, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, problem)
    wrong = wrong + count(waves /= ranks * (1d0, -2d0))
    call MPI_Bcast(kept, 1000, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, problem)
    wrong = wrong + count(kept /= [(i, i = 1, 1000)])
    call MPI_Iallreduce(MPI_IN_PLACE, mine, 1000, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, request, problem)
    call MPI_Wait(request, MPI_STATUS_IGNORE, problem)
    wrong = wrong + count(mine /= all)
    call MPI_Reduce(wrong, total, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, problem)
    if (rank == 0) print '(A,I0)', 'wrong: ', total
    call MPI_Finalize(problem)
end program
