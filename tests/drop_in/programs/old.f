C     Collectives by mpif.h, in place among them; every rank checks what it
C     gets.
      program old
      implicit none
      include 'mpif.h'
      integer ranks, rank, i, problem, wrong, request
      integer whole(1000), gathered(4000)
      double precision mine(1000), all(1000)
      call MPI_Init(problem)
      call MPI_Comm_size(MPI_COMM_WORLD, ranks, problem)
      call MPI_Comm_rank(MPI_COMM_WORLD, rank, problem)
      wrong = 0
      do i = 1, 1000
        mine(i) = rank + i
        whole(i) = rank + 1
      end do
      call MPI_Allreduce(mine, all, 1000, MPI_DOUBLE_PRECISION,
     &                   MPI_SUM, MPI_COMM_WORLD, problem)
      do i = 1, 1000
        if (all(i) .ne. ranks * i + ranks * (ranks - 1) / 2)
     &    wrong = wrong + 1
      end do
      call MPI_Allreduce(MPI_IN_PLACE, whole, 1000, MPI_INTEGER,
     &                   MPI_MAX, MPI_COMM_WORLD, problem)
      call MPI_Allgather(rank, 1, MPI_INTEGER, gathered, 1,
     &                   MPI_INTEGER, MPI_COMM_WORLD, problem)
      do i = 1, ranks
        if (whole(i) .ne. ranks .or. gathered(i) .ne. i - 1)
     &    wrong = wrong + 1
      end do
      call MPI_Bcast(all, 1000, MPI_DOUBLE_PRECISION, 0,
     &               MPI_COMM_WORLD, problem)
      call MPI_Iallreduce(MPI_IN_PLACE, mine, 1000,
     &                    MPI_DOUBLE_PRECISION, MPI_SUM,
     &                    MPI_COMM_WORLD, request, problem)
      call MPI_Wait(request, MPI_STATUS_IGNORE, problem)
      do i = 1, 1000
        if (mine(i) .ne. all(i)) wrong = wrong + 1
      end do
      call MPI_Reduce(wrong, i, 1, MPI_INTEGER, MPI_SUM, 0,
     &                MPI_COMM_WORLD, problem)
      if (rank .eq. 0) print '(A,I0)', 'wrong: ', i
      call MPI_Finalize(problem)
      end
