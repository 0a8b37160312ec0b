! ranks: 1 2
! options: -fopenmp
! not for flang: its OpenMP library is a package of its own
! OpenMP threads that send and receive at the same time, with tags of their own.
program threads
  use mpi_f08
  use omp_lib
  implicit none
  integer, parameter :: n = 4, rounds = 20
  integer :: me, np, provided, faults, k, t, value, got
  logical :: main
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided)
  if (provided /= MPI_THREAD_MULTIPLE) error stop 'the level of threads'
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_Is_thread_main(main)
  if (.not. main) error stop 'the main thread'
  faults = 0
  !$omp parallel num_threads(n) private(k, t, value, got) reduction(+:faults)
  t = omp_get_thread_num()
  do k = 1, rounds
    value = 1000 * me + 100 * t + k
    got = -1
    call MPI_Sendrecv(value, 1, MPI_INTEGER, modulo(me + 1, np), t, got, 1, MPI_INTEGER, &
                      modulo(me - 1, np), t, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    if (got /= 1000 * modulo(me - 1, np) + 100 * t + k) faults = faults + 1
  end do
  !$omp end parallel
  if (faults /= 0) error stop 'the messages of threads'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
