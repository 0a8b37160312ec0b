! ranks: 1 2
! Parts of the strings of an array: elements shorter than their distance.
program substrings
  use mpi_f08
  implicit none
  integer :: me, np
  character(len=8) :: dates(3)
  character(len=2) :: months(3)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  dates = ['20240131', '20250228', '20260331']
  months = ''
  call MPI_Sendrecv(dates(:)(5:6), 6, MPI_CHARACTER, modulo(me + 1, np), 1, months, 6, &
                    MPI_CHARACTER, modulo(me - 1, np), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(months /= ['01', '02', '03'])) error stop 'the months'
  call MPI_Sendrecv(months(3:1:-1), 6, MPI_CHARACTER, me, 2, dates(:)(7:8), 6, MPI_CHARACTER, &
                    me, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(dates /= ['20240103', '20250202', '20260301'])) error stop 'the days'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
