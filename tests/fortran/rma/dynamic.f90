! ranks: 2
! A window to which memory is attached when it exists.
program dynamic
  use mpi_f08
  implicit none
  integer :: me
  integer, allocatable, target, asynchronous :: grown(:)
  integer, asynchronous :: got(3)
  integer(MPI_ADDRESS_KIND) :: here, there
  type(MPI_Win) :: win
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win)
  allocate (grown(10))
  grown = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14] * (me + 1)
  call MPI_Win_attach(win, grown, 40_MPI_ADDRESS_KIND)
  call MPI_Get_address(grown(4), here)
  call MPI_Sendrecv(here, 1, MPI_AINT, 1 - me, 1, there, 1, MPI_AINT, 1 - me, 1, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE)
  call MPI_Win_fence(0, win)
  call MPI_Get(got, 3, MPI_INTEGER, 1 - me, there, 3, MPI_INTEGER, win)
  call MPI_Win_fence(0, win)
  if (any(got /= [8, 9, 10] * (2 - me))) error stop 'what is there'
  there = MPI_Aint_add(there, 8_MPI_ADDRESS_KIND)
  got(1) = 100 + me
  call MPI_Put(got, 1, MPI_INTEGER, 1 - me, there, 1, MPI_INTEGER, win)
  call MPI_Win_fence(0, win)
  if (grown(6) /= 101 - me .or. grown(5) /= 9 * (me + 1)) error stop 'what was put'
  call MPI_Win_detach(win, grown)
  deallocate (grown)
  call MPI_Win_free(win)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
