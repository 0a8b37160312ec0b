! ranks: 1 2
! Sections and arrays without an element.
program nothing
  use mpi_f08
  implicit none
  integer :: me, np, n, a(5), i
  integer, allocatable :: none(:), rows(:,:)
  type(MPI_Status) :: status
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  allocate (none(0), rows(0,3))
  a = [(i, i=1, 5)]
  call MPI_Sendrecv(a(4:3), 0, MPI_INTEGER, me, 1, a(5:1), 0, MPI_INTEGER, me, 1, &
                    MPI_COMM_WORLD, status)
  call MPI_Get_count(status, MPI_INTEGER, n)
  if (n /= 0) error stop 'the length'
  call MPI_Sendrecv(none, 0, MPI_INTEGER, me, 2, rows, 0, MPI_INTEGER, me, 2, &
                    MPI_COMM_WORLD, status)
  call MPI_Sendrecv(rows(:,2), 0, MPI_INTEGER, me, 3, a(1:5:2), 3, MPI_INTEGER, me, 3, &
                    MPI_COMM_WORLD, status)
  call MPI_Get_count(status, MPI_INTEGER, n)
  if (n /= 0 .or. any(a /= [(i, i=1, 5)])) error stop 'nothing into a section'
  call MPI_Bcast(a(2:1), 0, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call MPI_Allreduce(none, rows, 0, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  ! The first process has nothing to gather.
  call MPI_Gatherv(a(1:2*me:2), me, MPI_INTEGER, a(2:2*np:2), [(i, i=0, np-1)], [(0, i=1, np)], &
                   MPI_INTEGER, 0, MPI_COMM_WORLD)
  if (me == 0 .and. np == 2 .and. any(a /= [1, 1, 3, 4, 5])) error stop 'gathered'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
