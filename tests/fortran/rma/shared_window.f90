! ranks: 1 2 4
! Memory that the processes of a node share, as a Fortran pointer.
program shared_window
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer, parameter :: n = 5
  integer :: me, np, unit, r, i
  type(MPI_Win) :: win
  type(c_ptr) :: own, there
  integer(MPI_ADDRESS_KIND) :: bytes
  real(kind(1d0)), pointer, volatile :: mine(:), other(:)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_Win_allocate_shared(int(8 * n, MPI_ADDRESS_KIND), 8, MPI_INFO_NULL, &
                               MPI_COMM_WORLD, own, win)
  call c_f_pointer(own, mine, [n])
  call MPI_Win_lock_all(MPI_MODE_NOCHECK, win)
  mine = [(me + i / 16d0, i=1, n)]
  call MPI_Win_sync(win)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Win_sync(win)
  do r = 0, np - 1
    call MPI_Win_shared_query(win, r, bytes, unit, there)
    if (bytes /= 8 * n .or. unit /= 8) error stop 'the size of a part'
    call c_f_pointer(there, other, [n])
    if (any(other /= [(r + i / 16d0, i=1, n)])) error stop 'the memory of another process'
  end do
  ! By default the parts lie one behind the other.
  call MPI_Win_shared_query(win, MPI_PROC_NULL, bytes, unit, there)
  call c_f_pointer(there, other, [n * np])
  if (other(n * np) /= np - 1 + n / 16d0) error stop 'the end of the memory'
  call MPI_Win_unlock_all(win)
  call MPI_Win_free(win)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
